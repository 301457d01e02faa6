# A service whose count an autoscaler changes, within bounds.
job "autoscaled" {
  datacenters = ["dc1"]

  group "web" {
    count = 3

    scaling {
      enabled = true
      min     = 1
      max     = 10

      policy {
        cooldown            = "1m"
        evaluation_interval = "30s"

        check "cpu" {
          source = "nomad-apm"
          query  = "avg_cpu"

          strategy "target-value" {
            target = 70
          }
        }

        check "requests" {
          source = "prometheus"
          query  = "sum(rate(http_requests_total[1m]))"

          strategy "target-value" {
            target = 100
          }
        }
      }
    }

    network {
      port "http" {
        to = 80
      }
    }

    task "web" {
      driver = "docker"

      config {
        image = "traefik/whoami:v1.10"
        ports = ["http"]
      }

      scaling "cpu" {
        enabled = true
        min     = 100
        max     = 2000

        policy {
          cooldown = "24h"
          target   = "app-sizing"
        }
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
