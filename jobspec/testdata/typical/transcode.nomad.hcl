# A parameterized job: each dispatch converts one film.
job "transcode" {
  datacenters = ["dc1"]
  type        = "batch"

  parameterized {
    payload       = "forbidden"
    meta_required = ["input", "profile"]
    meta_optional = ["notify"]
  }

  meta {
    notify = "nobody@example.com"
  }

  group "transcode" {
    ephemeral_disk {
      size = 4000
    }

    task "ffmpeg" {
      driver = "exec"

      artifact {
        source      = "https://example.com/films/${NOMAD_META_input}"
        destination = "local/in.mp4"
        mode        = "file"
      }

      config {
        command = "/usr/bin/ffmpeg"
        args    = ["-i", "local/in.mp4", "-preset", "${NOMAD_META_profile}", "alloc/data/out.mp4"]
      }

      resources {
        cores  = 2
        memory = 2048
      }
    }
  }
}
