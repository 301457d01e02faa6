# A job that ends by itself. A task that fails is started again on the same
# node, and then on another one.
job "example" {
  type = "batch"

  group "work" {
    count = 1

    restart {
      attempts = 2
      interval = "1m"
      delay    = "5s"
      mode     = "fail"
    }

    reschedule {
      attempts  = 1
      interval  = "1h"
      unlimited = false
    }

    task "count" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "for n in 1 2 3; do echo \"step $n\"; sleep 1; done"]
      }

      resources {
        cpu    = 100
        memory = 32
      }
    }
  }
}
