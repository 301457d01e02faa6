# The program that scales others. Its identity lets it call the API.
job "autoscaler" {
  datacenters = ["dc1"]
  type        = "service"

  group "autoscaler" {
    count = 1

    network {
      port "http" {}
    }

    task "autoscaler" {
      driver = "docker"

      config {
        image   = "hashicorp/nomad-autoscaler:0.4.5"
        command = "nomad-autoscaler"
        args = [
          "agent",
          "-config=${NOMAD_TASK_DIR}/config.hcl",
          "-http-bind-address=0.0.0.0",
          "-http-bind-port=${NOMAD_PORT_http}",
        ]
        ports = ["http"]
      }

      identity {
        env         = true
        change_mode = "restart"
      }

      template {
        data        = <<EOF
nomad {
  address = "http://{{ env "attr.unique.network.ip-address" }}:4646"
}

apm "prometheus" {
  driver = "prometheus"
  config = {
    address = "http://{{ range nomadService "prometheus" }}{{ .Address }}:{{ .Port }}{{ end }}"
  }
}

strategy "target-value" {
  driver = "target-value"
}
EOF
        destination = "${NOMAD_TASK_DIR}/config.hcl"
      }

      resources {
        cpu    = 50
        memory = 128
      }

      service {
        name     = "autoscaler"
        provider = "nomad"
        port     = "http"

        check {
          type     = "http"
          path     = "/v1/health"
          interval = "5s"
          timeout  = "2s"
        }
      }
    }
  }

  group "web" {
    scaling {
      enabled = false
      min     = 0
      max     = 2
    }

    count = 0

    task "web" {
      driver = "docker"
      config {
        image = "traefik/whoami:v1.10"
      }

      scaling "mem" {
        min = 64
        max = 512
        policy {
          evaluation_interval = "10m"
        }
      }

      resources {
        cpu    = 50
        memory = 64
      }
    }
  }
}
