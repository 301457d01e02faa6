# Brokers that each have a volume of their own: data[0], data[1], data[2].
job "kafka-per-alloc" {
  datacenters = ["dc1"]

  group "broker" {
    count = 3

    constraint {
      distinct_hosts = true
    }

    volume "data" {
      type            = "csi"
      source          = "kafka"
      per_alloc       = true
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"

      mount_options {
        fs_type = "xfs"
      }
    }

    network {
      mode = "bridge"
      port "broker" {
        to = 9092
      }
      port "controller" {
        to = 9093
      }
    }

    service {
      name         = "kafka"
      provider     = "nomad"
      port         = "broker"
      address_mode = "alloc"
    }

    disconnect {
      lost_after = "1h"
      replace    = false
      reconcile  = "keep_original"
    }

    task "kafka" {
      driver = "docker"

      config {
        image = "apache/kafka:3.8.0"
        ports = ["broker", "controller"]
        ulimit {
          nofile = "65536:65536"
        }
      }

      volume_mount {
        volume      = "data"
        destination = "/var/lib/kafka"
      }

      env {
        KAFKA_NODE_ID = "${NOMAD_ALLOC_INDEX}"
      }

      kill_timeout = "2m"

      resources {
        cpu    = 1000
        memory = 2048
      }
    }
  }
}
