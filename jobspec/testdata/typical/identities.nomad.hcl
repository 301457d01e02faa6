# Identities of the workload for other systems, each in a file of its own.
job "identities" {
  datacenters = ["*"]
  type        = "batch"

  group "identities" {
    task "show" {
      driver = "raw_exec"

      identity {
        file        = true
        change_mode = "noop"
      }

      identity {
        name          = "cloud"
        aud           = ["sts.example.com"]
        file          = true
        ttl           = "1h"
        change_mode   = "signal"
        change_signal = "SIGHUP"
      }

      identity {
        name     = "store"
        aud      = ["store.example.com", "other.example.com"]
        env      = true
        file     = true
        filepath = "local/store.jwt"
        ttl      = "30m"
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "set -e; test -s secrets/nomad_token; test -s secrets/nomad_cloud.jwt; test -s local/store.jwt; test -n \"$NOMAD_TOKEN_store\"; echo all there"]
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
