# A database on a CSI volume, which goes with it to another node.
job "mysql-csi" {
  datacenters = ["dc1"]
  type        = "service"

  group "mysql" {
    count = 1

    volume "mysql" {
      type            = "csi"
      source          = "mysql"
      read_only       = false
      attachment_mode = "file-system"
      access_mode     = "single-node-writer"

      mount_options {
        fs_type     = "ext4"
        mount_flags = ["noatime"]
      }
    }

    network {
      port "db" {
        static = 3306
      }
    }

    restart {
      attempts = 10
      interval = "5m"
      delay    = "25s"
      mode     = "delay"
    }

    service {
      name     = "mysql"
      provider = "nomad"
      port     = "db"

      check {
        type     = "tcp"
        interval = "10s"
        timeout  = "2s"
      }
    }

    task "mysql" {
      driver = "docker"

      volume_mount {
        volume           = "mysql"
        destination      = "/srv"
        propagation_mode = "private"
        read_only        = false
      }

      secret "db" {
        provider = "nomad"
        path     = "nomad/jobs/mysql-csi"
      }

      env {
        MYSQL_ROOT_PASSWORD = "${secret.db.root_password}"
      }

      config {
        image = "mysql:8.4"
        args  = ["--datadir", "/srv/mysql"]
        ports = ["db"]
      }

      resources {
        cpu    = 500
        memory = 1024
      }
    }
  }
}
