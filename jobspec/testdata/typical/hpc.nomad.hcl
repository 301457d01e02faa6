# A computation that wants whole cores, near each other and near its device.
job "hpc" {
  datacenters = ["dc1"]
  type        = "batch"
  node_pool   = "default"

  group "solve" {
    task "solve" {
      driver = "exec"

      config {
        command = "/opt/solver/bin/solve"
        args    = ["--threads", "8", "--input", "local/grid.h5"]
      }

      artifact {
        source      = "git::https://git.example.com/models/grid.git"
        destination = "local"

        options {
          ref   = "v3"
          depth = "1"
        }
      }

      resources {
        cores  = 8
        memory = 16384

        numa {
          affinity = "require"
        }
      }
    }
  }

  group "reduce" {
    task "reduce" {
      driver = "exec"

      config {
        command = "/opt/solver/bin/reduce"
      }

      resources {
        cores  = 2
        memory = 4096

        device "nvidia/gpu" {
          count = 1
        }

        numa {
          affinity = "prefer"
          devices  = ["nvidia/gpu"]
        }
      }
    }
  }
}
