# A system job: one instance on every node that can run it, those that join
# later included. Each says every ten seconds how its node is.
#
#   berth job run examples/heartbeat.nomad.hcl
#   berth job status heartbeat

job "heartbeat" {
  type = "system"

  # A new version goes to one node after another, half a minute apart.
  update {
    max_parallel = 1
    stagger      = "30s"
  }

  group "beat" {
    task "say" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "while :; do echo \"$(date -u +%T) load $(cut -d ' ' -f 1 /proc/loadavg)\"; sleep 10; done"]
      }

      resources {
        cpu    = 50
        memory = 16
      }
    }
  }
}
