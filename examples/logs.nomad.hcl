# A task whose output goes to a collector, with labels that say whose it is. The agent
# has the sink: see logs.agent.hcl.
#
#   berth job run examples/logs.nomad.hcl

job "logs" {
  type = "batch"

  meta = {
    "logs.sinks" = "collector"
  }

  group "speaker" {
    task "speaker" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo one line; echo a complaint >&2; sleep 1000"]
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
