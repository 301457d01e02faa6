# Services without a provider in the group's network, with a script that checks.
job "old-web" {
  datacenters = ["dc1"]

  group "web" {
    network {
      port "http" {}
    }

    service {
      name = "old-web"
      port = "http"
      task = "web"

      check {
        type     = "script"
        name     = "file"
        command  = "/bin/sh"
        args     = ["-c", "test -s ${NOMAD_ALLOC_DIR}/data/ready"]
        interval = "1s"
        timeout  = "30s"
      }
    }

    task "web" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "echo yes > ${NOMAD_ALLOC_DIR}/data/ready; exec sleep 100000"]
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
