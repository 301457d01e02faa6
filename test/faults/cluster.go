package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"berth/test/bed"
)

// Setup is how the cluster of a fault differs from the usual one.
type Setup struct {
	DiskMiB   int               // servers keep their data on a disk of this size; 0: with everything else
	Snapshots bool              // servers save their state often, and keep little log behind it
	Many      bool              // ten times as many simulated nodes
	Defect    map[string]string // failpoints from the start on, by machine; "" is every server
}

// cluster is the machines of a fault's rounds and what runs on them.
type cluster struct {
	*network
	opts    *options
	setup   Setup
	dir     string
	servers []*machine
	agents  []*machine
	fleet   *fleet
	before  map[string]*saved // by server: the state after the round before
	logs    map[string]int64  // by machine: how much of its log was looked at
	began   time.Time
}

const (
	startLimit = 60 * time.Second // for a cluster, from nothing to ready
	endLimit   = 30 * time.Second // for a process that was asked to end
)

// A node that is silent is given up after some 11 s: soon, so that rounds are
// short, but an agent takes 8 s to give up a server that does not answer.
const serverConfig = `
name      = "NAME"
data_dir  = "DATA"
bind_addr = "ADDR"
log_level = "INFO"
limits {
  http_max_conns_per_client = 0
  rpc_max_conns_per_client  = 0
}
server {
  enabled                = true
  bootstrap_expect       = 3
  min_heartbeat_ttl      = "2s"
  heartbeat_grace        = "9s"
  failover_heartbeat_ttl = "15s"
  SNAPSHOTS
  server_join {
    retry_join     = [SERVERS]
    retry_interval = "1s"
  }
}
autopilot {
  server_stabilization_time = "1s"
}
`

// trailingLogs is how many entries a server keeps behind a saved state if it
// saves often.
const trailingLogs = 10

var oftenSnapshots = fmt.Sprintf(`
  raft_snapshot_threshold = 50
  raft_snapshot_interval  = "5s"
  raft_trailing_logs      = %d
`, trailingLogs)

const agentConfig = `
name      = "NAME"
data_dir  = "DATA"
bind_addr = "ADDR"
client {
  enabled           = true
  node_class        = "real"
  servers           = [SERVERS]
  network_interface = "eth0"
  cgroup_parent     = "CGROUP"
  memory_total_mb   = 4096
  cpu_total_compute = 20000
  disk_total_mb     = 100000 # whatever room this machine has
}
plugin "raw_exec" {
  config { enabled = true }
}
`

// newCluster starts three servers, three agents and the simulated nodes, and
// waits until all of them are ready.
func newCluster(ctx context.Context, o *options, net *network, setup Setup) (c *cluster, err error) {
	c = &cluster{network: net, opts: o, setup: setup, before: map[string]*saved{}, logs: map[string]int64{}, began: time.Now()}
	if c.dir, err = os.MkdirTemp(o.dir, "cluster-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close(ctx, false))
		}
	}()
	for _, name := range []string{"s1", "s2", "s3"} {
		m, err := c.machine(name, true)
		if err != nil {
			return c, err
		}
		c.servers = append(c.servers, m)
	}
	for _, name := range []string{"n1", "n2", "n3"} {
		m, err := c.machine(name, false)
		if err != nil {
			return c, err
		}
		c.agents = append(c.agents, m)
	}
	// All configurations name all servers, so the machines exist before the
	// first one starts.
	for _, m := range c.machines() {
		if err := c.configure(m); err != nil {
			return c, err
		}
		if err := m.start(); err != nil {
			return c, err
		}
	}
	count := o.nodes
	if setup.Many {
		count *= 10
	}
	c.fleet = newFleet(count, c.rpcs())
	c.fleet.start()
	if err := c.ready(ctx, startLimit); err != nil {
		c.keep(filepath.Join(o.out, "no-cluster"), nil)
		return c, err
	}
	return c, c.registerStanding(ctx)
}

// machines returns the servers, then the agents.
func (c *cluster) machines() []*machine {
	return append(append([]*machine{}, c.servers...), c.agents...)
}

