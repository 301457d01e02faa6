package cli

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth"
	"berth/client"
	"berth/op"
)

// operatorDebugCommand collects what is needed to look for a defect.
func operatorDebugCommand() *command {
	return &command{
		name: "operator debug", synopsis: "Collect a diagnostic bundle",
		example: "operator debug -duration 30s -server-id all -node-id all",
		help: `Collects the state of the cluster as lists of objects, and from servers and nodes their logs, metrics and profiles, and writes them
			as an archive to the current directory. -output writes a directory instead.

			Secrets are removed before anything is written: tokens and keys, and everything that users choose freely, such as environment,
			metadata, arguments and configuration of tasks, variables and payloads. Look through the bundle before you give it away all the same: names of
			jobs, nodes and files stay.

			What cannot be read is noted in index.json of the bundle, with the reason. A management token reads everything.`,
		setup: func(f *flags) action {
			d := &debugFlags{
				duration:   f.Duration("duration", 2*time.Minute, "The `duration` for which logs, events and metrics are collected; 0 takes one look."),
				interval:   f.Duration("interval", 30*time.Second, "The `duration` between two readings of the metrics."),
				level:      f.FlagSet.String("log-level", "DEBUG", "The lowest `level` of the logs: trace, debug, info, warn or error."),
				location:   f.Bool("log-include-location", "Include the source file and line with each line of the logs."),
				export:     f.Bool("log-file-export", "Collect the log files of the agents too, as far as they write one (log_file)."),
				lookback:   f.Duration("log-lookback", 0, "Collect the log files of the agents too, but only lines that are not older than this `duration`."),
				servers:    f.FlagSet.String("server-id", "all", "The `names` of servers, separated by commas, all or leader."),
				nodes:      f.FlagSet.String("node-id", "all", "The `IDs` of nodes or prefixes of them, separated by commas, or all."),
				class:      f.String("node-class", "Only nodes of this `class`."),
				most:       f.Int("max-nodes", 10, "The largest `number` of nodes. 0 is all."),
				topics:     f.List("event-topic", "Collect events of this `topic`, such as Job, Allocation:* or *. Can be repeated; none collects nothing. Defaults to none."),
				eventIndex: f.Int("event-index", 0, "The `index` from which on events are collected. 0 is from now on."),
				stale:      f.Bool("stale", "Accept the answer of any server, even without a leader."),
				output:     f.String("output", "Write a `directory` in this one, and no archive."),
				profile:    f.Duration("pprof-duration", time.Second, "The `duration` for which the processor is profiled; 0 means not at all."),
				verbose:    f.Bool("verbose", "Print each file that is collected."),
			}
			f.Duration("pprof-interval", 0, "A `duration` that is accepted and has no effect: profiles are taken once.")
			f.Unsupported("consul-http-addr", "consul-auth", "consul-token", "consul-token-file", "consul-client-cert", "consul-client-key", "consul-ca-cert", "consul-ca-path",
				"vault-address", "vault-token", "vault-ca-cert", "vault-ca-path", "vault-client-cert", "vault-client-key")
			return d.run
		},
	}
}

// debugFlags holds the flags of "operator debug".
type debugFlags struct {
	duration, interval, profile, lookback *time.Duration
	level, servers, nodes, class, output  *string
	location, stale, verbose, export      *bool
	most, eventIndex                      *int
	topics                                *[]string
}

// run collects, redacts and writes the bundle.
func (d *debugFlags) run(ctx context.Context, c *call) error {
	for name, v := range map[string]time.Duration{"duration": *d.duration, "interval": *d.interval, "pprof-duration": *d.profile, "log-lookback": *d.lookback} {
		if v < 0 || v > 24*time.Hour {
			return c.usagef("flag -%s must be between 0s and 24h, got %s", name, v)
		}
	}
	if err := c.notNegative(numberFlag{"max-nodes", int64(*d.most)}, numberFlag{"event-index", int64(*d.eventIndex)}); err != nil {
		return err
	}
	switch {
	case *d.interval < 100*time.Millisecond:
		return c.usagef("flag -interval must be at least 100ms, got %s", *d.interval)
	case *d.export && *d.lookback > 0:
		return c.usagef("-log-file-export and -log-lookback cannot be used together")
	case !slices.Contains([]string{"trace", "debug", "info", "warn", "error"}, strings.ToLower(*d.level)):
		return c.usagef("flag -log-level must be trace, debug, info, warn or error, got %q", *d.level)
	}
	name := "berth-debug-" + c.Now().UTC().Format("2006-01-02-150405Z")
	b := &bundle{call: c, debug: d, began: c.Now()}
	if err := b.collect(ctx); err != nil {
		return err
	}
	to := name + ".tar.gz"
	write := b.archive
	if *d.output != "" {
		to, write = filepath.Join(*d.output, name), b.directory
	}
	if err := write(c.path(to), name); err != nil {
		return berth.Errorf(berth.Invalid, "write %s: %w", to, causeOf(err))
	}
	p := c.page()
	p.linef("Collected %s, %d could not be read", plural(len(b.files), "file"), len(b.failed))
	if *d.output != "" {
		p.linef("Created debug directory: %s", to)
	} else {
		p.linef("Created debug archive: %s", to)
	}
	return c.show(p)
}

// target is an agent that is asked for its logs and profiles.
type target struct{ folder, param, id string }

