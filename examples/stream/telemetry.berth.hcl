# A stream application of three stages: a source, three channels that score what
# it sends, and a sink. It exports the scores by name and what is raw by its
# properties; alerts.berth.hcl imports both.

variable "programs" {
  type        = string
  default     = "/opt/app"
  description = "the folder with the programs source, score and sink"
}

variable "width" {
  type        = number
  default     = 3
  description = "how many channels score side by side"
}

job "telemetry" {
  type        = "stream"
  datacenters = ["*"]

  application {
    name  = "telemetry"
    scope = "Default"
  }

  submission {
    timeout            = "5m"
    on_timeout         = "recover"
    max_retries        = 3
    interrupted_update = "resume"
  }

  parallel_region "score" {
    groups = ["transform"]
    width  = var.width
  }

  group "source" {
    output "raw" {}

    task "src" {
      driver = "raw_exec"
      config {
        command = "${var.programs}/source"
      }
      connectivity {
        change_mode   = "signal"
        change_signal = "SIGHUP"
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }

  group "transform" {
    network {
      port "in" {}
    }
    input "in" {
      port = "in"
    }
    output "scored" {}

    task "xf" {
      driver = "raw_exec"
      config {
        command = "${var.programs}/score"
      }
      connectivity {
        change_mode   = "signal"
        change_signal = "SIGHUP"
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }

  group "sink" {
    network {
      port "in" {}
    }
    input "in" {
      port = "in"
    }

    task "snk" {
      driver = "raw_exec"
      config {
        command = "${var.programs}/sink"
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }

  stream "raw" {
    from         = "source.raw"
    to           = ["transform.in"]
    distribution = "round-robin"
  }

  stream "scored" {
    from = "transform.scored"
    to   = ["sink.in"]
  }

  export "scores-by-name" {
    from         = "transform.scored"
    stream_id    = "scores"
    allow_filter = true
  }

  export "raw-by-property" {
    from       = "source.raw"
    congestion = "drop"
    properties = {
      kind     = "raw"
      priority = 3
      regions  = ["eu", "us"]
    }
  }
}
