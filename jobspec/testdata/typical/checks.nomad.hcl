# Services with every kind of check, and one that is restarted by them.
job "checks" {
  datacenters = ["*"]

  group "checks" {
    network {
      port "http" {}
      port "other" {}
    }

    service {
      name     = "checks-http"
      port     = "http"
      provider = "nomad"

      meta {
        version = "1"
      }

      check {
        name     = "with headers"
        type     = "http"
        method   = "GET"
        path     = "/index.html"
        interval = "1s"
        timeout  = "5s"
        header {
          Accept = ["text/html"]
          Host   = ["checks.example.com"]
        }
      }

      check {
        name     = "port"
        type     = "tcp"
        port     = "http"
        interval = "1s"
        timeout  = "5s"

        check_restart {
          limit = 3
          grace = "30s"
        }
      }
    }

    service {
      name     = "checks-admin"
      port     = "other"
      provider = "nomad"
      address  = "127.0.0.1"
      tags     = ["admin"]
    }

    task "server" {
      driver = "raw_exec"

      template {
        destination = "local/index.html"
        data        = "<h1>well</h1>\n"
      }

      config {
        command = "/usr/bin/python3"
        args    = ["-m", "http.server", "${NOMAD_PORT_http}", "--bind", "${NOMAD_IP_http}", "--directory", "local"]
      }

      resources {
        cpu    = 50
        memory = 64
      }
    }
  }
}
