# A batch of many short isolated tasks. What does not fit on the nodes at once
# waits, and runs as others end.
#
#   berth job run -detach examples/thousand.nomad.hcl
#   berth job status thousand

variable "tasks" {
  type    = number
  default = 1000
}

job "thousand" {
  type = "batch"

  group "work" {
    count = var.tasks

    ephemeral_disk { size = 10 }

    task "sum" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "i=0 sum=0; while [ $i -lt 1000 ]; do i=$((i + 1)) sum=$((sum + i)); done; echo $NOMAD_ALLOC_INDEX $sum"]
      }
      logs {
        max_files     = 1
        max_file_size = 1
      }
      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
