# A batch job: it makes a report and ends.
variable "name" {
  type    = string
  default = "world"
}

job "batch-report" {
  datacenters = ["*"]
  type        = "batch"

  meta {
    owner = "reports"
  }

  group "report" {
    reschedule {
      attempts       = 3
      interval       = "24h"
      unlimited      = false
      delay          = "5s"
      delay_function = "exponential"
      max_delay      = "1h"
    }

    task "report" {
      driver = "raw_exec"

      template {
        destination = "local/report.sh"
        perms       = "755"
        data        = <<-EOF
          #!/bin/sh
          set -e
          echo "report for ${var.name}, by {{ env "NOMAD_META_owner" }}"
          df -P / | awk 'NR == 2 { print "disk used:", $5 }'
        EOF
      }

      config {
        command = "/bin/sh"
        args    = ["local/report.sh"]
      }

      restart {
        attempts = 1
        delay    = "1s"
        interval = "1m"
        mode     = "fail"
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
