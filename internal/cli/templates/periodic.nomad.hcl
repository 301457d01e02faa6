# A job that is launched at fixed times. "berth job periodic force example"
# launches it now.
job "example" {
  type = "batch"

  periodic {
    crons            = ["*/15 * * * *"]
    time_zone        = "UTC"
    prohibit_overlap = true
  }

  group "work" {
    task "date" {
      driver = "raw_exec"

      config {
        command = "/bin/date"
      }

      resources {
        cpu    = 100
        memory = 32
      }
    }
  }
}
