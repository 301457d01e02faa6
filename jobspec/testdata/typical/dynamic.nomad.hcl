# Blocks that are made of lists: ports, services, tasks and templates.
variable "ports" {
  type    = list(string)
  default = ["http", "grpc", "admin"]
}

variable "workers" {
  type = map(object({ queue = string, memory = number }))
  default = {
    mail    = { queue = "mail", memory = 16 }
    reports = { queue = "slow", memory = 32 }
  }
}

job "dynamic" {
  datacenters = ["*"]

  dynamic "group" {
    for_each = var.workers
    iterator = worker
    labels   = [worker.key]

    content {
      task "work" {
        driver = "raw_exec"

        env {
          QUEUE = worker.value.queue
        }

        config {
          command = "/bin/sh"
          args    = ["-c", "echo works for $QUEUE; exec sleep 100000"]
        }

        resources {
          cpu    = 20
          memory = worker.value.memory
        }
      }
    }
  }

  group "web" {
    network {
      dynamic "port" {
        for_each = toset(var.ports)
        labels   = [port.value]
        content {}
      }
    }

    dynamic "service" {
      for_each = [for p in var.ports : p if p != "admin"]
      content {
        name     = "dynamic-${service.value}"
        port     = service.value
        provider = "nomad"
      }
    }

    task "web" {
      driver = "raw_exec"

      dynamic "template" {
        for_each = { greeting = "hello", farewell = "goodbye" }
        content {
          destination = "local/${template.key}"
          data        = template.value
        }
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "cat local/greeting local/farewell; exec sleep 100000"]
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
