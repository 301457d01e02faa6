package config

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"berth/internal/pattern"
	"berth/internal/sameorigin"
	"berth/op"
)

// complete validates the settings and derives others from them.
func (d *decoder) complete(dev bool) {
	c := d.to
	d.names()
	d.serfPort(dev)
	d.addresses()
	d.httpHosts()
	d.limits()
	d.log()
	d.telemetry()
	d.ui()
	d.access()
	d.tls()
	if c.Server.Enabled {
		d.server()
		d.jobLimits()
		d.cluster(dev)
	}
	if c.Client.Enabled {
		d.client()
	}
	if !c.Server.Enabled && !c.Client.Enabled {
		d.fail("", "nothing to run: server.enabled and client.enabled are both false; to try Berth on one machine, use -dev")
	}
	d.dataDirs(dev)
	d.drivers(dev)
	d.exposed()
}

var (
	nameForm = pattern.New(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?$`)
	metaForm = pattern.New(`^[A-Za-z0-9._/-]{1,128}$`)
	hostForm = pattern.New(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$`)
)

// names checks the agent's name, region and datacenter. The name defaults to
// the host name.
func (d *decoder) names() {
	c := d.to
	if c.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			d.fail("name", "is missing, and the host name cannot be read: %v", err)
			return
		}
		c.Name = host
	}
	d.name("name", c.Name)
	d.name("region", c.Region)
	d.name("datacenter", c.Datacenter)
	if at := c.Server.AuthoritativeRegion; at != "" {
		d.name("server.authoritative_region", at)
		if c.Server.Enabled && c.ACL.Enabled && at != c.Region && c.ACL.ReplicationToken == "" {
			d.warnf("acl.replication_token is not set: policies, tokens and namespaces of the authoritative region %q are not copied to region %q", at, c.Region)
		}
	}
	if len(c.ACL.ReplicationToken) > 8<<10 {
		d.fail("acl.replication_token", "is too long: %d bytes, at most %d are allowed", len(c.ACL.ReplicationToken), 8<<10)
	}
}

// name notes a problem if s cannot name an agent, a region, a volume or the
// like: names appear in paths and DNS.
func (d *decoder) name(path, s string) {
	if !nameForm.MatchString(s) {
		d.fail(path, "%.140q is not a valid name: want up to 128 letters, digits, dots, dashes and underscores, with a letter or digit at both ends", s)
	}
}

// addresses resolves the addresses to listen on and to advertise.
func (d *decoder) addresses() {
	c := d.to
	d.ip("bind_addr", &c.BindAddr, "127.0.0.1")
	for _, e := range []struct {
		name string
		to   *Endpoint
	}{{"http", &c.HTTP}, {"rpc", &c.RPC}, {"serf", &c.Serf}} {
		d.ip("addresses."+e.name, &e.to.Addr, c.BindAddr)
		d.port("ports."+e.name, e.to.Port)
		if host, _, err := net.SplitHostPort(c.RPC.Advertise); err == nil && e.to == &c.Serf && c.Serf.Advertise == "" && net.ParseIP(c.Serf.Addr).IsUnspecified() {
			c.Serf.Advertise = host // gossip is reachable where RPC is
		}
		d.advertise("advertise."+e.name, e.to)
	}
	if c.HTTP.Port == c.RPC.Port && c.HTTP.Port != 0 && overlap(c.HTTP.Addr, c.RPC.Addr) {
		d.fail("ports.rpc", "%d is also the port of ports.http", c.RPC.Port)
	}
	d.otherKind()
	for _, e := range []struct {
		name string
		of   Endpoint
	}{{"http", c.HTTP}, {"rpc", c.RPC}} {
		if c.Server.Enabled && c.Serf.Port == e.of.Port && c.Serf.Port != 0 && overlap(c.Serf.Addr, e.of.Addr) {
			d.fail("ports.serf", "%d is also the port of ports.%s", c.Serf.Port, e.name)
		}
	}
}

