# A dump of a database each night, put beside the others.
job "periodic-backup" {
  datacenters = ["dc1"]
  type        = "batch"

  periodic {
    crons            = ["30 2 * * *", "0 14 * * 1-5"]
    prohibit_overlap = true
    time_zone        = "Europe/Berlin"
  }

  group "backup" {
    volume "backups" {
      type   = "host"
      source = "backups"
    }

    restart {
      attempts = 3
      interval = "1h"
      delay    = "1m"
      mode     = "fail"
    }

    task "dump" {
      driver = "docker"

      config {
        image   = "postgres:16"
        command = "/bin/sh"
        args    = ["/local/backup.sh"]
      }

      volume_mount {
        volume      = "backups"
        destination = "/backups"
      }

      template {
        destination = "local/backup.sh"
        data        = <<EOF
set -eu
{{ range nomadService "postgres" }}
pg_dump -h {{ .Address }} -p {{ .Port }} -U app app | gzip > /backups/app-$(date +%F-%H%M).sql.gz
{{ end }}
find /backups -name '*.sql.gz' -mtime +14 -delete
EOF
      }

      template {
        destination = "secrets/env"
        env         = true
        data        = "PGPASSWORD={{ with nomadVar \"nomad/jobs/periodic-backup\" }}{{ .password }}{{ end }}"
      }

      resources {
        cpu    = 200
        memory = 256
      }
    }
  }
}
