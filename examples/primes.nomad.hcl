# A batch job: four instances count primes, each in its quarter of the numbers,
# and end.
#
#   berth job run examples/primes.nomad.hcl
#   berth alloc logs -job primes

variable "below" {
  type        = number
  default     = 200000
  description = "Numbers below this one are looked at"
}

job "primes" {
  type = "batch"

  group "quarter" {
    count = 4

    task "count" {
      driver = "raw_exec"

      config {
        command = "/usr/bin/awk"
        args    = [<<-EOT
          BEGIN {
            from = int(ENVIRON["BELOW"] / 4 * ENVIRON["NOMAD_ALLOC_INDEX"])
            to   = int(ENVIRON["BELOW"] / 4 * (ENVIRON["NOMAD_ALLOC_INDEX"] + 1))
            for (n = from < 2 ? 2 : from; n < to; n++) {
              prime = 1
              for (d = 2; d * d <= n; d++) if (n % d == 0) { prime = 0; break }
              count += prime
            }
            printf "%d primes from %d to %d\n", count, from, to - 1
          }
          EOT
        ]
      }

      env {
        BELOW = var.below
      }

      resources {
        cpu    = 100
        memory = 32
      }
    }
  }
}
