# A task that waits for another service before the main one starts, and survives nodes
# that are away for a while.
job "wait-for-db" {
  datacenters = ["dc1"]

  group "app" {
    count = 2

    disconnect {
      lost_after = "6h"
      replace    = true
      reconcile  = "best_score"
    }

    task "await-db" {
      driver = "docker"

      lifecycle {
        hook    = "prestart"
        sidecar = false
      }

      config {
        image   = "busybox:1.36"
        command = "sh"
        args    = ["-c", "until nc -z $DB_HOST $DB_PORT; do sleep 2; done"]
      }

      template {
        destination = "local/env"
        env         = true
        data        = "{{ range nomadService \"postgres\" }}DB_HOST={{ .Address }}\nDB_PORT={{ .Port }}\n{{ end }}"
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }

    task "app" {
      driver = "docker"

      config {
        image = "example/app:1.0"
        init  = true
      }

      template {
        destination = "local/flags.json"
        change_mode = "script"
        data        = "{{ with nomadVar \"nomad/jobs/wait-for-db\" }}{{ .Items | toJSON }}{{ end }}"

        wait {
          min = "2s"
          max = "10s"
        }

        change_script {
          command = "/app/reload"
        }
      }

      resources {
        cpu    = 200
        memory = 256
      }
    }
  }
}
