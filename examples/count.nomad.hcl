# A parameterized job: it counts the words of what it is dispatched with.
#
#   berth job run examples/count.nomad.hcl
#   berth job dispatch -meta title=README count README.md
#   berth job status count

job "count" {
  type = "batch"

  parameterized {
    payload       = "required"
    meta_required = ["title"]
    meta_optional = ["note"]
  }

  group "count" {
    task "words" {
      driver = "raw_exec"

      dispatch_payload {
        file = "text"
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "echo $NOMAD_META_TITLE: $(wc -w < $NOMAD_TASK_DIR/text) words"]
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
