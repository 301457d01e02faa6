# Imports streams of telemetry.berth.hcl: the scores by name, as far as they are
# high, and what is raw by its properties. Either job may be submitted first.

variable "programs" {
  type        = string
  default     = "/opt/app"
  description = "the folder with the program alerts"
}

job "alerts" {
  type        = "stream"
  datacenters = ["*"]

  group "ingest" {
    network {
      port "in" {}
      port "raw" {}
    }
    input "in" {
      port = "in"
    }
    input "raw" {
      port = "raw"
    }

    task "t" {
      driver = "raw_exec"
      config {
        command = "${var.programs}/alerts"
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }

  import "by-name" {
    into        = "ingest.in"
    application = "telemetry"
    stream_id   = "scores"
    filter      = "score > 0.9"
  }

  import "by-property" {
    into         = "ingest.raw"
    scope        = "Default"
    subscription = "kind == \"raw\" && priority >= 3 && \"eu\" in regions"
  }
}
