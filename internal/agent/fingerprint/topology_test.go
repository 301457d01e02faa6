package fingerprint

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"berth"
)

// sysfs makes a /sys/devices of lines "name = contents".
func sysfs(lines string) fstest.MapFS {
	out := fstest.MapFS{}
	for line := range strings.Lines(lines) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " = "); ok {
			out[name] = &fstest.MapFile{Data: []byte(value + "\n")}
		}
	}
	return out
}

// cpus adds cores of a socket and a speed in kHz.
func cpus(from, to, socket, base, most int) (out string) {
	for i := from; i <= to; i++ {
		out += fmt.Sprintf("system/cpu/cpu%d/topology/physical_package_id = %d\n", i, socket)
		if base > 0 {
			out += fmt.Sprintf("system/cpu/cpu%d/cpufreq/base_frequency = %d\n", i, base)
		}
		if most > 0 {
			out += fmt.Sprintf("system/cpu/cpu%d/cpufreq/cpuinfo_max_freq = %d\n", i, most)
		}
	}
	return out
}

func set(from, to uint16) (out []uint16) {
	for i := from; i <= to; i++ {
		out = append(out, i)
	}
	return out
}

var twoSockets = "system/cpu/online = 0-7\n" + cpus(0, 3, 0, 2400000, 3600000) + cpus(4, 7, 1, 2400000, 3600000) +
	`system/node/online = 0-2
	system/node/node0/cpulist = 0-3
	system/node/node1/cpulist = 4-7
	system/node/node2/cpulist =
	system/node/node0/distance = 10 32 17
	system/node/node1/distance = 32 10 28
	system/node/node2/distance = 17 28 10`

