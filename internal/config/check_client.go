package config

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	"berth"
	"berth/internal/decode"
	"berth/internal/validate"
)

// What is checked of the client block.

// client checks the client block and fills in the node pool.
func (d *decoder) client() {
	c := &d.to.Client
	d.servers()
	if c.NodeClass != "" {
		d.name("client.node_class", c.NodeClass)
	}
	if c.NodePool == "" {
		c.NodePool = "default"
	}
	if found, ok := errors.AsType[berth.Problems](validate.NodesPool("", c.NodePool)); ok {
		for _, p := range found {
			d.fail("client.node_pool", "%s", p.Text)
		}
	}
	// Jobs refer to the keys as ${meta.…}, which limits their characters.
	for k, v := range c.Meta {
		if path := decode.Join("client.meta", berth.Clip(k, 100)); !metaForm.MatchString(k) {
			d.fail(path, "is not a valid key: want up to 128 letters, digits, dots, dashes, slashes and underscores")
		} else if len(v) > 4096 {
			d.fail(path, "is too long: %d bytes, at most 4096 are allowed", len(v))
		}
	}
	// The capacity that is announced and what is held back of it; 0 is what
	// the fingerprint finds.
	const most = 1 << 40
	for path, n := range map[string]int{
		"client.cpu_total_compute": c.CPUTotalCompute, "client.memory_total_mb": c.MemoryTotalMB, "client.disk_total_mb": c.DiskTotalMB, "client.disk_free_mb": c.DiskFreeMB,
		"client.reserved.cpu": c.Reserved.CPU, "client.reserved.memory": c.Reserved.MemoryMB, "client.reserved.disk": c.Reserved.DiskMB,
	} {
		d.between(path, n, 0, most)
	}
	for _, x := range []struct {
		path     string
		kept, of int
	}{
		{"client.reserved.cpu", c.Reserved.CPU, c.CPUTotalCompute},
		{"client.reserved.memory", c.Reserved.MemoryMB, c.MemoryTotalMB},
		{"client.reserved.disk", c.Reserved.DiskMB, c.DiskTotalMB},
	} {
		if x.of > 0 && x.kept > x.of {
			d.fail(x.path, "%d is more than the total of %d", x.kept, x.of)
		}
	}
	d.between("client.min_dynamic_port", c.MinDynamicPort, 1, 65535)
	d.between("client.max_dynamic_port", c.MaxDynamicPort, 1, 65535)
	if c.MinDynamicPort > c.MaxDynamicPort {
		d.fail("client.min_dynamic_port", "%d is above client.max_dynamic_port (%d)", c.MinDynamicPort, c.MaxDynamicPort)
	}
	if bad := badPorts(c.Reserved.Ports); bad != "" {
		d.fail("client.reserved.reserved_ports", "%.40q is not a port or a range such as 8000-8100", bad)
	}
	if f := strings.ToLower(c.PreferredFamily); f != "" && f != "ipv4" && f != "ipv6" {
		d.fail("client.preferred_address_family", "must be ipv4 or ipv6, got %.40q", c.PreferredFamily)
	} else {
		c.PreferredFamily = f
	}
	d.cores()
	d.inputs()
	d.fingerprints()
	d.hostVolumes()
	d.hostNetworks()
	d.groupNetworks()
	d.dns()
	d.logSinks()
	d.period("client.max_kill_timeout", c.MaxKillTimeout, 0, 365*24*time.Hour)
	d.collection()
	d.users()
	d.shutdown()
}

// shutdown checks how the node is drained before its agent ends. The block, empty or
// not, turns that on.
func (d *decoder) shutdown() {
	s, path := &d.to.Client.DrainOnShutdown, "client.drain_on_shutdown"
	if d.setAt[path] == "" {
		return
	}
	s.Enabled = true
	switch {
	case d.setAt[path+".deadline"] == "":
		s.Deadline = time.Hour
	case s.Force:
		d.fail(path+".deadline", "cannot be combined with force, which stops everything at once")
	}
	d.period(path+".deadline", s.Deadline, 0, 365*24*time.Hour)
	if !d.to.LeaveOnInterrupt && !d.to.LeaveOnTerminate {
		d.warnf("%s: %s has no effect unless leave_on_terminate or leave_on_interrupt is true", d.setAt[path], path)
	}
}

// The numbers of users that tasks are given, unless the block users says others.
const lowestUser, highestUser = 80_000, 89_999

// users checks the numbers that tasks without a user are given. The block, empty or
// not, turns them on.
func (d *decoder) users() {
	u := &d.to.Client.Users
	if d.setAt["client.users"] == "" {
		return
	}
	if d.setAt["client.users.dynamic_user_min"] == "" {
		u.Low = lowestUser
	}
	if d.setAt["client.users.dynamic_user_max"] == "" {
		u.High = highestUser
	}
	// Below are those of the system; above, the kernel's own.
	d.between("client.users.dynamic_user_min", u.Low, 1000, 1<<31-1)
	d.between("client.users.dynamic_user_max", u.High, 1000, 1<<31-1)
	if u.Low > u.High {
		d.fail("client.users.dynamic_user_min", "%d is above client.users.dynamic_user_max (%d)", u.Low, u.High)
	}
}

// collection checks when directories of ended allocations are removed.
func (d *decoder) collection() {
	c := &d.to.Client
	d.between("client.node_max_allocs", c.MaxAllocs, 0, 1_000_000)
	d.between("client.gc_max_allocs", c.GCMaxAllocs, 1, 1_000_000)
	d.period("client.gc_interval", c.GCInterval, time.Second, 24*time.Hour)
	d.between("client.gc_parallel_destroys", c.GCParallel, 1, 64)
	for name, percent := range map[string]float64{"client.gc_disk_usage_threshold": c.GCDisk, "client.gc_inode_usage_threshold": c.GCInodes} {
		if percent < 1 || percent > 100 {
			d.fail(name, "must be a percentage from 1 to 100, got %g", percent)
		}
	}
}

// servers completes the addresses of servers.
func (d *decoder) servers() {
	c := d.to
	path := "client.servers"
	if d.setAt[path] == "" && d.setAt["client.server_join.retry_join"] != "" {
		path = "client.server_join.retry_join"
	}
	for i, s := range c.Client.Servers {
		host, port, ok := hostPort(s, 4647)
		if !ok {
			d.fail(path, "%.60q is not an address with an optional port", s)
			continue
		}
		c.Client.Servers[i] = net.JoinHostPort(host, strconv.Itoa(port))
	}
	switch {
	case len(c.Client.Servers) > 0:
	case c.Server.Enabled && c.RPC.Port == 0: // only the listener knows the port
	case c.Server.Enabled: // itself
		host := c.RPC.Addr
		if ip := net.ParseIP(host); ip.IsUnspecified() {
			host = "127.0.0.1"
			if ip.To4() == nil {
				host = "::1"
			}
		}
		c.Client.Servers = []string{net.JoinHostPort(host, strconv.Itoa(c.RPC.Port))}
	default:
		d.fail("client.servers", "is missing: an agent without a server needs the address of one")
	}
}

// badPorts returns the first invalid part of a list of ports.
func badPorts(list string) string {
	if strings.TrimSpace(list) == "" {
		return ""
	}
	for _, part := range strings.Split(list, ",") {
		low, high, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			high = low
		}
		a, err := strconv.ParseUint(low, 10, 16)
		b, err2 := strconv.ParseUint(high, 10, 16)
		if err != nil || err2 != nil || a > b || a == 0 {
			return part
		}
	}
	return ""
}
