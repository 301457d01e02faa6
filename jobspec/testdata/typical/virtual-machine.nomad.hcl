# A virtual machine from an image that is fetched.
job "virtual-machine" {
  datacenters = ["dc1"]

  ui {
    description = "A virtual machine"
  }

  group "vm" {
    network {
      port "ssh" {
        to = 22
      }
    }

    task "vm" {
      driver = "qemu"

      artifact {
        source      = "https://images.example.com/debian-12.qcow2.xz"
        destination = "local"
      }

      config {
        image_path        = "local/debian-12.qcow2"
        accelerator       = "tcg"
        graceful_shutdown = true
        args              = ["-nodefaults", "-nographic"]
        port_map {
          ssh = 22
        }
      }

      kill_timeout = "1m"

      resources {
        cpu    = 1000
        memory = 1024
      }
    }
  }
}
