# A dispatched template: letters to everyone in a list.
job "mail-merge" {
  type = "batch"

  parameterized {
    payload       = "optional"
    meta_required = ["campaign"]
  }

  group "send" {
    task "send" {
      driver = "docker"

      dispatch_payload {
        file = "addresses.csv"
      }

      config {
        image = "registry.example.com/mail/merge:3"
        args  = ["--list", "${NOMAD_TASK_DIR}/addresses.csv", "--campaign", "${NOMAD_META_campaign}"]

        auth {
          username       = "puller"
          password       = "${secret.registry.password}"
          server_address = "registry.example.com"
        }
      }

      secret "registry" {
        provider = "nomad"
        path     = "nomad/jobs/mail-merge"
      }

      resources {
        cpu    = 100
        memory = 128
      }
    }
  }
}
