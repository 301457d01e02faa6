package ui

// Jobs of the stories. What evil says about itself must be shown as text.
const (
	twiceTooLargeJob = `job "hungry" {
  constraint {
    attribute = "${meta.rack}"
    value     = "r1"
  }
  group "g" {
    task "crunch" {
      driver = "raw_exec"
      config {
        command = "/bin/sleep"
        args    = ["100000"]
      }
      resources {
        cpu    = 8000000
        memory = 9000000
      }
    }
  }
}
`
	waitingJob = `job "report-builder" {
  group "build" {
    task "crunch" {
      driver = "raw_exec"
      config {
        command = "/bin/sleep"
        args    = ["100000"]
      }
      resources {
        cpu    = 20
        memory = 9000000
      }
    }
  }
}`
	failingJob = `job "importer" {
  type = "batch"
  group "load" {
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
    task "load" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "printf '\\033[31merror:\\033[0m table orders does not exist\\n' >&2; exit 3"]
      }
      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}`
	webJob = `job "web" {
  group "front" {
    count = 2
    network {
      port "http" {}
    }
    service {
      name     = "web"
      provider = "nomad"
      port     = "http"
    }
    task "server" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "printf '\\033[32mstarted\\033[0m on port %s\\n' $NOMAD_PORT_http; sleep 100000"]
      }
      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
  update {
    min_healthy_time = "0s"
  }
}`
	nightlyJob = `job "nightly" {
  type = "batch"
  periodic {
    crons = ["0 3 * * *"]
  }
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/true"
      }
      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}`
	evilJob = `job "evil" {
  name = "<img src=x onerror=alert(1)>"
  meta {
    k = "<script>alert('meta')</script>"
  }
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "cd $NOMAD_TASK_DIR; echo '<script>alert(2)</script>' > '<b onclick=alert(5)>.html'; printf '\\033]0;title\\007<svg onload=alert(3)>\\033[8mhidden\\033[0m\\r\\n<iframe src=javascript:alert(4)></iframe>\\n'; sleep 100000"]
      }
      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}`
	volumeSpec = `type = "host"
name = "records"
plugin_id = "mkdir"
capability {
  access_mode     = "single-node-single-writer"
  attachment_mode = "file-system"
}`
	volumeJob = `job "keeper" {
  group "disk" {
    volume "records" {
      type            = "host"
      source          = "records"
      sticky          = true
      access_mode     = "single-node-single-writer"
      attachment_mode = "file-system"
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sleep"
        args    = ["100000"]
      }
      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}`
	canaryJob = `job "canary" {
  update {
    canary           = 1
    min_healthy_time = "0s"
  }
  group "g" {
    task "t" {
      driver = "raw_exec"
      env {
        RELEASE = "VERSION"
      }
      config {
        command = "/bin/sleep"
        args    = ["100000"]
      }
      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}`
	streamJob = `job "flow" {
  type        = "stream"
  datacenters = ["*"]
  group "source" {
    output "raw" {}
    task "src" {
      driver = "raw_exec"
      config {
        command = "/bin/sleep"
        args    = ["100000"]
      }
      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
  group "work" {
    network {
      port "in" {}
    }
    input "in" {
      port = "in"
    }
    output "done" {}
    task "wrk" {
      driver = "raw_exec"
      config {
        command = "/bin/sleep"
        args    = ["100000"]
      }
      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
  group "sink" {
    network {
      port "in" {}
    }
    input "in" {
      port = "in"
    }
    task "snk" {
      driver = "raw_exec"
      config {
        command = "/bin/sleep"
        args    = ["100000"]
      }
      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
  stream "raw" {
    from = "source.raw"
    to   = ["work.in"]
  }
  stream "done" {
    from = "work.done"
    to   = ["sink.in"]
  }
}`
)