// otherKind warns about advertised IPv6 addresses on which nothing listens. A
// proxy in between may, so it is not necessarily a mistake.
func (d *decoder) otherKind() {
	c := d.to
	var affected []string
	for _, e := range []struct {
		name   string
		of     Endpoint
		serves bool
	}{{"http", c.HTTP, true}, {"rpc", c.RPC, c.Server.Enabled}, {"serf", c.Serf, c.Server.Enabled}} {
		host, _, err := net.SplitHostPort(e.of.Advertise)
		if ip := net.ParseIP(host); err == nil && ip != nil && ip.To4() == nil && e.serves && e.of.Addr == "0.0.0.0" {
			affected = append(affected, fmt.Sprintf("advertise.%s (%s)", e.name, host))
		}
	}
	if len(affected) > 0 {
		d.warnf("%s: the agent listens on 0.0.0.0, which covers IPv4 only; use \"::\" for IPv4 and IPv6", strings.Join(affected, ", "))
	}
}

// overlap reports whether two listeners on the same port would collide: the
// addresses are equal, or one is for all interfaces.
func overlap(a, b string) bool {
	return a == b || net.ParseIP(a).IsUnspecified() || net.ParseIP(b).IsUnspecified()
}

// ip puts an address into its usual form. An empty one, or one that is a
// problem, becomes otherwise, so that later checks have a valid address.
func (d *decoder) ip(path string, addr *string, otherwise string) {
	switch {
	case *addr == "":
		*addr = otherwise
	case *addr == "localhost":
		*addr = "127.0.0.1"
	case strings.Contains(*addr, "{{"):
		d.fail(path, "templates are not supported: use an IP address")
		*addr = otherwise
	default:
		ip := net.ParseIP(bare(*addr))
		if ip == nil {
			d.fail(path, "%.60q is not an IP address (set the port in ports)", *addr)
			*addr = otherwise
			return
		}
		*addr = ip.String()
	}
}

// bare removes the brackets around an IPv6 address.
func bare(s string) string {
	if inner, ok := strings.CutPrefix(s, "["); ok && strings.HasSuffix(inner, "]") {
		return strings.TrimSuffix(inner, "]")
	}
	return s
}

// port accepts 0, which is any free port.
func (d *decoder) port(path string, n int) { d.between(path, n, 0, 65535) }

// between notes a problem if n is not in low to high, both included.
func (d *decoder) between(path string, n, low, high int) {
	if n < low || n > high {
		d.fail(path, "must be between %[2]d and %[3]d, got %[1]d", n, low, high)
	}
}

// period notes a problem if v is not in low to high, both included.
func (d *decoder) period(path string, v, low, high time.Duration) {
	if v < low || v > high {
		d.fail(path, "must be between %[2]v and %[3]v, got %[1]v", v, low, high)
	}
}

// advertise completes the address that others are given.
func (d *decoder) advertise(path string, e *Endpoint) {
	host, port := e.Addr, e.Port
	switch given := e.Advertise; {
	case strings.Contains(given, "{{"):
		d.fail(path, "templates are not supported: use an address")
		return
	case given != "":
		var ok bool
		if host, port, ok = hostPort(given, port); !ok {
			d.fail(path, "%.60q is not an address with an optional port", given)
			return
		}
		if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
			d.fail(path, "%s is a wildcard address, which others cannot connect to", host)
			return
		}
	case net.ParseIP(host).IsUnspecified():
		addrs, _ := net.InterfaceAddrs() // on error, none
		if host = privateIP(addrs, net.ParseIP(host).To4() == nil); host == "" {
			d.fail(path, "is missing: the agent listens on %s, and this machine has no private address to advertise", e.Addr)
			return
		}
	}
	if e.Advertise = ""; port != 0 {
		e.Advertise = net.JoinHostPort(host, strconv.Itoa(port))
	}
}

// hostPort splits an address with an optional port.
func hostPort(s string, otherwise int) (host string, port int, ok bool) {
	if ip := net.ParseIP(bare(s)); ip != nil {
		return ip.String(), otherwise, true
	}
	host, p, err := net.SplitHostPort(s)
	if err != nil {
		return s, otherwise, hostForm.MatchString(s)
	}
	port, err = strconv.Atoi(p)
	ip := net.ParseIP(host)
	if ip != nil { // IPv6 addresses have several spellings
		host = ip.String()
	}
	ok = err == nil && port > 0 && port <= 65535 && (ip != nil || hostForm.MatchString(host))
	return host, port, ok
}

// privateIP returns the first private IPv4 address. If there is none and both
// is set, it returns the first private IPv6 address, or "".
func privateIP(addrs []net.Addr, both bool) (found string) {
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		switch {
		case !ok || !n.IP.IsPrivate():
		case n.IP.To4() != nil:
			return n.IP.String()
		case both && found == "":
			found = n.IP.String()
		}
	}
	return found
}

