package cli

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"

	"berth/internal/config"
	"berth/internal/daemon"
)

// agentFlag is a flag that sets a key of the configuration and overrides its
// value from files.
type agentFlag struct {
	// kind is bool, int, list, map or string. A list splits values at commas.
	name, key, kind, usage string
}

// agentFlags are the flags of "agent" other than -dev and -config. Names are
// those of Nomad; keys are paths in the configuration.
var agentFlags = []agentFlag{
	{"server", "server.enabled", "bool", "Run a server: keep the cluster state and schedule jobs."},
	{"client", "client.enabled", "bool", "Run a node: execute the allocations that servers place on this machine."},
	{"bind", "bind_addr", "string", "The `address` to listen on. Defaults to 127.0.0.1."},
	{"data-dir", "data_dir", "string", "The absolute path of the `directory` for all persistent data."},
	{"dc", "datacenter", "string", "The `name` of this agent's datacenter. Defaults to dc1."},
	{"region", "region", "string", "The `name` of this agent's region. Defaults to global."},
	{"node", "name", "string", "The `name` of this agent. Defaults to the host name."},
	{"log-level", "log_level", "string", "The lowest `level` to log: trace, debug, info, warn or error."},
	{"log-json", "log_json", "bool", "Write the log as JSON, one object per line."},
	{"log-include-location", "log_include_location", "bool", "Write the source file and line with each line of the log."},
	{"acl-enabled", "acl.enabled", "bool", "Enable access control."},
	{"acl-replication-token", "acl.replication_token", "string", "The `token` with which this region copies from the authoritative region. Other users of this machine can see it in the process list."},
	{"raft-protocol", "server.raft_protocol", "int", "The `version` of the Raft protocol. The only one is 3."},
	{"bootstrap-expect", "server.bootstrap_expect", "int", "The `number` of servers that bootstrap a new cluster together. 0 means that this server only joins existing ones."},
	{"encrypt", "server.encrypt", "string", "The `key` that encrypts gossip between servers, as made by \"operator gossip keyring generate\". Other users of this machine can see it in the process list."},
	{"join", "server.server_join.start_join", "list", "The `address` of another server to join once at startup, as host or host:port. Can be repeated."},
	{"retry-join", "server.server_join.retry_join", "list", "The `address` of another server to join, as host or host:port, retrying until one answers. Can be repeated."},
	{"retry-max", "server.server_join.retry_max", "int", "The `number` of -retry-join attempts after which the agent exits. 0 is unlimited."},
	{"retry-interval", "server.server_join.retry_interval", "string", "The `duration` between -retry-join attempts. Defaults to 30s."},
	{"rejoin", "server.rejoin_after_leave", "bool", "Rejoin the cluster even if this server left it before."},
	{"servers", "client.servers", "list", "A comma-separated list of server `addresses` as host:port. Can be repeated."},
	{"state-dir", "client.state_dir", "string", "The `directory` for the node's own state."},
	{"alloc-dir", "client.alloc_dir", "string", "The `directory` for allocation directories."},
	{"host-volumes-dir", "client.host_volumes_dir", "string", "The `directory` for dynamic host volumes."},
	{"host-volume-plugin-dir", "client.host_volume_plugin_dir", "string", "The `directory` with the plugins that make dynamic host volumes."},
	{"plugin-dir", "plugin_dir", "string", "The `directory` with the programs of external task drivers and device plugins."},
	{"alloc-mounts-dir", "client.alloc_mounts_dir", "string", "Accepted and without effect: no driver needs a second `directory` for allocations."},
	{"node-class", "client.node_class", "string", "The `class` of the node, for use in constraints."},
	{"node-pool", "client.node_pool", "string", "The node `pool` of the node."},
	{"client-intro-token", "client.intro_token", "string", "The introduction `token` that lets a new node join, as made by \"node intro create\". Other users of this machine can see it in the process list; the file intro_token.jwt in the state directory does the same."},
	{"network-interface", "client.network_interface", "string", "The network `interface` whose address is used for task ports."},
	{"network-speed", "client.network_speed", "int", "Accepted and without effect: bandwidth is not scheduled. Mbit/s, a `number`."},
	{"preferred-address-family", "client.preferred_address_family", "string", "The address `family` that is preferred for task ports, ipv4 or ipv6, if the interface has both."},
	{"meta", "client.meta", "map", "A `key=value` pair of node metadata. Can be repeated."},
}

// agentUnsupported are the other flags of Nomad's agent. Those in the second
// list take no value.
var (
	agentUnsupported = strings.Fields(`consul-address consul-auth consul-ca-file consul-cert-file consul-client-failures-before-critical consul-client-failures-before-warning
		consul-client-http-check-name consul-client-service-name consul-key-file consul-server-failures-before-critical
		consul-server-failures-before-warning consul-server-http-check-name consul-server-rpc-check-name consul-server-serf-check-name
		consul-server-service-name consul-token eventlog-level
		vault-address vault-ca-file vault-ca-path vault-cert-file
		vault-create-from-role vault-key-file vault-namespace vault-tls-server-name`)
	agentUnsupportedBool = strings.Fields(`consul-auto-advertise consul-checks-use-advertise consul-client-auto-join consul-server-auto-join
		consul-ssl consul-verify-ssl dev-connect dev-consul dev-vault eventlog vault-enabled vault-tls-skip-verify`)
)

