# Two groups on networks of their own: one finds the other by its name, as long as it
# is healthy. It needs an agent with "dns { enabled = true }" that is root, CNI
# plugins, and python3 on the node.
#
#   berth job run examples/names.nomad.hcl
#   berth alloc logs -job names -group caller # what the other group says

job "names" {
  group "catalog" {
    network {
      mode = "bridge"
      port "http" { to = 8080 }
    }

    service {
      name         = "catalog"
      port         = "http"
      provider     = "nomad"
      address_mode = "alloc"
      check {
        type     = "http"
        path     = "/list"
        interval = "1s"
        timeout  = "1s"
      }
    }

    task "catalog" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo three books > /local/list; exec /usr/bin/python3 -m http.server 8080 --directory /local"]
      }
      resources {
        cpu    = 50
        memory = 64
      }
    }
  }

  group "caller" {
    network {
      mode = "bridge"
    }

    task "caller" {
      driver = "exec"
      config {
        command = "/usr/bin/python3"
        args    = ["-u", "-c", <<-EOF
          import time, urllib.request
          while True:
              try:
                  print(urllib.request.urlopen("http://catalog.default.service.berth:8080/list", timeout=5).read().decode().strip())
              except OSError as problem:
                  print(problem)
              time.sleep(1)
        EOF
        ]
      }
      resources {
        cpu    = 50
        memory = 64
      }
    }
  }
}
