# One machine that is server and node. It listens on loopback only.
#
#   berth agent -config examples/agent.hcl -data-dir /var/lib/berth

server {
  enabled          = true
  bootstrap_expect = 1 # a cluster of its own, of this server alone
}

client {
  enabled = true

  # Ports are given on this interface. Without the line it is that of the
  # default route, and other machines reach the tasks.
  network_interface = "lo"
}

# Tasks of this driver run as the agent's own user, with nothing between them
# and the machine: it is off unless it is switched on.
plugin "raw_exec" {
  config {
    enabled = true
  }
}