// agentCommand runs a server, a node, or both in one process.
func agentCommand() *command {
	return &command{
		name: "agent", synopsis: "Run a server, a node, or both", local: true,
		example: "agent -config /etc/berth.d",
		help: `Runs an agent until it is interrupted: a server, a node, or both in one process. The configuration comes from -config files and
			flags; flags win. Configuration keys are those of Nomad. An unknown or unsupported key is an error. The agent listens on 127.0.0.1
			unless bind_addr or addresses say otherwise.

			Tasks survive a restart of the agent: started with the same data_dir, it picks them up again. With -dev, tasks end with the agent.`,
		setup: func(f *flags) action {
			dev := f.Bool("dev", "Run a server and a node together for local development: on loopback, in a temporary directory, with the drivers raw_exec and mock_driver. Nothing is kept.")
			paths := f.List("config", "A configuration `file` in HCL or JSON, or a directory of such files. Can be repeated; later files win.")
			var lay []func() (config.Flag, bool)
			for _, a := range agentFlags {
				lay = append(lay, a.declare(f))
			}
			f.Unsupported(agentUnsupported...)
			f.UnsupportedBool(agentUnsupportedBool...)
			return func(ctx context.Context, c *call) error {
				// Only flags on the command line override files: a flag's
				// default must not hide what a file sets.
				over := config.Overrides{Dev: *dev}
				for _, read := range lay {
					if flag, given := read(); given {
						over.Flags = append(over.Flags, flag)
					}
				}
				for i, p := range *paths {
					(*paths)[i] = c.path(p)
				}
				return c.agent(ctx, *paths, over)
			}
		},
	}
}

// declare declares the flag. The function it returns reports the flag's value
// and whether it was given.
func (a agentFlag) declare(f *flags) func() (config.Flag, bool) {
	var value func() any
	switch a.kind {
	case "bool":
		b := f.Bool(a.name, a.usage)
		value = func() any { return *b }
	case "int":
		n := f.Int(a.name, 0, a.usage)
		value = func() any { return *n }
	case "list":
		l := f.List(a.name, a.usage)
		value = func() any { return splitCommas(*l) }
	case "map":
		l := f.List(a.name, a.usage)
		value = func() any { return keysAndValues(*l) }
	default:
		s := f.String(a.name, a.usage)
		value = func() any { return *s }
	}
	return func() (config.Flag, bool) {
		return config.Flag{Name: "-" + a.name, Key: a.key, Value: value()}, f.given(a.name)
	}
}

// splitCommas returns the elements of repeated, comma-separated values, without
// spaces around them.
func splitCommas(all []string) (out []string) {
	for _, s := range all {
		for part := range strings.SplitSeq(s, ",") {
			out = append(out, strings.TrimSpace(part))
		}
	}
	return out
}

// keysAndValues returns repeated key=value pairs as a map; the last one wins. A
// pair without = has an empty value.
func keysAndValues(all []string) map[string]string {
	out := map[string]string{}
	for _, s := range all {
		k, v, _ := strings.Cut(s, "=")
		out[strings.TrimSpace(k)] = v
	}
	return out
}

// agent runs an agent until ctx ends.
func (c *call) agent(ctx context.Context, paths []string, over config.Overrides) error {
	// Flags are part of the load: they override files before the whole is
	// checked.
	conf, err := config.Load(paths, over)
	if err != nil {
		return err
	}
	// With -dev, nothing outlives the agent.
	if conf.TempData {
		defer os.RemoveAll(conf.DataDir)
	}
	log, err := daemon.OpenLog(conf, c.Out)
	if err != nil {
		return err
	}
	defer log.Close()
	again := over
	again.Again = conf
	d, err := daemon.New(daemon.Config{
		Config: conf, Log: log.Logger, Output: log, Version: Version, NomadVersion: NomadVersion,
		Reload: func() (*config.Config, error) { return config.Load(paths, again) },
	})
	if err != nil {
		return err
	}
	// The banner comes after New, which binds the ports that it shows.
	c.banner(conf, d)
	for _, w := range conf.Warnings {
		log.Warn(w)
	}
	return d.Run(ctx)
}

// banner prints how the agent is configured.
func (c *call) banner(conf *config.Config, d *daemon.Daemon) {
	p := c.page()
	if len(conf.Files) > 0 {
		p.linef("==> Loaded configuration from %s", strings.Join(conf.Files, ", "))
	}
	p.linef("==> Berth agent configuration:")
	p.gap()
	// Only what people look for first; "agent-info" has the rest.
	rows := [][2]string{
		{"Version", Version},
		{"HTTP", d.HTTPAddr()},
		{"Region", conf.Region + " (DC: " + conf.Datacenter + ")"},
		{"Server", strconv.FormatBool(conf.Server.Enabled)},
		{"Client", strconv.FormatBool(conf.Client.Enabled)},
		{"Data dir", conf.DataDir},
		{"Log level", strings.ToUpper(conf.LogLevel.String())},
	}
	if conf.Server.Enabled {
		rows = slices.Insert(rows, 2, [2]string{"RPC", d.RPCAddr()})
	}
	if conf.Client.Enabled {
		rows = append(rows, [2]string{"Node ID", d.NodeID().String()})
	}
	for _, r := range rows {
		p.linef("    %9s: %s", r[0], r[1])
	}
	p.gap()
	p.linef("==> Berth agent started! Log data will stream in below:")
	p.gap()
	_ = c.show(p)
}