// targets returns the servers and the nodes that the flags name.
func (d *debugFlags) targets(ctx context.Context, c *call) (out []target, err error) {
	members, _, err := client.Call(ctx, c.client, op.ListMembers, op.Query{AllowStale: *d.stale})
	if err != nil {
		return nil, err
	}
	names := splitCommas([]string{*d.servers})
	for _, m := range members.Members {
		if *d.servers == "all" || slices.Contains(names, m.Name) {
			out = append(out, target{"server/" + m.Name, "server_id", m.Name})
		}
	}
	if *d.servers == "leader" {
		out = append(out, target{"server/leader", "server_id", "leader"})
	}
	list, _, err := client.Call(ctx, c.client, op.ListNodes, op.NodesQuery{Query: op.Query{AllowStale: *d.stale}})
	if err != nil {
		return nil, err
	}
	prefixes, n := splitCommas([]string{*d.nodes}), 0
	for _, node := range list {
		id := node.ID.String()
		wanted := *d.nodes == "all" || slices.ContainsFunc(prefixes, func(p string) bool { return p != "" && strings.HasPrefix(id, p) })
		if !wanted || *d.class != "" && node.NodeClass != *d.class || *d.most > 0 && n == *d.most {
			continue
		}
		n++
		out = append(out, target{"client/" + id, "node_id", id})
	}
	return out, nil
}

// clusterFiles are the lists that describe the cluster, by file.
var clusterFiles = []struct{ file, path string }{
	{"cluster/agent-self.json", "/v1/agent/self"}, {"cluster/members.json", "/v1/agent/members"}, {"cluster/leader.json", "/v1/status/leader"},
	{"cluster/regions.json", "/v1/regions"}, {"cluster/raft.json", "/v1/operator/raft/configuration"}, {"cluster/scheduler.json", "/v1/operator/scheduler/configuration"},
	{"cluster/autopilot.json", "/v1/operator/autopilot/configuration"}, {"cluster/autopilot-health.json", "/v1/operator/autopilot/health"},
	{"cluster/state-hash.json", "/v1/operator/state-hash"}, {"cluster/workers.json", "/v1/agent/schedulers"}, {"cluster/root-keys.json", "/v1/operator/keyring/keys"},
	{"cluster/jobs.json", "/v1/jobs?namespace=*&meta=true"}, {"cluster/nodes.json", "/v1/nodes?resources=true"}, {"cluster/allocations.json", "/v1/allocations?namespace=*&resources=true"},
	{"cluster/evaluations.json", "/v1/evaluations?namespace=*"}, {"cluster/deployments.json", "/v1/deployments?namespace=*"}, {"cluster/services.json", "/v1/services?namespace=*"},
	{"cluster/namespaces.json", "/v1/namespaces"}, {"cluster/node-pools.json", "/v1/node/pools"}, {"cluster/quotas.json", "/v1/quotas"},
	{"cluster/volumes.json", "/v1/volumes?namespace=*"}, {"cluster/plugins.json", "/v1/plugins"},
}

// agentFiles are what one agent is asked for, by file.
func (d *debugFlags) agentFiles() (out []struct{ file, path string }) {
	add := func(file, path string) { out = append(out, struct{ file, path string }{file, path}) }
	add("agent-host.json", "/v1/agent/host")
	add("goroutine.txt", "/v1/agent/pprof/goroutine?debug=1")
	add("heap.prof", "/v1/agent/pprof/heap")
	add("allocs.prof", "/v1/agent/pprof/allocs")
	if *d.profile > 0 {
		add("cpu.prof", "/v1/agent/pprof/profile?seconds="+strconv.Itoa(max(1, int(d.profile.Seconds()))))
	}
	return out
}

// with adds parameters to a path.
func with(p string, add url.Values) string {
	base, query, _ := strings.Cut(p, "?")
	all, _ := url.ParseQuery(query)
	for k, v := range add {
		all[k] = v
	}
	if len(all) == 0 {
		return base
	}
	return base + "?" + all.Encode()
}

// maxDebugFile bounds one file of the bundle.
const maxDebugFile = 256 << 20

// read returns the body of an answer, as far as it came until ctx ended.
func (b *bundle) read(ctx context.Context, path string, partial bool) ([]byte, error) {
	r, err := b.call.client.RawRequest(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return nil, err
	}
	resp, err := b.call.client.Raw(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if err := b.call.client.Refused(resp); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxDebugFile))
	if partial && ctx.Err() != nil {
		err = nil
	}
	return text, err
}

// archive writes the bundle as a compressed archive with one folder.
func (b *bundle) archive(to, folder string) (err error) {
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
		if err != nil {
			os.Remove(to)
		}
	}()
	zip := gzip.NewWriter(f)
	out := tar.NewWriter(zip)
	for _, file := range b.files {
		h := &tar.Header{Name: path.Join(folder, file.name), Mode: 0o600, Size: int64(len(file.text)), ModTime: b.began, Format: tar.FormatPAX}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := out.Write(file.text); err != nil {
			return err
		}
	}
	if err := out.Close(); err != nil {
		return err
	}
	return zip.Close()
}

// directory writes the bundle as a directory that must not exist.
func (b *bundle) directory(to, _ string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	for _, file := range b.files {
		name := filepath.Join(to, filepath.FromSlash(file.name))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(name, file.text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// note tells the user what goes on.
func (b *bundle) note(format string, args ...any) {
	if *b.debug.verbose {
		fmt.Fprintln(b.call.Out, clean(fmt.Sprintf(format, args...)))
	}
}
