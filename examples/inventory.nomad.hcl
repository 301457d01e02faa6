# A sysbatch job: runs once to its end on every node that can run it, those
# that join later included. Each lists what its node is.
#
#   berth job run examples/inventory.nomad.hcl
#   berth job status inventory

job "inventory" {
  type = "sysbatch"

  group "node" {
    task "list" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "uname -srm; grep -c ^processor /proc/cpuinfo; grep MemTotal /proc/meminfo"]
      }

      resources {
        cpu    = 50
        memory = 16
      }
    }
  }
}
