# A program of the release page of its project, isolated from the node.
variable "version" {
  type        = string
  description = "Release to run"
  default     = "1.8.2"

  validation {
    condition     = length(regexall("^[0-9.]+$", var.version)) > 0
    error_message = "The version must be digits and dots."
  }
}

variable "url" {
  type        = string
  description = "Where releases are"
  default     = "https://releases.example.com/exporter"
}

job "exec-artifact" {
  datacenters = ["dc1"]

  group "exporter" {
    network {
      port "metrics" {}
    }

    service {
      name     = "exporter"
      provider = "nomad"
      port     = "metrics"
      tags     = ["metrics", "v${var.version}"]
    }

    task "exporter" {
      driver = "exec"
      user   = "nobody"

      artifact {
        source      = "${var.url}/exporter-${var.version}.linux-${attr.cpu.arch}.tar.gz"
        destination = "local/exporter"
      }

      config {
        command = "/bin/sh"
        args    = ["local/exporter/run.sh", "${NOMAD_PORT_metrics}"]
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
