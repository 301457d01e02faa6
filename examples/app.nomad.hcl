# An isolated program that comes as an artifact. What it says is in a variable; when
# that changes, its instances restart one after another, each when the one before
# passes its check again. It needs an agent that is root, and python3 on the node.
#
#   tar -czf /tmp/files/app.tar.gz -C examples/app app.py
#   python3 -m http.server --directory /tmp/files 8000 &
#   berth var put nomad/jobs/app greeting=Hello
#   berth job run -var source=http://127.0.0.1:8000/app.tar.gz examples/app.nomad.hcl
#   berth var put -force nomad/jobs/app greeting=Goodbye
#   berth job explain app                    # who waits for its turn to restart

variable "source" {
  type        = string
  description = "URL of an archive with app.py"
}

job "app" {
  update {
    max_parallel     = 1
    health_check     = "checks"
    min_healthy_time = "1s"
  }

  group "app" {
    count = 2

    network {
      port "http" {}
    }

    service {
      name     = "app"
      port     = "http"
      provider = "nomad"
      check {
        type     = "http"
        path     = "/"
        interval = "1s"
        timeout  = "1s"
      }
    }

    task "app" {
      driver = "exec"

      artifact {
        source = var.source
      }

      template {
        data        = "{{ with nomadVar \"nomad/jobs/app\" }}{{ .greeting }}{{ end }}"
        destination = "local/greeting"
        rolling     = true
      }

      config {
        command = "/usr/bin/python3"
        args    = ["/local/app.py"]
      }

      resources {
        cpu    = 50
        memory = 64
      }
    }
  }
}
