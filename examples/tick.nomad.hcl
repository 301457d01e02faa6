# A periodic job: every five seconds it notes the time at which it was due. One
# that is slow is waited for; none overlaps another.
#
#   berth job run examples/tick.nomad.hcl
#   berth job status tick
#   berth job periodic force tick

job "tick" {
  type = "batch"

  periodic {
    crons            = ["*/5 * * * * * *"] # second, minute, hour, day, month, day of the week, year
    time_zone        = "UTC"
    prohibit_overlap = true
  }

  group "tick" {
    task "note" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "echo $NOMAD_JOB_PARENT_ID was due at second $(echo $NOMAD_JOB_ID | sed 's/.*-//')"]
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
