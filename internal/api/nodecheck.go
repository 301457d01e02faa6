package api

import (
	"errors"
	"net"
	"time"

	"berth"
	"berth/internal/diff"
	"berth/internal/fit"
	"berth/internal/state"
	"berth/internal/validate"
)

// Limits of what a node may say of itself.
const (
	maxNodeText = 512     // bytes of a name or a key
	maxNodeKeys = 5000    // attributes, metadata and links together
	maxNodeRoom = 1 << 40 // MHz or MiB: sums of them still fit an int64

	maxNodeAllocs  = 1_000_000 // that it may take
	maxNodeDevices = 10_000    // instances of all devices
)

// checkNode validates a node that registers, and fills in the fields that its
// agent leaves out.
func checkNode(n *berth.Node) error {
	if n == nil {
		return berth.Errorf(berth.Invalid, "Node: is missing")
	}
	var ps berth.Problems
	if n.ID.IsZero() {
		ps.Addf("Node.ID", "is missing")
	}
	if n.SecretID == "" || len(n.SecretID) > maxNodeText {
		ps.Addf("Node.SecretID", "is missing or too long")
	}
	// Text is refused rather than cut: a node under a cut name would match
	// other constraints.
	for _, f := range []struct{ name, value string }{
		{"Datacenter", n.Datacenter}, {"Name", n.Name}, {"NodeClass", n.NodeClass}, {"NodePool", n.NodePool}, {"HTTPAddr", n.HTTPAddr},
	} {
		if len(f.value) > maxNodeText {
			ps.Addf("Node."+f.name, "%d bytes is too long: the limit is %d", len(f.value), maxNodeText)
		}
	}
	if n.NodePool != "" {
		if bad, ok := errors.AsType[berth.Problems](validate.NodesPool("Node.NodePool", n.NodePool)); ok {
			ps = append(ps, bad...)
		}
	}
	if n.Datacenter == "" {
		ps.Addf("Node.Datacenter", "is missing")
	}
	if n.Name == "" {
		ps.Addf("Node.Name", "is missing")
	}
	// Every scheduler looks at these, for every node.
	if len(n.Attributes)+len(n.Meta)+len(n.Links) > maxNodeKeys {
		ps.Addf("Node.Attributes", "more than %d keys", maxNodeKeys)
	}
	switch n.Status {
	// The other statuses are the servers' to give.
	case "", berth.NodeInit, berth.NodeReady, berth.NodeDown:
	default:
		ps.Addf("Node.Status", "must be initializing, ready or down, got %q", berth.Clip(n.Status, 64))
	}
	if n.HTTPAddr != "" {
		if _, _, err := net.SplitHostPort(n.HTTPAddr); err != nil {
			ps.Addf("Node.HTTPAddr", "%q is not an address with a port", berth.Clip(n.HTTPAddr, 64))
		}
	}
	checkRoom(&ps, n)
	return ps.Err()
}

// checkRoom notes what is wrong with the capacity of a node. It fills in the
// processor time, in MHz, of a node that only describes its cores.
func checkRoom(ps *berth.Problems, n *berth.Node) {
	r := n.NodeResources
	if r == nil {
		ps.Addf("Node.NodeResources", "is missing")
		return
	}
	if r.Cpu.CpuShares == 0 && r.Processors.Topology != nil {
		r.Cpu.CpuShares = compute(r.Processors.Topology)
	}
	for _, f := range []struct {
		name  string
		value int64
	}{{"Cpu.CpuShares", r.Cpu.CpuShares}, {"Memory.MemoryMB", r.Memory.MemoryMB}, {"Disk.DiskMB", r.Disk.DiskMB}} {
		if f.value < 0 || f.value > maxNodeRoom {
			ps.Addf("Node.NodeResources."+f.name, "must be from 0 to %d, got %d", int64(maxNodeRoom), f.value)
		}
	}
	if lo, hi := r.MinDynamicPort, r.MaxDynamicPort; (lo != 0 || hi != 0) && (lo < 1 || hi > berth.MaxPort || lo > hi) {
		ps.Addf("Node.NodeResources.MinDynamicPort", "%d to %d is not a range of ports", lo, hi)
	}
	if m := n.NodeMaxAllocs; m < 0 || m > maxNodeAllocs {
		ps.Addf("Node.NodeMaxAllocs", "must be from 0 to %d, got %d", maxNodeAllocs, m)
	}
	if err := state.CheckNetworks(n); err != nil {
		ps.Addf("Node.NodeResources.NodeNetworks", "%v", err)
	}
	// Each instance costs memory in every server, so their number is bounded.
	devices := 0
	for _, d := range r.Devices {
		devices += len(d.Instances)
	}
	if devices > maxNodeDevices {
		ps.Addf("Node.NodeResources.Devices", "%d devices is too many: the limit is %d", devices, maxNodeDevices)
	}
	if k := n.ReservedResources; k != nil {
		if max(k.Cpu.CpuShares, k.Memory.MemoryMB, k.Disk.DiskMB) > maxNodeRoom {
			ps.Addf("Node.ReservedResources", "more is reserved than any node can have")
		}
		if _, err := fit.ReservedPorts(k.Networks.ReservedHostPorts); err != nil {
			ps.Addf("Node.ReservedResources.Networks.ReservedHostPorts", "%v", err)
		}
	}
}

// compute is the processor time of a topology in MHz.
func compute(t *berth.Topology) (mhz int64) {
	if t.OverrideTotalCompute > 0 {
		return int64(min(t.OverrideTotalCompute, maxNodeRoom))
	}
	for _, c := range t.Cores {
		if !c.Disable {
			mhz += int64(min(max(c.BaseSpeed, c.MaxSpeed, c.GuessSpeed), 1<<20))
		}
	}
	return mhz
}

// sameNode reports whether a node brings no news of itself: the times at which
// its drivers were looked at do not count.
func sameNode(old, new *berth.Node) bool {
	return diff.Equal(said(old), said(new))
}

// said is a node without what servers set.
func said(n *berth.Node) berth.Node {
	c := *n
	c.Status, c.StatusDescription, c.StatusUpdatedAt, c.SchedulingEligibility = "", "", 0, ""
	c.Events, c.Number, c.Class, c.CreateIndex, c.ModifyIndex = nil, 0, "", 0, 0
	c.DrainStrategy, c.LastDrain = nil, nil
	c.Drivers = make(map[string]*berth.DriverInfo, len(n.Drivers))
	for name, d := range n.Drivers {
		if d != nil {
			info := *d
			info.UpdateTime = time.Time{}
			c.Drivers[name] = &info
		}
	}
	return c
}
