package cli

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"

	"berth/internal/config"
	"berth/internal/daemon"
)

// agentFlag is a flag that says what a key of the configuration says, and wins
// over it.
type agentFlag struct {
	name, key, kind, usage string
}

var agentFlags = []agentFlag{
	{"server", "server.enabled", "bool", "Be a server: keep the state of the cluster and decide what runs where."},
	{"client", "client.enabled", "bool", "Be a node: run what servers place on this machine."},
	{"bind", "bind_addr", "text", "The `address` to listen at; 127.0.0.1 if nothing says otherwise."},
	{"data-dir", "data_dir", "text", "The `folder` for everything that lasts, as an absolute path."},
	{"dc", "datacenter", "text", "The `name` of the datacenter this agent is in; dc1 if nothing says otherwise."},
	{"region", "region", "text", "The `name` of the region; global if nothing says otherwise."},
	{"node", "name", "text", "The `name` of this agent; that of the host if nothing says otherwise."},
	{"log-level", "log_level", "text", "The least `level` that is logged: trace, debug, info, warn or error."},
	{"log-json", "log_json", "bool", "Write the log as JSON, one object a line."},
	{"bootstrap-expect", "server.bootstrap_expect", "whole", "The `number` of servers that begin a new cluster together; 0 if this one only joins others."},
	{"encrypt", "server.encrypt", "text", "The `key` by which servers encrypt what they tell each other; operator gossip keyring generate makes one. All who see the processes of this machine see it."},
	{"join", "server.server_join.start_join", "list", "The `address` of another server to join once, host or host:port; may be given many times."},
	{"retry-join", "server.server_join.retry_join", "list", "The `address` of another server to join, host or host:port, again and again until one answers; may be given many times."},
	{"retry-max", "server.server_join.retry_max", "whole", "After this `number` of attempts of -retry-join the agent ends; 0 is no end."},
	{"retry-interval", "server.server_join.retry_interval", "text", "The `time` between two attempts of -retry-join; 30s if nothing says otherwise."},
	{"rejoin", "server.rejoin_after_leave", "bool", "Find the other servers again though this one left them."},
	{"servers", "client.servers", "list", "The `addresses` of servers, host:port, with commas between; may be given many times."},
	{"state-dir", "client.state_dir", "text", "The `folder` of what the node must know after a restart."},
	{"alloc-dir", "client.alloc_dir", "text", "The `folder` of the directories of allocations."},
	{"node-class", "client.node_class", "text", "The `class` of the node, for constraints."},
	{"node-pool", "client.node_pool", "text", "The `pool` that the node is in."},
	{"network-interface", "client.network_interface", "text", "The network `interface` whose address tasks are given ports on."},
	{"meta", "client.meta", "map", "A `key=value` of the node's meta; may be given many times."},
}

// agentUnbuilt are the other flags of Nomad's agent. Those of the second list
// take no value.
var (
	agentUnbuilt = strings.Fields(`acl-replication-token alloc-mounts-dir client-intro-token
		consul-address consul-auth consul-ca-file consul-cert-file consul-client-failures-before-critical consul-client-failures-before-warning
		consul-client-http-check-name consul-client-service-name consul-key-file consul-server-failures-before-critical
		consul-server-failures-before-warning consul-server-http-check-name consul-server-rpc-check-name consul-server-serf-check-name
		consul-server-service-name consul-token eventlog-level host-volume-plugin-dir host-volumes-dir network-speed plugin-dir
		preferred-address-family raft-protocol vault-address vault-ca-file vault-ca-path vault-cert-file
		vault-create-from-role vault-key-file vault-namespace vault-tls-server-name`)
	agentUnbuiltBool = strings.Fields(`acl-enabled consul-auto-advertise consul-checks-use-advertise consul-client-auto-join consul-server-auto-join
		consul-ssl consul-verify-ssl dev-connect dev-consul dev-vault eventlog log-include-location vault-enabled vault-tls-skip-verify`)
)

// agentCommand runs a server, a node, or both in one process.
func agentCommand() *command {
	return &command{
		name: "agent", synopsis: "Run a server, a node, or both", local: true,
		help: `Runs the agent until it is interrupted: a server, a node, or both in one process, as -config, the flags or -dev say. Keys of the
			configuration are those of Nomad; what is unknown or not built yet refuses to start. Nothing listens beyond this machine unless bind_addr
			or addresses say so.

			Tasks outlive the agent: it takes them up again when it is started with the same data_dir. With -dev they end with it.`,
		setup: func(f *flags) action {
			dev := f.Bool("dev", "Be server and node at once, for one person's machine: on loopback, in a temporary folder, with the drivers raw_exec and mock_driver. Nothing lasts.")
			paths := f.List("config", "A `file` of configuration, in HCL or JSON, or a folder of them; may be given many times, later ones win.")
			var lay []func() (config.Flag, bool)
			for _, a := range agentFlags {
				lay = append(lay, a.declare(f))
			}
			f.Unbuilt(agentUnbuilt...)
			f.UnbuiltBool(agentUnbuiltBool...)
			return func(ctx context.Context, c *call) error {
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

// declare declares the flag. What it returns tells what it was set to, and
// whether.
func (a agentFlag) declare(f *flags) func() (config.Flag, bool) {
	var value func() any
	switch a.kind {
	case "bool":
		b := f.Bool(a.name, a.usage)
		value = func() any { return *b }
	case "whole":
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

func splitCommas(all []string) (out []string) {
	for _, s := range all {
		for part := range strings.SplitSeq(s, ",") {
			out = append(out, strings.TrimSpace(part))
		}
	}
	return out
}

func keysAndValues(all []string) map[string]string {
	out := map[string]string{}
	for _, s := range all {
		k, v, _ := strings.Cut(s, "=")
		out[strings.TrimSpace(k)] = v
	}
	return out
}

// agent runs an agent until it is told to end.
func (c *call) agent(ctx context.Context, paths []string, over config.Overrides) error {
	conf, err := config.Load(paths, over)
	if err != nil {
		return err
	}
	if conf.TempData {
		defer os.RemoveAll(conf.DataDir)
	}
	log := agentLog(c, conf)
	d, err := daemon.New(daemon.Config{Config: conf, Log: log, Version: Version, NomadVersion: NomadVersion})
	if err != nil {
		return err
	}
	c.banner(conf, d)
	for _, w := range conf.Warnings {
		log.Warn(w)
	}
	return d.Run(ctx)
}

// banner tells the person who started the agent what it is.
func (c *call) banner(conf *config.Config, d *daemon.Daemon) {
	p := c.page()
	if len(conf.Files) > 0 {
		p.linef("==> Loaded configuration from %s", strings.Join(conf.Files, ", "))
	}
	p.linef("==> Berth agent configuration:")
	p.gap()
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

// agentLog is the log of an agent, on the same stream as its banner.
func agentLog(c *call, conf *config.Config) *slog.Logger {
	o := &slog.HandlerOptions{Level: conf.LogLevel}
	if conf.LogJSON {
		return slog.New(slog.NewJSONHandler(c.Out, o))
	}
	return slog.New(slog.NewTextHandler(c.Out, o))
}
