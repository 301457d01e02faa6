# A container with a port, a volume and a health check. It needs an agent with the
# driver docker, CNI plugins and the host volume "visits":
#
#   client {
#     host_volume "visits" { path = "/srv/visits" }
#   }
#
# Make the image, run it, roll it to version 2, and back:
#
#   CGO_ENABLED=0 go build -o bin/hello ./examples/hello
#   tar -C bin -c hello | docker import --change 'ENTRYPOINT ["/hello"]' - hello:1
#   docker tag hello:1 hello:2
#   berth job run -var version=1 examples/container.nomad.hcl
#   berth job run -var version=2 examples/container.nomad.hcl
#   berth job revert container 0

variable "version" {
  type    = string
  default = "1"
}

job "container" {
  update {
    max_parallel     = 1
    health_check     = "checks"
    min_healthy_time = "1s"
    auto_revert      = true
  }

  group "hello" {
    network {
      mode = "bridge"
      port "http" { to = 8080 }
    }

    service {
      name     = "hello"
      port     = "http"
      provider = "nomad"
      check {
        type     = "http"
        path     = "/"
        interval = "2s"
        timeout  = "2s"
      }
    }

    volume "visits" {
      type   = "host"
      source = "visits"
    }

    task "hello" {
      driver = "docker"

      config {
        image           = "hello:${var.version}"
        readonly_rootfs = true
      }

      volume_mount {
        volume      = "visits"
        destination = "/visits"
      }

      env {
        LISTEN   = ":8080"
        GREETING = "Hello ${var.version}"
        VISITS   = "/visits/count"
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
