# Tasks that share a network of their own: a proxy in front, an application behind it,
# and names from another DNS server.
job "bridge" {
  datacenters = ["dc1"]

  group "app" {
    network {
      mode     = "bridge"
      hostname = "app-${NOMAD_ALLOC_INDEX}"

      port "http" {
        to = 8080
      }

      dns {
        servers  = ["10.0.0.2", "10.0.0.3"]
        searches = ["internal.example.com"]
        options  = ["ndots:2"]
      }
    }

    service {
      name         = "app"
      provider     = "nomad"
      port         = "http"
      address_mode = "alloc"
    }

    task "proxy" {
      driver = "docker"

      lifecycle {
        hook    = "prestart"
        sidecar = true
      }

      config {
        image = "envoyproxy/envoy:v1.31.0"
        args  = ["-c", "/local/envoy.yaml"]
      }

      template {
        destination = "local/envoy.yaml"
        data        = <<EOF
static_resources:
  listeners:
    - address: { socket_address: { address: 0.0.0.0, port_value: 8080 } }
  clusters:
    - name: app
      load_assignment:
        cluster_name: app
        endpoints: [{ lb_endpoints: [{ endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: 9000 }}}}]}]
EOF
      }

      resources {
        cpu    = 50
        memory = 64
      }
    }

    task "app" {
      driver = "docker"

      config {
        image    = "ghcr.io/example/app@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
        cap_drop = ["all"]
        cap_add  = ["net_bind_service"]
      }

      env {
        LISTEN = "127.0.0.1:9000"
      }

      resources {
        cpu    = 100
        memory = 128
      }
    }
  }
}
