# A DNS server on an address of another network of the host.
job "dns-server" {
  datacenters = ["dc1"]
  type        = "system"

  group "coredns" {
    network {
      mode = "bridge"

      port "dns" {
        static       = 53
        to           = 53
        host_network = "private"
      }

      port "metrics" {
        to = 9153
      }

      dns {
        servers = ["1.1.1.1"]
      }
    }

    task "coredns" {
      driver = "docker"

      config {
        image = "coredns/coredns:1.11.3"
        args  = ["-conf", "/local/Corefile"]
        ports = ["dns", "metrics"]
      }

      template {
        destination = "local/Corefile"
        data        = <<EOF
. {
  forward . /etc/resolv.conf
  cache 30
  prometheus 0.0.0.0:9153
  errors
}
EOF
        change_mode = "restart"
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