func TestTopology(t *testing.T) {
	for _, c := range []struct {
		name, sys  string
		allowed    []uint16
		mhz        uint64
		config     Config
		cores      string // id/socket/node@MHz, e for efficiency, x for kept back
		nodes      string
		reservable string
		attributes string
	}{
		{
			name: "two sockets, and memory without cores", sys: twoSockets, allowed: set(0, 7), mhz: 3600,
			cores: "0/0/0@2400 1/0/0@2400 2/0/0@2400 3/0/0@2400 4/1/1@2400 5/1/1@2400 6/1/1@2400 7/1/1@2400", nodes: "[0 1] [[10 32] [32 10]]",
			reservable: "[0 1 2 3 4 5 6 7]", attributes: "numcores=8 reservable=8 total=19200 usable=19200 nodes=2 node0=0-3 node1=4-7 fast=8x2400 slow=x",
		},
		{
			name: "a container with some cores of one socket", sys: twoSockets, allowed: []uint16{5, 7, 99}, mhz: 3600,
			cores: "5/1/1@2400 7/1/1@2400", nodes: "[1] [[10]]", reservable: "[5 7]",
			attributes: "numcores=2 reservable=2 total=4800 usable=4800 nodes=1 node0= node1=5,7 fast=2x2400 slow=x",
		},
		{
			name: "cores kept back", sys: twoSockets, allowed: set(0, 7),
			config: Config{
				Reserved:        berth.NodeReservedResources{Cpu: berth.NodeReservedCpuResources{CpuShares: 500, ReservedCpuCores: []uint16{0, 1, 44}}},
				ReservableCores: []uint16{1, 2, 3, 44},
			},
			cores: "0/0/0@2400x 1/0/0@2400x 2/0/0@2400 3/0/0@2400 4/1/1@2400 5/1/1@2400 6/1/1@2400 7/1/1@2400", nodes: "[0 1] [[10 32] [32 10]]",
			reservable: "[2 3]", attributes: "numcores=8 reservable=2 total=19200 usable=13900 nodes=2 node0=0-3 node1=4-7 fast=8x2400 slow=x",
		},
		{
			name: "the operator knows better", sys: twoSockets, allowed: set(0, 7),
			config: Config{CPUTotalCompute: 8000, Reserved: berth.NodeReservedResources{Cpu: berth.NodeReservedCpuResources{ReservedCpuCores: []uint16{7}}}},
			cores:  "0/0/0@2400 1/0/0@2400 2/0/0@2400 3/0/0@2400 4/1/1@2400 5/1/1@2400 6/1/1@2400 7/1/1@2400x", nodes: "[0 1] [[10 32] [32 10]]",
			reservable: "[0 1 2 3 4 5 6]", attributes: "numcores=8 reservable=7 total=8000 usable=7000 nodes=2 node0=0-3 node1=4-7 fast=8x2400 slow=x",
		},
		{
			name: "two kinds of core", sys: "system/cpu/online = 0-3\ncpu_atom/cpus = 2-3\n" + cpus(0, 1, 0, 2000000, 5000000) + cpus(2, 3, 0, 1500000, 4000000),
			allowed: set(0, 3), cores: "0/0/0@2000 1/0/0@2000 2/0/0@1500e 3/0/0@1500e", nodes: "[0] [[10]]", reservable: "[0 1 2 3]",
			attributes: "numcores=4 reservable=4 total=7000 usable=7000 nodes=1 node0=0-3 node1= fast=2x2000 slow=2x1500",
		},
		{
			name: "no base speed", sys: "system/cpu/online = 0\n" + cpus(0, 0, -1, 0, 3000000), allowed: set(0, 0), mhz: 2600,
			cores: "0/0/0@3000", nodes: "[0] [[10]]", reservable: "[0]",
			attributes: "numcores=1 reservable=1 total=3000 usable=3000 nodes=1 node0=0 node1= fast=1x3000 slow=x",
		},
		{
			name: "nothing but what the process may use", allowed: set(2, 3), mhz: 2600, cores: "2/0/0@2600 3/0/0@2600", nodes: "[0] [[10]]", reservable: "[2 3]",
			attributes: "numcores=2 reservable=2 total=5200 usable=5200 nodes=1 node0=2-3 node1= fast=2x2600 slow=x",
		},
		{
			name: "not even a speed", sys: "system/cpu/online = junk\nsystem/node/online = 0\nsystem/node/node0/cpulist = 2", allowed: set(2, 2),
			cores: "2/0/0@1000", nodes: "[0] [[10]]", reservable: "[2]",
			attributes: "numcores=1 reservable=1 total=1000 usable=1000 nodes=1 node0=2 node1= fast=1x1000 slow=x",
		},
	} {
		top := readTopology(sysfs(c.sys), c.allowed, c.mhz)
		reserved := c.config.Reserved
		n := &berth.Node{Attributes: map[string]string{}, NodeResources: &berth.NodeResources{}, ReservedResources: &reserved}
		top.describe(&c.config, n)
		var cores []string
		for _, x := range n.NodeResources.Processors.Topology.Cores {
			s := fmt.Sprintf("%d/%d/%d@%d", x.ID, x.SocketID, x.NodeID, speed(&x))
			if x.Grade {
				s += "e"
			}
			if x.Disable {
				s += "x"
			}
			cores = append(cores, s)
		}
		a := n.Attributes
		attributes := fmt.Sprintf("numcores=%s reservable=%s total=%s usable=%s nodes=%s node0=%s node1=%s fast=%sx%s slow=%sx%s", a["cpu.numcores"],
			a["cpu.reservablecores"], a["cpu.totalcompute"], a["cpu.usablecompute"], a["numa.node.count"], a["numa.node0.cores"], a["numa.node1.cores"],
			a["cpu.numcores.performance"], a["cpu.frequency.performance"], a["cpu.numcores.efficiency"], a["cpu.frequency.efficiency"])
		for what, got := range map[string][2]string{
			"cores":      {strings.Join(cores, " "), c.cores},
			"nodes":      {fmt.Sprint(top.nodes, " ", top.distances), c.nodes},
			"reservable": {fmt.Sprint(n.NodeResources.Cpu.ReservableCpuCores), c.reservable},
			"attributes": {attributes, c.attributes},
			"room":       {fmt.Sprint(n.Room().CPU), a["cpu.usablecompute"]},
		} {
			if got[0] != got[1] {
				t.Errorf("%s: %s\n%s, want\n%s", c.name, what, got[0], got[1])
			}
		}
		if top.guessed != (speed(&top.cores[0]) == guessedMHz) {
			t.Errorf("%s: guessed %v", c.name, top.guessed)
		}
	}
}