// httpHosts checks the names under which the HTTP API answers besides the
// agent's own.
func (d *decoder) httpHosts() {
	for _, s := range d.to.HTTPHosts {
		if !sameorigin.Valid(s) {
			d.fail("http_hosts", "%.140q is not a host name: want one such as \"nomad.example.com\", \"nomad.example.com:8443\" or \"*.example.com\"", s)
		}
		if s == "*" {
			d.warnf("http_hosts has \"*\": a web page that an operator opens can read from the HTTP API by DNS rebinding")
		}
	}
}

// limits checks the connection limits and timeouts. A limit of 0 is how the
// file writes "no limit"; it becomes NoLimit and a warning.
func (d *decoder) limits() {
	l := &d.to.Limits
	for _, x := range []struct {
		path string
		n    *int
	}{{"limits.http_max_conns_per_client", &l.HTTPMaxConns}, {"limits.rpc_max_conns_per_client", &l.RPCMaxConns}} {
		d.between(x.path, *x.n, 0, 1_000_000)
		if *x.n == 0 {
			*x.n = NoLimit
			d.warnf("%s is 0: one client can use up all connections", x.path)
		}
	}
	// 0 would mean no timeout, which is not supported.
	d.period("limits.https_handshake_timeout", l.HTTPHandshake, 100*time.Millisecond, 10*time.Minute)
	d.period("limits.rpc_handshake_timeout", l.RPCHandshake, 100*time.Millisecond, 10*time.Minute)
	d.period("acl.token_min_expiration_ttl", d.to.ACL.MinTTL, time.Second, 365*24*time.Hour)
	d.period("acl.token_max_expiration_ttl", d.to.ACL.MaxTTL, d.to.ACL.MinTTL, 10*365*24*time.Hour)
	d.period("telemetry.collection_interval", d.to.Telemetry.CollectionInterval, 100*time.Millisecond, time.Hour)
}

// longestAge is the longest time for which ended objects can be kept.
const longestAge = 10 * 365 * 24 * time.Hour

// server checks the server block. Only a num_schedulers that the file sets can
// be 0, which becomes NoSchedulers; otherwise 0 is the default.
func (d *decoder) server() {
	s := &d.to.Server
	d.issuer()
	// A 0 in the file means none, while an absent key means the default.
	if d.setAt["server.num_schedulers"] != "" {
		d.between("server.num_schedulers", s.NumSchedulers, 0, op.MostWorkers)
		if s.NumSchedulers == 0 {
			s.NumSchedulers = NoSchedulers
		}
	}
	d.period("server.heartbeat_grace", s.HeartbeatGrace, time.Second, time.Hour)
	d.period("server.min_heartbeat_ttl", s.MinHeartbeatTTL, time.Second, time.Hour)
	d.period("server.failover_heartbeat_ttl", s.FailoverHeartbeatTTL, time.Second, 24*time.Hour)
	d.between("server.silence_brake_nodes", s.SilenceBrakeNodes, 0, 1<<20)
	d.between("server.job_tracked_versions", s.TrackedVersions, 1, mostTrackedVersions)
	d.between("server.silence_brake_percent", s.SilenceBrakePercent, 0, 100)
	d.period("server.silence_brake_pace", s.SilenceBrakePace, time.Millisecond, time.Hour)
	d.period("server.job_gc_interval", s.JobGCInterval, time.Second, 24*time.Hour)
	d.period("server.node_gc_threshold", s.NodeGCThreshold, time.Second, longestAge)
	d.period("server.csi_volume_claim_gc_threshold", s.LostClaims, time.Second, longestAge)
	d.period("server.job_gc_threshold", s.JobGCThreshold, time.Second, longestAge)
	d.period("server.eval_gc_threshold", s.EvalGCThreshold, time.Second, longestAge)
	d.period("server.batch_eval_gc_threshold", s.BatchEvalGCThreshold, time.Second, longestAge)
	d.period("server.deployment_gc_threshold", s.DeploymentGCThreshold, time.Second, longestAge)
	d.between("server.raft_multiplier", s.RaftMultiplier, 0, 10)
	d.between("server.raft_snapshot_threshold", s.RaftSnapshotThreshold, 10, 1<<20)
	d.period("server.raft_snapshot_interval", s.RaftSnapshotInterval, time.Second, 24*time.Hour)
	d.between("server.raft_trailing_logs", s.RaftTrailingLogs, 1, 1<<24)
	d.between("server.event_buffer_size", s.EventBufferSize, 1, 1<<20)
	d.schedulerConfig()
	if s.MaxHeartbeatsPerSec <= 0 || s.MaxHeartbeatsPerSec > 1e6 {
		d.fail("server.max_heartbeats_per_second", "must be above 0 and at most 1,000,000, got %v", s.MaxHeartbeatsPerSec)
	}
}

