# A parameterized job that gets its input with the dispatch.
job "word-count" {
  type = "batch"

  parameterized {
    payload       = "required"
    meta_optional = ["title"]
  }

  group "count" {
    task "count" {
      driver = "raw_exec"

      dispatch_payload {
        file = "input.txt"
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "wc -w < local/input.txt > ${NOMAD_ALLOC_DIR}/data/count; cat ${NOMAD_ALLOC_DIR}/data/count"]
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
