# A Java program from a repository of builds, checked by its checksum.
job "java-service" {
  datacenters = ["dc1"]

  constraint {
    attribute = "${attr.driver.java.version}"
    operator  = "version"
    value     = ">= 17"
  }

  group "api" {
    network {
      port "http" {}
    }

    task "api" {
      driver = "java"

      config {
        jar_path    = "local/app.jar"
        jvm_options = ["-Xms128m", "-Xmx256m"]
        args        = ["--server.port=${NOMAD_PORT_http}"]
      }

      artifact {
        source = "https://builds.example.com/app/2.4.1/app.jar"

        options {
          checksum = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
        }

        headers {
          User-Agent    = "nomad-[${NOMAD_JOB_ID}]-[${NOMAD_GROUP_NAME}]-[${NOMAD_TASK_NAME}]"
          X-Nomad-Alloc = "${NOMAD_ALLOC_ID}"
        }
      }

      service {
        provider = "nomad"
        port     = "http"

        check {
          type     = "http"
          path     = "/actuator/health"
          interval = "15s"
          timeout  = "3s"

          check_restart {
            limit = 3
            grace = "2m"
          }
        }
      }

      resources {
        cpu    = 500
        memory = 384
      }
    }
  }
}
