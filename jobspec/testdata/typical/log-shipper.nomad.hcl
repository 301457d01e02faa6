# A log shipper on every node.
job "log-shipper" {
  datacenters = ["*"]
  type        = "system"

  update {
    max_parallel = 1
    stagger      = "10s"
  }

  group "vector" {
    network {
      port "api" {
        to = 8686
      }
    }

    ephemeral_disk {
      size   = 500
      sticky = true
    }

    task "vector" {
      driver = "docker"

      config {
        image = "timberio/vector:0.40.0-alpine"
        ports = ["api"]

        mount {
          type     = "bind"
          source   = "/var/run/docker.sock"
          target   = "/var/run/docker.sock"
          readonly = true
        }

        mount {
          type   = "tmpfs"
          target = "/scratch"

          tmpfs_options {
            size = 67108864
          }
        }
      }

      env {
        VECTOR_CONFIG          = "local/vector.toml"
        VECTOR_REQUIRE_HEALTHY = "true"
      }

      template {
        destination     = "local/vector.toml"
        left_delimiter  = "[["
        right_delimiter = "]]"
        change_mode     = "signal"
        change_signal   = "SIGHUP"
        splay           = "30s"
        data            = <<EOH
data_dir = "alloc/data/vector/"
[api]
enabled = true
address = "0.0.0.0:8686"
[sources.logs]
type = "docker_logs"
[sinks.loki]
type = "loki"
inputs = ["logs"]
endpoint = "http://[[ range nomadService "loki" ]][[ .Address ]]:[[ .Port ]][[ end ]]"
encoding.codec = "json"
labels.job = "{{ label.com\\.hashicorp\\.nomad\\.job_name }}"
EOH
      }

      service {
        name     = "vector"
        provider = "nomad"
        port     = "api"

        check {
          type     = "http"
          path     = "/health"
          interval = "30s"
          timeout  = "5s"
        }
      }

      kill_timeout = "30s"

      resources {
        cpu    = 200
        memory = 128
      }
    }
  }
}
