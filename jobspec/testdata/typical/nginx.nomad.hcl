# A web server in containers, with its configuration from a template.
job "nginx" {
  datacenters = ["dc1"]
  type        = "service"

  group "nginx" {
    count = 2

    network {
      port "http" {
        to = 80
      }
    }

    service {
      name     = "nginx"
      port     = "http"
      provider = "nomad"
      tags     = ["web", "urlprefix-/"]

      check {
        name     = "alive"
        type     = "http"
        path     = "/health"
        interval = "10s"
        timeout  = "2s"
      }
    }

    task "nginx" {
      driver = "docker"

      config {
        image = "nginx:1.27-alpine"
        ports = ["http"]

        volumes = [
          "local/default.conf:/etc/nginx/conf.d/default.conf:ro",
        ]
      }

      template {
        destination   = "local/default.conf"
        data          = <<EOH
server {
  listen 80;
  location /health { return 200 "ok\n"; }
  location / {
    root  /usr/share/nginx/html;
    index index.html;
  }
}
EOH
        change_mode   = "signal"
        change_signal = "SIGHUP"
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
