# Functions of the language: files are made of data in the job.
variable "users" {
  type    = list(string)
  default = ["ada", "grace", "edsger"]
}

locals {
  config = {
    listen = "0.0.0.0:8080"
    users  = [for i, u in var.users : { name = title(u), id = 1000 + i }]
    limits = { for u in var.users : upper(u) => length(u) * 10 }
  }
}

job "functions" {
  datacenters = ["*"]
  type        = "batch"

  meta {
    checksum = sha256(jsonencode(local.config))
    users    = join(",", sort(var.users))
    first    = element(var.users, 0)
    expires  = timeadd("2026-01-01T00:00:00Z", "720h")
    size     = format("%03d", length(var.users))
    network  = cidrsubnet("10.0.0.0/8", 8, 7)
    hidden   = base64encode("not a secret")
    known    = tostring(try(index(var.users, "grace"), -1))
    shape    = replace(lower("A B"), "/[^a-z]/", "-")
    merged   = lookup({ a = "x" }, "b", "none")
    rounded  = ceil(2.4) + floor(2.6) + max(1, 2) - min(3, 4)
    words    = coalesce("", "fallback")
  }

  group "functions" {
    task "print" {
      driver = "raw_exec"

      template {
        destination = "local/config.json"
        data        = jsonencode(local.config)
      }

      template {
        destination = "local/config.yaml"
        data        = yamlencode(local.config)
      }

      config {
        command = "/bin/sh"
        args = ["-c", trimspace(<<-EOT
          cat local/config.json
          echo
          cat local/config.yaml
        EOT
        )]
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
