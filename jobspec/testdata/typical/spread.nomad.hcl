# Spread over datacenters and racks, with preferences.
job "spread" {
  datacenters = ["dc1", "dc2", "dc3"]

  constraint {
    attribute = "${attr.kernel.name}"
    value     = "linux"
  }

  constraint {
    attribute = "${attr.cpu.arch}"
    operator  = "set_contains_any"
    value     = "amd64,arm64"
  }

  affinity {
    attribute = "${node.class}"
    value     = "fast"
    weight    = 50
  }

  spread {
    attribute = "${node.datacenter}"
    weight    = 80

    target "dc1" {
      percent = 50
    }
    target "dc2" {
      percent = 30
    }
    target "dc3" {
      percent = 20
    }
  }

  group "app" {
    count = 6

    spread {
      attribute = "${meta.rack}"
    }

    affinity {
      attribute = "${attr.kernel.version}"
      operator  = "version"
      value     = "> 5.10"
      weight    = 25
    }

    affinity {
      attribute = "${meta.tenant}"
      operator  = "regexp"
      value     = "^busy"
      weight    = -50
    }

    constraint {
      distinct_property = "${attr.unique.hostname}"
      value             = "3"
    }

    reschedule {
      delay          = "30s"
      delay_function = "exponential"
      max_delay      = "1h"
      unlimited      = true
    }

    task "app" {
      driver = "docker"

      config {
        image = "nginxdemos/hello:0.4"
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
