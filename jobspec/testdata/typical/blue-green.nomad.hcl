# Blue and green: a full new set beside the old one, until an operator promotes it.
variable "version" {
  type    = string
  default = "1"
}

job "blue-green" {
  datacenters = ["*"]

  group "api" {
    count = 2

    update {
      max_parallel      = 2
      canary            = 2
      min_healthy_time  = "1s"
      healthy_deadline  = "2m"
      progress_deadline = "5m"
      auto_promote      = false
      auto_revert       = true
      health_check      = "task_states"
    }

    network {
      port "api" {
        to = 8080
      }
    }

    service {
      name        = "api"
      port        = "api"
      provider    = "nomad"
      tags        = ["live", "v${var.version}"]
      canary_tags = ["preview", "v${var.version}"]
    }

    task "api" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "echo version ${var.version} on ${NOMAD_ADDR_api}; exec sleep 100000"]
      }

      meta {
        version = var.version
      }

      resources {
        cpu    = 50
        memory = 16
      }
    }
  }
}
