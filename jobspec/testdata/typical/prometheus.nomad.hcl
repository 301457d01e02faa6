# Metrics of the cluster and of services, kept with the allocation.
job "prometheus" {
  datacenters = ["dc1"]
  type        = "service"

  group "monitoring" {
    count = 1

    network {
      port "prometheus_ui" {
        static = 9090
      }
    }

    restart {
      attempts = 2
      interval = "30m"
      delay    = "15s"
      mode     = "fail"
    }

    ephemeral_disk {
      size    = 600
      sticky  = true
      migrate = true
    }

    task "prometheus" {
      driver = "docker"

      template {
        change_mode   = "signal"
        change_signal = "SIGHUP"
        destination   = "local/prometheus.yml"

        wait {
          min = "5s"
          max = "30s"
        }

        data = <<-EOH
          ---
          global:
            scrape_interval:     5s
            evaluation_interval: 5s

          scrape_configs:
            - job_name: nomad
              metrics_path: /v1/metrics
              params:
                format: ['prometheus']
              static_configs:
                - targets: ['{{ env "attr.unique.network.ip-address" }}:4646']

            - job_name: services
              static_configs:
          {{- range nomadServices }}{{ if .Tags | contains "metrics" }}
                - targets:
          {{- range nomadService .Name }}
                    - '{{ .Address }}:{{ .Port }}'
          {{- end }}
                  labels:
                    service: '{{ .Name }}'
          {{- end }}{{ end }}
        EOH
      }

      template {
        destination     = "local/alerts.yml"
        left_delimiter  = "[["
        right_delimiter = "]]"
        data            = <<-EOH
          groups:
            - name: up
              rules:
                - alert: ServiceDown
                  expr: up == 0
                  for: 1m
                  annotations:
                    summary: "{{ $labels.instance }} is down on [[ env "node.datacenter" ]]"
        EOH
      }

      config {
        image = "prom/prometheus:v2.54.1"
        ports = ["prometheus_ui"]
        args = [
          "--config.file=/etc/prometheus/prometheus.yml",
          "--storage.tsdb.path=/alloc/data",
          "--web.enable-lifecycle",
        ]
        volumes = [
          "local/prometheus.yml:/etc/prometheus/prometheus.yml",
          "local/alerts.yml:/etc/prometheus/alerts.yml",
        ]
      }

      resources {
        cpu        = 500
        memory     = 512
        memory_max = 1024
      }

      service {
        name     = "prometheus"
        provider = "nomad"
        tags     = ["metrics"]
        port     = "prometheus_ui"

        check {
          name     = "prometheus_ui port alive"
          type     = "http"
          path     = "/-/healthy"
          interval = "10s"
          timeout  = "2s"
        }
      }
    }
  }
}