func TestAddressesAreNamedByTheirHostNetworks(t *testing.T) {
	eth := &berth.NodeNetwork{Device: "eth0", Addresses: []berth.NodeNetworkAddress{{Address: "10.0.0.5"}, {Address: "203.0.113.7"}, {Address: "fe80::1"}}}
	show := func(networks map[string]berth.HostNetworkInfo) string {
		var out []string
		for _, a := range aliases(networks, eth, "10.0.0.5") {
			out = append(out, strings.TrimRight(a.Alias+"="+a.Address+" "+a.ReservedPorts, " "))
		}
		return strings.Join(out, ", ")
	}
	for _, c := range []struct {
		networks map[string]berth.HostNetworkInfo
		want     string
	}{
		{nil, "default=10.0.0.5, =203.0.113.7, =fe80::1"},
		{map[string]berth.HostNetworkInfo{"public": {CIDR: "203.0.113.0/24", ReservedPorts: "22,80"}}, "default=10.0.0.5, public=203.0.113.7 22,80, =fe80::1"},
		{map[string]berth.HostNetworkInfo{"all": {Interface: "eth0"}, "in": {CIDR: "10.0.0.0/8", Interface: "eth0"}},
			"default=10.0.0.5, all=10.0.0.5, in=10.0.0.5, all=203.0.113.7, all=fe80::1"},
		{map[string]berth.HostNetworkInfo{"other": {Interface: "eth1"}, "v6": {CIDR: "fe80::/10"}}, "default=10.0.0.5, =203.0.113.7, v6=fe80::1"},
		{map[string]berth.HostNetworkInfo{"default": {CIDR: "203.0.113.0/24"}}, "=10.0.0.5, default=203.0.113.7, =fe80::1"},
	} {
		if got := show(c.networks); got != c.want {
			t.Errorf("%v:\n%s, want\n%s", c.networks, got, c.want)
		}
	}
}

func TestTheHostOffersVolumesAndNetworks(t *testing.T) {
	n := node(t, &Config{
		Loopback:    true,
		HostVolumes: map[string]berth.HostVolumeInfo{"certs": {Path: "/etc", ReadOnly: true}},
		HostNetworks: map[string]berth.HostNetworkInfo{
			"loop": {Name: "loop", CIDR: "127.0.0.0/8", ReservedPorts: "9999"}, "nowhere": {Name: "nowhere", CIDR: "240.0.0.0/24"},
		},
	})
	if !n.HostVolumes["certs"].ReadOnly || n.HostNetworks["loop"].ReservedPorts != "9999" || len(n.HostNetworks) != 2 {
		t.Errorf("%+v, %+v", n.HostVolumes, n.HostNetworks)
	}
	if !hasAlias(n.NodeResources.NodeNetworks, "loop") || !hasAlias(n.NodeResources.NodeNetworks, "default") || hasAlias(n.NodeResources.NodeNetworks, "nowhere") {
		t.Errorf("%+v", n.NodeResources.NodeNetworks)
	}
	if n.HostAddress() != "127.0.0.1" {
		t.Error(n.HostAddress())
	}
}

func FuzzTopology(f *testing.F) {
	f.Add(twoSockets)
	f.Fuzz(func(t *testing.T, s string) {
		top := readTopology(sysfs(s), set(0, 7), 1000)
		n := &berth.Node{Attributes: map[string]string{}, NodeResources: &berth.NodeResources{}, ReservedResources: &berth.NodeReservedResources{}}
		top.describe(&Config{}, n)
		if len(top.cores) == 0 || len(top.nodes) == 0 || len(top.distances) != len(top.nodes) || n.Room().CPU <= 0 {
			t.Errorf("%+v", top)
		}
	})
}
