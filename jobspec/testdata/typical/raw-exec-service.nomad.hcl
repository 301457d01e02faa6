# A program of the node, without isolation, with a check and a graceful end.
job "raw-exec-service" {
  datacenters = ["*"]

  group "service" {
    count = 2

    network {
      port "http" {}
    }

    update {
      max_parallel     = 1
      min_healthy_time = "1s"
      healthy_deadline = "2m"
      health_check     = "checks"
      auto_revert      = true
    }

    service {
      name     = "raw-exec-service"
      port     = "http"
      provider = "nomad"

      check {
        type     = "http"
        path     = "/"
        interval = "1s"
        timeout  = "5s"
      }
    }

    task "server" {
      driver         = "raw_exec"
      kill_signal    = "SIGTERM"
      kill_timeout   = "10s"
      shutdown_delay = "1s"

      config {
        command = "/usr/bin/python3"
        args    = ["-m", "http.server", "${NOMAD_PORT_http}", "--bind", "${NOMAD_IP_http}", "--directory", "local"]
      }

      template {
        destination = "local/index.html"
        data        = "instance {{ env \"NOMAD_ALLOC_INDEX\" }}\n"
      }

      resources {
        cpu    = 50
        memory = 64
      }
    }
  }
}
