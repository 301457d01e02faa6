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

// How servers find each other, and how they look after each other.

// Join is whom a server asks for the others. Addresses are host:port.
type Join struct {
	Retry    []string      // asked again and again until one answers
	Start    []string      // asked once
	Max      int           // attempts of Retry; 0 is no end
	Interval time.Duration // between them
}

// Any says whether there is anybody to ask.
func (j *Join) Any() bool { return len(j.Retry) > 0 || len(j.Start) > 0 }

// joinKeys are those of server_join, and on their own in the block of the
// server, as older files have them.
var joinKeys = table{
	"retry_join":     texts(func(c *Config) *[]string { return &c.Server.Join.Retry }),
	"start_join":     texts(func(c *Config) *[]string { return &c.Server.Join.Start }),
	"retry_max":      whole(func(c *Config) *int { return &c.Server.Join.Max }),
	"retry_interval": joinInterval,
}

// joinInterval reads a duration, or 0, which is the default.
func joinInterval(d *decoder, path string, n *node) {
	if n.value == int64(0) || n.value == "" || n.value == "0" {
		return
	}
	if v, ok := d.span(path, n); ok && v != 0 {
		d.to.Server.Join.Interval = v
	}
}

// encrypt reads the key of the gossip. Nothing repeats it.
func encrypt(d *decoder, path string, n *node) {
	s, ok := n.value.(string)
	if !ok {
		d.addf(n.pos, path, "a string is wanted, not %s", kind(n.value))
		return
	}
	if s == "" {
		return
	}
	key, err := gossip.ParseKey(s)
	if err != nil {
		d.addf(n.pos, path, "%v; operator gossip keyring generate makes one", err)
		return
	}
	d.to.Server.EncryptKey = key
}

// autopilotKeys say how a new cluster looks after its servers, until an
// operator says otherwise.
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
	"disable_upgrade_migration": either, // there is no upgrade migration
	"enable_custom_upgrades":    only(false),
}

// maxServers bounds how many servers can be asked to begin together.
const maxServers = 100

// serfPort is the port of the gossip: one that is free where nobody has to find
// it, so that two agents can be on one machine.
func (d *decoder) serfPort(dev bool) {
	if c := d.to; d.said["ports.serf"] == "" && (dev || c.RPC.Port == 0) {
		c.Serf.Port = 0
	}
}

// cluster checks how a server finds the others.
func (d *decoder) cluster(dev bool) {
	s := &d.to.Server
	for key := range joinKeys {
		if old, is := "server."+key, "server.server_join."+key; d.said[old] != "" && d.said[is] != "" {
			d.fail(old, "is said in server.server_join as well, at %s; say it there alone", d.said[is])
		}
	}
	retry, start := d.joinPath("retry_join"), d.joinPath("start_join")
	d.joinAddrs(retry, s.Join.Retry)
	d.joinAddrs(start, s.Join.Start)
	if len(s.Join.Retry) > 0 && len(s.Join.Start) > 0 {
		d.fail(start, "cannot be used with retry_join; leave one of them out")
	}
	d.between(d.joinPath("retry_max"), s.Join.Max, 0, 1_000_000)
	d.period(d.joinPath("retry_interval"), s.Join.Interval, 100*time.Millisecond, 24*time.Hour)
	d.between("server.bootstrap_expect", s.BootstrapExpect, 0, maxServers)
	d.expect(dev)
	a := &s.Autopilot
	d.period("autopilot.last_contact_threshold", a.LastContactThreshold, time.Millisecond, time.Hour)
	d.period("autopilot.server_stabilization_time", a.ServerStabilizationTime, 0, 24*time.Hour)
}

// expect decides with whom a server makes up a new cluster, and warns of what
// an operator may not mean.
func (d *decoder) expect(dev bool) {
	s := &d.to.Server
	said := d.said["server.bootstrap_expect"] != ""
	switch n := s.BootstrapExpect; {
	case dev && n > 1:
		d.fail("server.bootstrap_expect", "%d servers cannot begin together in development; allowed is 1", n)
	case !said && s.Join.Any(): // it is told to join, not to begin
		s.BootstrapExpect = 0
	case n == 0 && !s.Join.Any():
		d.warnf("server.bootstrap_expect is 0 and no server is named to join: this server does nothing until another joins it")
	case n == 1 && s.Join.Any():
		d.warnf("server.bootstrap_expect is 1: without data this server begins a cluster of its own, whatever it joins")
	case n > 1 && n%2 == 0:
		d.warnf("server.bootstrap_expect is %d: so many servers can lose no more of them than %d can; %d or %d is better", n, n-1, n-1, n+1)
	}
	if s.NonVoting && s.BootstrapExpect > 0 {
		if said {
			d.fail("server.non_voting_server", "a server that never votes cannot begin a cluster; server.bootstrap_expect must be 0")
		}
		s.BootstrapExpect = 0
	}
}

// joinPath is where a key of server_join was said.
func (d *decoder) joinPath(key string) string {
	if d.said["server."+key] != "" {
		return "server." + key
	}
	return "server.server_join." + key
}

// joinAddrs completes addresses in place.
func (d *decoder) joinAddrs(path string, addrs []string) {
	for i, a := range addrs {
		if byProvider(a) {
			d.fail(path, "finding servers with a cloud provider or a command is not built yet; allowed are addresses")
			return
		}
		host, port, ok := hostPort(a, gossip.DefaultPort)
		if !ok {
			d.fail(path, "%.60q is not an address, nor one with a port", a)
			continue
		}
		addrs[i] = net.JoinHostPort(host, strconv.Itoa(port))
	}
}

func byProvider(addr string) bool { return strings.Contains(addr, "=") }

// defaultAutopilot and defaultJoin are what holds where nothing is said.
var (
	defaultAutopilot = berth.DefaultAutopilotConfig
	defaultJoin      = Join{Interval: 30 * time.Second}
)
