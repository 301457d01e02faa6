# Dashboards. The password of the administrator is a variable of the cluster.
job "grafana" {
  datacenters = ["*"]

  ui {
    description = "**Dashboards** of the cluster"
    link {
      label = "Documentation"
      url   = "https://grafana.com/docs/"
    }
  }

  group "grafana" {
    network {
      port "http" {
        static = 3000
        to     = 3000
      }
    }

    volume "grafana" {
      type      = "host"
      source    = "grafana"
      read_only = false
    }

    service {
      name     = "grafana"
      port     = "http"
      provider = "nomad"
      tags = [
        "traefik.enable=true",
        "traefik.http.routers.grafana.rule=Host(`grafana.example.com`)",
      ]

      check {
        type     = "http"
        path     = "/api/health"
        interval = "15s"
        timeout  = "5s"

        check_restart {
          limit           = 3
          grace           = "90s"
          ignore_warnings = false
        }
      }
    }

    task "grafana" {
      driver = "docker"

      config {
        image = "grafana/grafana:11.2.0"
        ports = ["http"]
      }

      volume_mount {
        volume      = "grafana"
        destination = "/var/lib/grafana"
      }

      env {
        GF_LOG_LEVEL          = "WARN"
        GF_LOG_MODE           = "console"
        GF_PATHS_PROVISIONING = "/local/provisioning"
      }

      template {
        env         = true
        destination = "secrets/grafana.env"
        data        = <<EOF
{{ with nomadVar "nomad/jobs/grafana" }}
GF_SECURITY_ADMIN_USER={{ .user }}
GF_SECURITY_ADMIN_PASSWORD={{ .password }}
{{ end }}
EOF
      }

      template {
        destination = "local/provisioning/datasources/prometheus.yaml"
        perms       = "644"
        data        = <<EOF
apiVersion: 1
datasources:
{{ range nomadService "prometheus" }}
  - name: Prometheus
    type: prometheus
    url: http://{{ .Address }}:{{ .Port }}
{{ end }}
EOF
      }

      resources {
        cpu    = 200
        memory = 256
      }
    }
  }
}
