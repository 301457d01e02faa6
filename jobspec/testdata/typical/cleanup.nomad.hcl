# A clean-up on every node, once a night.
job "cleanup" {
  datacenters = ["*"]
  type        = "sysbatch"

  periodic {
    cron             = "15 3 * * *"
    prohibit_overlap = true
  }

  group "cleanup" {
    task "cleanup" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "find /tmp -maxdepth 0 -type d; echo clean on ${node.unique.name}"]
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