// machine creates a host of the network and returns the machine on it, not yet
// started.
func (c *cluster) machine(name string, server bool) (*machine, error) {
	h, err := c.host(name)
	if err != nil {
		return nil, err
	}
	return &machine{
		host: h, name: name, server: server, berth: c.opts.berth, dir: filepath.Join(c.dir, name, "data"),
		config: filepath.Join(c.dir, name+".hcl"), points: filepath.Join(c.dir, name+".points"), log: filepath.Join(c.dir, name+".log"),
	}, nil
}

// rpcs returns the RPC addresses of the servers.
func (c *cluster) rpcs() (out []string) {
	for _, s := range c.servers {
		out = append(out, s.addr+":4647")
	}
	return out
}

// configure writes the configuration of a machine and creates its disk.
func (c *cluster) configure(m *machine) error {
	// Servers find each other by gossip, agents find servers by RPC.
	text, snapshots, port := agentConfig, "", ":4647"
	if m.server {
		text, port = serverConfig, ":4648"
	}
	if c.setup.Snapshots {
		snapshots = oftenSnapshots
	}
	var servers []string
	for _, s := range c.servers {
		servers = append(servers, fmt.Sprintf("%q", s.addr+port))
	}
	text = strings.NewReplacer("NAME", m.name, "DATA", m.dir, "ADDR", m.addr, "SERVERS", strings.Join(servers, ", "),
		"SNAPSHOTS", snapshots, "CGROUP", cgroupPrefix(c.outer())+m.name+".slice").Replace(text)
	if err := os.WriteFile(m.config, []byte(text), 0o644); err != nil {
		return err
	}
	// The empty name stands for all servers.
	points := c.setup.Defect[m.name]
	if m.server && points == "" {
		points = c.setup.Defect[""]
	}
	if err := m.set(points); err != nil {
		return err
	}
	if err := os.MkdirAll(m.dir, 0o755); err != nil {
		return err
	}
	// A disk of its own can be filled without harm to the others.
	if c.setup.DiskMiB > 0 && m.server {
		return syscall.Mount("tmpfs", m.dir, "tmpfs", 0, fmt.Sprintf("size=%dm", c.setup.DiskMiB))
	}
	return nil
}

// outer returns the ID of the first process inside as it is seen from outside,
// 0 if it is not set.
func (c *cluster) outer() (pid int) {
	_, _ = fmt.Sscan(os.Getenv(outerVar), &pid)
	return pid
}

// close ends everything. If clean is set, it does so as an operator would, and
// returns an error for everything that does not end properly.
func (c *cluster) close(ctx context.Context, clean bool) error {
	var errs []error
	// Jobs can be purged only over a working network.
	_ = c.heal()
	if clean {
		errs = append(errs, c.purgeAll(ctx))
	}
	if c.fleet != nil {
		c.fleet.stop()
	}
	for i := len(c.machines()) - 1; i >= 0; i-- { // agents first
		m := c.machines()[i]
		if clean {
			errs = append(errs, m.end(endLimit))
		} else {
			m.kill()
		}
	}
	if clean {
		errs = append(errs, until(ctx, 10*time.Second, "no process is left", func() string { return strings.Join(leftovers(), "; ") }))
	}
	// What still runs would keep the directories busy.
	killAll()
	for _, m := range c.servers {
		if c.setup.DiskMiB > 0 {
			errs = append(errs, syscall.Unmount(m.dir, syscall.MNT_DETACH))
		}
	}
	removeCgroups(cgroupPrefix(c.outer()))
	errs = append(errs, bed.UnmountBelow(c.dir), os.RemoveAll(c.dir))
	return errors.Join(errs...)
}

// killAll kills everything that still runs inside.
func killAll() {
	for range 100 {
		left := leftovers()
		if len(left) == 0 {
			return
		}
		for _, text := range left {
			var pid int
			if _, err := fmt.Sscan(text, &pid); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// keep copies what can explain a failure: logs, configurations and the history.
func (c *cluster) keep(to string, r *round) {
	_ = os.RemoveAll(to)
	if err := os.MkdirAll(to, 0o755); err != nil {
		return
	}
	for _, m := range c.machines() {
		for _, name := range []string{m.log, m.config} {
			_ = copyFile(name, filepath.Join(to, filepath.Base(name)))
		}
	}
	if r != nil {
		r.write(to)
	}
}

// copyFile copies a file. An existing one is overwritten.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
