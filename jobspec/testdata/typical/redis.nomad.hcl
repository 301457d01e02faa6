# A cache, whose data goes with it to another node. Actions are commands for operators.
job "redis" {
  datacenters = ["dc1"]
  type        = "service"

  update {
    max_parallel      = 1
    min_healthy_time  = "10s"
    healthy_deadline  = "3m"
    progress_deadline = "10m"
    auto_revert       = false
    canary            = 0
  }

  migrate {
    max_parallel     = 1
    health_check     = "checks"
    min_healthy_time = "10s"
    healthy_deadline = "5m"
  }

  group "cache" {
    count = 1

    network {
      port "db" {
        to = 6379
      }
    }

    service {
      name     = "redis-cache"
      tags     = ["global", "cache"]
      port     = "db"
      provider = "nomad"

      check {
        name     = "alive"
        type     = "tcp"
        interval = "10s"
        timeout  = "2s"
      }
    }

    restart {
      attempts = 2
      interval = "30m"
      delay    = "15s"
      mode     = "fail"
    }

    ephemeral_disk {
      size    = 300
      sticky  = true
      migrate = true
    }

    task "redis" {
      driver = "docker"

      config {
        image          = "redis:7"
        ports          = ["db"]
        auth_soft_fail = true
        args           = ["redis-server", "--appendonly", "yes", "--dir", "/alloc/data"]
      }

      identity {
        env  = true
        file = true
      }

      action "flush" {
        command = "redis-cli"
        args    = ["flushall"]
      }

      action "info" {
        command = "redis-cli"
        args    = ["info", "memory"]
      }

      logs {
        max_files     = 10
        max_file_size = 15
        disabled      = false
      }

      resources {
        cpu    = 500
        memory = 256
      }
    }
  }
}
