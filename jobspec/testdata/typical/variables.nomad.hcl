# Input variables of all types, and locals that are made of them.
variable "environment" {
  type        = string
  default     = "staging"
  description = "Where this is deployed"

  validation {
    condition     = contains(["staging", "production"], var.environment)
    error_message = "The environment must be staging or production."
  }
}

variable "replicas" {
  type    = number
  default = 1
}

variable "debug" {
  type    = bool
  default = true
}

variable "image" {
  type = object({
    name = string
    tag  = string
  })
  default = {
    name = "app"
    tag  = "2.1.0"
  }
}

variable "labels" {
  type    = map(string)
  default = { team = "payments", tier = "backend" }
}

variable "datacenters" {
  type    = list(string)
  default = ["*"]
}

locals {
  name   = "variables-${var.environment}"
  image  = "${var.image.name}:${var.image.tag}"
  labels = merge(var.labels, { environment = var.environment })
}

locals {
  level = var.debug ? "debug" : "info"
}

job "variables" {
  name        = local.name
  datacenters = var.datacenters
  meta        = local.labels

  group "app" {
    count = var.environment == "production" ? var.replicas * 3 : var.replicas

    task "app" {
      driver = "raw_exec"

      env {
        LOG_LEVEL = local.level
        IMAGE     = local.image
      }

      dynamic "action" {
        for_each = { up = "uptime", who = "id" }
        labels   = [action.key]
        content {
          command = action.value
        }
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "echo $IMAGE at $LOG_LEVEL for $NOMAD_META_team; exec sleep 100000"]
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
