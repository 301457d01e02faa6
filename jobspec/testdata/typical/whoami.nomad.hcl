# A container that says who it is, on a network of its own.
variable "image" {
  type    = string
  default = "traefik/whoami:v1.10"
}

variable "port" {
  type        = number
  default     = 80
  description = "Port that the program in the image listens at"
}

job "whoami" {
  datacenters = ["*"]

  group "whoami" {
    count = 1

    network {
      mode     = "bridge"
      hostname = "whoami"

      port "http" {
        to = var.port
      }
    }

    update {
      max_parallel     = 1
      health_check     = "checks"
      min_healthy_time = "1s"
      healthy_deadline = "2m"
    }

    service {
      name     = "whoami"
      provider = "nomad"
      port     = "http"
      tags = [
        "traefik.enable=true",
        "traefik.http.routers.whoami.rule=PathPrefix(`/whoami`)",
      ]

      check {
        type     = "http"
        path     = "/"
        interval = "1s"
        timeout  = "5s"
      }
    }

    task "whoami" {
      driver = "docker"

      config {
        image           = var.image
        ports           = ["http"]
        readonly_rootfs = true

        labels = {
          "com.example.team" = "web"
        }

        logging {
          type = "json-file"
          config {
            max-size = "1m"
          }
        }
      }

      resources {
        cpu    = 50
        memory = 64
      }
    }
  }
}
