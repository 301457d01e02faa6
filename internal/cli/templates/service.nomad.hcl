# An example job: a small web server that is always running.
#
#   berth job run example.nomad.hcl       registers it and shows what happens
#   berth job status example              shows its state
#   berth alloc logs -job example         shows what it prints
#   berth job stop example                stops it
#
# "berth job plan" shows what a change of this file would do.

job "example" {
  # A service runs until it is stopped. A "batch" job ends by itself, and a
  # "system" job runs on every node.
  type = "service"

  # How a change of this file is rolled out.
  update {
    max_parallel     = 1
    min_healthy_time = "3s"
    healthy_deadline = "2m"
    auto_revert      = true
  }

  # A group's tasks run together on one node.
  group "web" {
    # How many instances of the group run in the cluster.
    count = 1

    network {
      # A free port is chosen; the task finds it in $NOMAD_PORT_http.
      port "http" {}
    }

    # Other jobs and "berth service info example-web" find the instances by this
    # name. A failed check restarts nothing by itself; see check_restart.
    service {
      name     = "example-web"
      port     = "http"
      provider = "nomad"

      check {
        type     = "tcp"
        interval = "10s"
        timeout  = "2s"
      }
    }

    # A task that ends is started again, at most three times in five minutes.
    restart {
      attempts = 3
      interval = "5m"
      delay    = "5s"
      mode     = "fail"
    }

    task "server" {
      # raw_exec runs a program of the node without isolation; agents have it
      # only if they enable it, as "berth agent -dev" does. On other agents use
      # docker, podman or exec:
      #
      #   driver = "docker"
      #   config {
      #     image = "nginx:1"
      #     ports = ["http"]
      #   }
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args = ["-c", <<-EOT
          mkdir -p local/www
          echo "Hello from $NOMAD_ALLOC_NAME" > local/www/index.html
          echo "listening on $NOMAD_ADDR_http"
          cd local/www
          if command -v python3 > /dev/null; then
            exec python3 -u -m http.server "$NOMAD_PORT_http"
          elif command -v busybox > /dev/null; then
            exec busybox httpd -f -p "$NOMAD_PORT_http"
          fi
          echo "neither python3 nor busybox is installed" >&2
          exit 1
        EOT
        ]
      }

      env {
        GREETING = "hello"
      }

      # What the task needs of its node. Nodes that lack it are not used.
      resources {
        cpu    = 100 # MHz
        memory = 64  # MiB
      }

      logs {
        max_files     = 3
        max_file_size = 10 # MiB
      }
    }
  }
}
