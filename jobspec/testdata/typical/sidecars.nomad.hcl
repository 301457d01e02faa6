# All kinds of tasks beside the main one: what prepares, what accompanies, what cleans
# up.
job "sidecars" {
  type = "batch"

  group "work" {
    task "prepare" {
      driver = "raw_exec"

      lifecycle {
        hook = "prestart"
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "echo prepared > ${NOMAD_ALLOC_DIR}/data/steps"]
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }

    task "accompany" {
      driver = "raw_exec"

      lifecycle {
        hook    = "poststart"
        sidecar = true
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "touch ${NOMAD_ALLOC_DIR}/data/beside; while :; do sleep 1; done"]
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }

    task "main" {
      driver = "raw_exec"
      leader = true

      config {
        command = "/bin/sh"
        args    = ["-c", "until [ -e ${NOMAD_ALLOC_DIR}/data/beside ]; do sleep 0.1; done; echo worked >> ${NOMAD_ALLOC_DIR}/data/steps"]
      }

      resources {
        cpu    = 50
        memory = 16
      }
    }

    task "clean" {
      driver = "raw_exec"

      lifecycle {
        hook = "poststop"
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "cat ${NOMAD_ALLOC_DIR}/data/steps; echo cleaned"]
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
