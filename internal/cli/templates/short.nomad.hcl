job "example" {
  group "web" {
    network {
      port "http" {}
    }

    task "server" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "exec python3 -u -m http.server $NOMAD_PORT_http"]
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
