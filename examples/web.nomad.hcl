# An HTTP service of three instances, each on a port that is free where it runs.
#
#   go build -o bin/hello ./examples/hello
#   berth job run -var program=$PWD/bin/hello examples/web.nomad.hcl

variable "program" {
  type        = string
  description = "Absolute path of the built examples/hello"
}

variable "greeting" {
  type    = string
  default = "Hello"
}

variable "count" {
  type    = number
  default = 3
}

job "web" {
  # Replaced instances go all at once, without a deployment.
  update {
    max_parallel = 0
  }

  group "front" {
    count = var.count

    network {
      port "http" {}
    }

    task "hello" {
      driver = "raw_exec"

      config {
        command = var.program
      }

      env {
        GREETING = var.greeting
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
