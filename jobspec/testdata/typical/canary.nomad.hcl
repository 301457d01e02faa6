# One canary goes first and is promoted by itself; migrations of drained nodes go one
# by one.
job "canary" {
  datacenters = ["dc1", "dc2"]

  update {
    max_parallel      = 1
    canary            = 1
    auto_promote      = true
    auto_revert       = true
    health_check      = "checks"
    min_healthy_time  = "30s"
    healthy_deadline  = "5m"
    progress_deadline = "10m"
    stagger           = "30s"
  }

  migrate {
    max_parallel     = 1
    health_check     = "checks"
    min_healthy_time = "10s"
    healthy_deadline = "5m"
  }

  spread {
    attribute = "${node.datacenter}"

    target "dc1" {
      percent = 60
    }
    target "dc2" {
      percent = 40
    }
  }

  group "web" {
    count = 5

    network {
      port "http" {
        to = 5678
      }
    }

    service {
      name     = "web"
      provider = "nomad"
      port     = "http"

      check {
        type     = "http"
        path     = "/"
        interval = "5s"
        timeout  = "1s"
      }
    }

    task "web" {
      driver = "docker"

      config {
        image = "hashicorp/http-echo:1.0"
        args  = ["-listen", ":5678", "-text", "hello from ${NOMAD_ALLOC_INDEX}"]
        ports = ["http"]
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
