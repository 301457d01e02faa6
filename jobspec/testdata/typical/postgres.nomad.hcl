# A database with its data on a volume of the host.
job "postgres" {
  datacenters = ["dc1"]
  priority    = 70

  group "db" {
    count = 1

    network {
      port "db" {
        to = 5432
      }
    }

    volume "pgdata" {
      type            = "host"
      source          = "postgres"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }

    update {
      max_parallel = 0
    }

    service {
      name     = "postgres"
      provider = "nomad"
      port     = "db"

      check {
        name     = "ready"
        type     = "tcp"
        interval = "10s"
        timeout  = "2s"
      }
    }

    task "postgres" {
      driver       = "docker"
      kill_signal  = "SIGINT"
      kill_timeout = "90s"

      config {
        image    = "postgres:16"
        ports    = ["db"]
        shm_size = 268435456
      }

      volume_mount {
        volume      = "pgdata"
        destination = "/var/lib/postgresql/data"
        read_only   = false
      }

      template {
        data        = <<-EOF
          POSTGRES_USER=app
          POSTGRES_DB=app
          POSTGRES_PASSWORD={{ with nomadVar "nomad/jobs/postgres/db/postgres" }}{{ .password }}{{ end }}
        EOF
        destination = "${NOMAD_SECRETS_DIR}/env"
        env         = true
        change_mode = "noop"
      }

      env {
        PGDATA = "/var/lib/postgresql/data/pgdata"
      }

      logs {
        max_files     = 5
        max_file_size = 15
      }

      resources {
        cpu    = 500
        memory = 1024
      }
    }
  }
}
