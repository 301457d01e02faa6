# Training on graphics processors of a kind, the more memory the better.
job "gpu" {
  datacenters = ["dc1"]
  type        = "batch"
  priority    = 30

  group "train" {
    reschedule {
      attempts  = 0
      unlimited = false
    }

    task "train" {
      driver = "docker"

      config {
        image      = "nvidia/cuda:12.6.0-base-ubuntu22.04"
        command    = "nvidia-smi"
        ipc_mode   = "private"
        force_pull = false
      }

      resources {
        cores  = 4
        memory = 8192

        numa {
          affinity = "prefer"
        }

        device "nvidia/gpu" {
          count = 2

          constraint {
            attribute = "${device.attr.memory}"
            operator  = ">="
            value     = "16 GiB"
          }

          affinity {
            attribute = "${device.model}"
            operator  = "regexp"
            value     = "A100|H100"
            weight    = 75
          }
        }
      }
    }
  }
}
