# A job that is run once for each input:
#
#   echo some text | berth job dispatch -meta name=first example -
job "example" {
  type = "batch"

  parameterized {
    payload       = "optional"
    meta_required = ["name"]
  }

  group "work" {
    task "count" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "echo \"$NOMAD_META_name\"; wc local/input 2> /dev/null || echo \"no payload\""]
      }

      dispatch_payload {
        file = "input"
      }

      resources {
        cpu    = 100
        memory = 32
      }
    }
  }
}
