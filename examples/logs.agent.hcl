# What an agent needs to send the output of tasks to a collector. Add it to the
# agent's configuration:
#
#   berth agent -config examples/agent.hcl -config examples/logs.agent.hcl -data-dir /var/lib/berth

log_sink "collector" {
  type     = "http" # or loki, otlp, syslog, file
  address  = "http://127.0.0.1:9880/lines"
  labels   = { cluster = "example" }
  optional = true # only jobs that name it
}
