# An application with actions for those who operate it.
job "maintenance" {
  datacenters = ["*"]

  group "app" {
    task "app" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "trap 'echo reloaded' HUP; while :; do sleep 1; done"]
      }

      action "disk" {
        command = "/bin/sh"
        args    = ["-c", "df -P / | tail -n 1"]
      }

      action "environment" {
        command = "/usr/bin/env"
      }

      logs {
        max_files     = 2
        max_file_size = 1
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
