# A shop in three groups that find each other by the registry of services.
job "multi-group" {
  datacenters = ["*"]

  group "db" {
    network {
      port "db" {}
    }

    ephemeral_disk {
      size    = 150
      sticky  = true
      migrate = true
    }

    service {
      name     = "shop-db"
      provider = "nomad"
      port     = "db"
    }

    task "db" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "exec sleep 100000"]
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }

  group "api" {
    count = 2

    network {
      port "api" {}
    }

    service {
      name     = "shop-api"
      provider = "nomad"
      port     = "api"
    }

    task "api" {
      driver = "raw_exec"

      template {
        destination = "local/api.env"
        env         = true
        change_mode = "restart"
        data        = <<EOF
{{ range nomadService "shop-db" }}DATABASE={{ .Address }}:{{ .Port }}{{ end }}
EOF
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "echo database $DATABASE; exec sleep 100000"]
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }

  group "front" {
    network {
      port "http" {}
    }

    service {
      name     = "shop-front"
      provider = "nomad"
      port     = "http"
    }

    task "front" {
      driver = "raw_exec"

      template {
        destination = "local/upstreams.conf"
        change_mode = "script"
        change_script {
          command       = "/bin/sh"
          args          = ["-c", "wc -l local/upstreams.conf"]
          timeout       = "20s"
          fail_on_error = false
        }
        data = <<EOF
upstream api {
{{ range nomadService 2 (env "NOMAD_ALLOC_ID") "shop-api" }}  server {{ .Address }}:{{ .Port }};
{{ end }}}
EOF
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "cat local/upstreams.conf; exec sleep 100000"]
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
