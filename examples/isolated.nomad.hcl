# A service whose tasks are kept from the machine (driver exec), on a network of
# its own. Before it starts, a migration prepares its data; beside it runs a task
# that keeps a list up to date. It needs an agent that is root, CNI plugins, and
# python3 on the node.
#
#   berth job run examples/isolated.nomad.hcl
#   berth alloc status -short ALLOC          # the tasks, in the order in which they start
#   curl "$(berth service info -json notes | jq -r '.[0] | "\(.Address):\(.Port)"')/schema"

job "isolated" {
  group "notes" {
    network {
      mode     = "bridge"
      hostname = "notes"
      port "http" { to = 8080 }
    }

    service {
      name     = "notes"
      port     = "http"
      provider = "nomad"
      check {
        type     = "http"
        path     = "/schema"
        interval = "2s"
        timeout  = "2s"
      }
    }

    # Runs to its end before the others start.
    task "migrate" {
      driver = "exec"
      lifecycle { hook = "prestart" }
      config {
        command = "/bin/sh"
        args    = ["-c", "mkdir -p /alloc/data && echo version 2 > /alloc/data/schema"]
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }

    task "serve" {
      driver = "exec"
      config {
        command = "/usr/bin/python3"
        args    = ["-m", "http.server", "8080", "--directory", "/alloc/data"]
      }
      resources {
        cpu    = 100
        memory = 128
      }
    }

    # Runs beside the main task, and ends after it.
    task "list" {
      driver = "exec"
      lifecycle {
        hook    = "poststart"
        sidecar = true
      }
      config {
        command = "/bin/sh"
        args    = ["-c", "while :; do ls /alloc/data > /alloc/data/list.new && mv /alloc/data/list.new /alloc/data/list; sleep 1; done"]
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