// dataDirs requires absolute directories and derives those that are not set
// from data_dir. Without data_dir an agent with -dev uses a temporary
// directory; for others it is a problem.
func (d *decoder) dataDirs(dev bool) {
	c := d.to
	for path, dir := range map[string]string{
		"data_dir": c.DataDir, "server.data_dir": c.Server.DataDir, "client.state_dir": c.Client.StateDir, "client.alloc_dir": c.Client.AllocDir,
		"plugin_dir": c.PluginDir, "client.host_volumes_dir": c.Client.HostVolumesDir, "client.host_volume_plugin_dir": c.Client.HostVolumePluginDir,
		"client.common_plugin_dir": c.Client.CommonPluginDir,
	} {
		switch {
		case dir == "":
		case !filepath.IsAbs(dir):
			d.fail(path, "%.200q is not an absolute path", dir)
		default:
			if at := notDir(dir); at != "" {
				d.fail(path, "must be a directory, and %.200q is not", at)
			}
		}
	}
	switch {
	case c.DataDir != "":
		c.dirs()
	case dev:
		c.TempData = true
	default:
		d.fail("data_dir", "is missing: set the directory for persistent data")
	}
}

// notDir returns the part of a path that exists and is no directory, "" if a
// directory is there or can be made.
func notDir(path string) string {
	for ; path != "/" && path != "."; path = filepath.Dir(path) {
		if info, err := os.Stat(path); err == nil {
			if info.IsDir() {
				return ""
			}
			return path
		}
	}
	return ""
}

// drivers decides which drivers -dev enables by default: raw_exec only if no
// other machine can reach the agent, because it lets anyone who can reach the
// API run commands.
func (d *decoder) drivers(dev bool) {
	c := d.to
	if !dev {
		return
	}
	isSet := func(name string) bool {
		return d.setAt["plugin."+name+".config.enabled"] != "" || name == "raw_exec" && d.setAt["client.options.driver.raw_exec.enable"] != ""
	}
	if !isSet("mock_driver") {
		c.Plugins.MockDriver = true
	}
	if isSet("raw_exec") {
		return
	}
	if c.HTTP.Loopback() && c.RPC.Loopback() {
		c.Plugins.RawExec = true
		return
	}
	d.warnf("raw_exec is disabled because other machines can reach the agent; enable it with plugin \"raw_exec\" { config { enabled = true } }")
}

// exposed warns about what other machines can reach without protection.
func (d *decoder) exposed() {
	c := d.to
	var open []string
	if lacks := c.TLS.httpLacks(); lacks != "" && !c.HTTP.Loopback() {
		open = append(open, fmt.Sprintf("the HTTP API on %s (%s: anyone who reaches it can run jobs)", c.HTTP.Listen(), lacks))
	}
	if c.Server.Enabled && !c.RPC.Loopback() && (!c.TLS.RPC || c.TLS.UpgradeMode) {
		why := "no TLS"
		if c.TLS.RPC {
			why = "tls.rpc_upgrade_mode also accepts connections without TLS"
		}
		open = append(open, fmt.Sprintf("the RPC port on %s (%s: anyone who reaches it can act as a node and as a server, and so read and change everything; server.encrypt does not protect it)",
			c.RPC.Listen(), why))
	}
	if c.Server.Enabled && !c.Serf.Loopback() && c.Server.EncryptKey == nil {
		open = append(open, fmt.Sprintf("the gossip port on %s (no server.encrypt: anyone who reaches it can join as a server)", c.Serf.Listen()))
	}
	if len(open) > 0 {
		d.warnf("open to other machines without protection: %s", strings.Join(open, "; "))
	}
}
