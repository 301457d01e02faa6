package config

import (
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"berth"
	"berth/internal/gossip"
)

// How servers find each other, and autopilot.

// Join lists the servers to contact in order to find the others, as host:port.
type Join struct {
	Retry    []string      // retried until one answers
	Start    []string      // tried once
	Max      int           // attempts of Retry; 0: unlimited
	Interval time.Duration // between them
}

// Any reports whether there is a server to contact.
func (j *Join) Any() bool { return len(j.Retry) > 0 || len(j.Start) > 0 }

// joinKeys are the keys of server_join. Older files have them directly in the
// server block.
var joinKeys = table{
	"retry_join":     texts(func(c *Config) *[]string { return &c.Server.Join.Retry }),
	"start_join":     texts(func(c *Config) *[]string { return &c.Server.Join.Start }),
	"retry_max":      whole(func(c *Config) *int { return &c.Server.Join.Max }),
	"retry_interval": joinInterval,
}

// joinInterval reads a duration. 0 is the default.
func joinInterval(d *decoder, path string, n *node) {
	if n.value == int64(0) || n.value == "" || n.value == "0" {
		return
	}
	if v, ok := d.span(path, n); ok && v != 0 {
		d.to.Server.Join.Interval = v
	}
}

// encrypt reads the gossip key. No message repeats its value.
func encrypt(d *decoder, path string, n *node) {
	s, ok := n.value.(string)
	if !ok {
		d.addf(n.pos, path, "must be a string, got %s", kind(n.value))
		return
	}
	if s == "" {
		return
	}
	key, err := gossip.ParseKey(s)
	if err != nil {
		d.addf(n.pos, path, "%v; \"operator gossip keyring generate\" makes a key", err)
		return
	}
	d.to.Server.EncryptKey = key
}

// autopilotKeys configure the autopilot of a new cluster, until an operator
// changes it.
var autopilotKeys = table{
	"cleanup_dead_servers":      flag(func(c *Config) *bool { return &c.Server.Autopilot.CleanupDeadServers }),
	"last_contact_threshold":    span(func(c *Config) *duration { return &c.Server.Autopilot.LastContactThreshold }),
	"server_stabilization_time": span(func(c *Config) *duration { return &c.Server.Autopilot.ServerStabilizationTime }),
	"max_trailing_logs": func(d *decoder, path string, n *node) {
		if v, ok := d.whole(path, n); ok {
			d.between(path, v, 0, math.MaxInt32)
			d.to.Server.Autopilot.MaxTrailingLogs = uint64(max(v, 0))
		}
	},
	"min_quorum": func(d *decoder, path string, n *node) {
		if v, ok := d.whole(path, n); ok {
			d.between(path, v, 0, maxServers)
			d.to.Server.Autopilot.MinQuorum = uint(max(v, 0))
		}
	},
	"enable_redundancy_zones":   only(false),
	"disable_upgrade_migration": anyBool, // there is no upgrade migration
	"enable_custom_upgrades":    only(false),
}

// maxServers limits bootstrap_expect.
const maxServers = 100

// serfPort chooses the default gossip port: any free one if no other server
// needs to find it, so that two agents can run on one machine.
func (d *decoder) serfPort(dev bool) {
	if c := d.to; d.setAt["ports.serf"] == "" && (dev || c.RPC.Port == 0) {
		c.Serf.Port = 0
	}
}

// cluster validates how a server finds the others.
func (d *decoder) cluster(dev bool) {
	s := &d.to.Server
	for key := range joinKeys {
		if old, is := "server."+key, "server.server_join."+key; d.setAt[old] != "" && d.setAt[is] != "" {
			d.fail(old, "is also set in server.server_join, at %s: set it only there", d.setAt[is])
		}
	}
	retry, start := d.joinPath("retry_join"), d.joinPath("start_join")
	d.joinAddrs(retry, s.Join.Retry)
	d.joinAddrs(start, s.Join.Start)
	if len(s.Join.Retry) > 0 && len(s.Join.Start) > 0 {
		d.fail(start, "cannot be used together with retry_join")
	}
	d.between(d.joinPath("retry_max"), s.Join.Max, 0, 1_000_000)
	d.period(d.joinPath("retry_interval"), s.Join.Interval, 100*time.Millisecond, 24*time.Hour)
	d.between("server.bootstrap_expect", s.BootstrapExpect, 0, maxServers)
	d.expect(dev)
	a := &s.Autopilot
	d.period("autopilot.last_contact_threshold", a.LastContactThreshold, time.Millisecond, time.Hour)
	d.period("autopilot.server_stabilization_time", a.ServerStabilizationTime, 0, 24*time.Hour)
}

// expect decides how many servers bootstrap a new cluster, and warns about
// settings that are likely mistakes.
func (d *decoder) expect(dev bool) {
	s := &d.to.Server
	explicit := d.setAt["server.bootstrap_expect"] != ""
	switch n := s.BootstrapExpect; {
	case dev && n > 1:
		d.fail("server.bootstrap_expect", "must be 1 with -dev, got %d", n)
	case dev && !explicit && !s.Join.Any():
		s.BootstrapExpect = 1
	case n == 0 && !s.Join.Any():
		d.warnf("server.bootstrap_expect is 0 and there is no server to join: without data, this server waits until another one joins it; 1 starts a cluster of its own")
	case n == 1 && s.Join.Any():
		d.warnf("server.bootstrap_expect is 1: without data, this server bootstraps a cluster of its own, regardless of the servers it joins")
	case n > 1 && n%2 == 0:
		d.warnf("server.bootstrap_expect is %d: such a cluster tolerates no more failed servers than one of %d; use %d or %d", n, n-1, n-1, n+1)
	}
	if s.NonVoting && s.BootstrapExpect > 0 {
		if explicit {
			d.fail("server.non_voting_server", "a non-voting server cannot bootstrap a cluster: server.bootstrap_expect must be 0")
		}
		s.BootstrapExpect = 0
	}
}

// joinPath is the path at which a key of server_join was set.
func (d *decoder) joinPath(key string) string {
	if d.setAt["server."+key] != "" {
		return "server." + key
	}
	return "server.server_join." + key
}

// joinAddrs completes addresses in place.
func (d *decoder) joinAddrs(path string, addrs []string) {
	for i, a := range addrs {
		if byProvider(a) {
			d.fail(path, "server discovery by cloud provider or command is not supported: use addresses")
			return
		}
		host, port, ok := hostPort(a, gossip.DefaultPort)
		if !ok {
			d.fail(path, "%.60q is not an address with an optional port", a)
			continue
		}
		addrs[i] = net.JoinHostPort(host, strconv.Itoa(port))
	}
}

// byProvider reports whether the address is a cloud provider's query, such as
// "provider=aws tag_key=…", which is not supported.
func byProvider(addr string) bool { return strings.Contains(addr, "=") }

// defaultAutopilot and defaultJoin are the defaults.
var (
	defaultAutopilot = berth.DefaultAutopilotConfig
	defaultJoin      = Join{Interval: 30 * time.Second}
)
