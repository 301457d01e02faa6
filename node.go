package berth

import (
	"cmp"
	"slices"
	"time"
)

// Node is one machine that can run work, as its agent registered it and as
// servers see it.
type Node struct {
	ID                    NodeID
	SecretID              string `json:"-"` // proves that a call comes from the node; never shown
	Datacenter            string
	Name                  string
	HTTPAddr              string                 // host:port of its agent's API
	TLSEnabled            bool                   // HTTPAddr speaks HTTPS
	Attributes            map[string]string      // what fingerprints found: ${attr.*}
	NodeResources         *NodeResources         // never nil once registered
	ReservedResources     *NodeReservedResources // nil: nothing is kept back
	Links                 map[string]string
	Meta                  map[string]string // of its configuration and what was changed since: ${meta.*}
	NodeClass             string            // an operator's name for a kind of node: ${node.class}
	NodePool              string
	CgroupParent          string
	NodeMaxAllocs         int            // that run at a time; 0 is any number
	SchedulingEligibility string         // NodeEligible or NodeIneligible
	DrainStrategy         *DrainStrategy // nil: the node is not drained
	Drivers               map[string]*DriverInfo
	HostVolumes           map[string]HostVolumeInfo
	HostNetworks          map[string]HostNetworkInfo
	CSIControllerPlugins  map[string]*CSIInfo `json:",omitempty" msgpack:",omitempty"` // by plugin ID, as below
	CSINodePlugins        map[string]*CSIInfo `json:",omitempty" msgpack:",omitempty"`

	Status            string // one of the Node constants
	StatusDescription string
	StatusUpdatedAt   int64          // s since 1970
	Events            []NodeEvent    // the newest last, at most NodeEventsKept
	LastDrain         *DrainMetadata // nil: it never was drained

	// Number counts nodes; the log names a node by it in one or two bytes. It
	// is given in Apply and used again only after the node is gone.
	Number uint32
	// Class is a hash of all that scheduling looks at except what is unique to
	// the node: equal classes answer equally to every constraint on classes.
	Class       string
	CreateIndex uint64
	ModifyIndex uint64
}

// The statuses of a node.
const (
	NodeInit         = "initializing" // registered, no heartbeat since
	NodeReady        = "ready"
	NodeDown         = "down"
	NodeDisconnected = "disconnected"
)

// Whether a node takes new allocations.
const (
	NodeEligible   = "eligible"
	NodeIneligible = "ineligible"
)

// Ready reports whether new allocations may be placed on the node.
func (n *Node) Ready() bool {
	return n.Status == NodeReady && n.SchedulingEligibility == NodeEligible && !n.Draining()
}

// Draining reports whether the node is being drained.
func (n *Node) Draining() bool { return n.DrainStrategy != nil }

// Room returns the node's capacity for allocations: all but what is reserved.
func (n *Node) Room() Ask {
	r := n.NodeResources
	a := Ask{r.Cpu.CpuShares, r.Memory.MemoryMB, r.Disk.DiskMB}
	if k := n.ReservedResources; k != nil {
		a = a.Sub(Ask{int64(k.Cpu.CpuShares), int64(k.Memory.MemoryMB), int64(k.Disk.DiskMB)})
	}
	return a
}

// HostAddress returns the address at which the node's host network is reached.
func (n *Node) HostAddress() string {
	for i := range n.NodeResources.Networks {
		if ip := n.NodeResources.Networks[i].IP; ip != "" {
			return ip
		}
	}
	for _, nw := range n.NodeResources.NodeNetworks {
		for _, a := range nw.Addresses {
			if a.Address != "" {
				return a.Address
			}
		}
	}
	return ""
}

// AddressOn returns the node's address on a host network: its first of IPv4, or
// else its first; "" if it has none there. The node may be nil.
func (n *Node) AddressOn(network string) string {
	switch {
	case n == nil || n.NodeResources == nil:
		return ""
	case network == DefaultHostNetwork:
		return n.HostAddress()
	}
	first := ""
	for _, nw := range n.NodeResources.NodeNetworks {
		for _, a := range nw.Addresses {
			switch {
			case a.Alias != network || a.Address == "":
			case a.Family != "ipv6":
				return a.Address
			case first == "":
				first = a.Address
			}
		}
	}
	return first
}

// HostVolumeInfo is a directory of the node that tasks may mount.
type HostVolumeInfo struct {
	Path     string
	ReadOnly bool
	ID       string
}

// HostNetworkInfo is a named network of the node.
type HostNetworkInfo struct {
	Name          string
	CIDR          string // its addresses; "": all of Interface
	Interface     string
	ReservedPorts string // such as "22,80,8000-8100"
}

// NodeEvent is something that happened to a node.
type NodeEvent struct {
	Message     string
	Subsystem   string // one of the NodeEvent constants
	Details     map[string]string
	Timestamp   time.Time
	CreateIndex uint64
}

// NodeEventsKept is how many events a node remembers.
const NodeEventsKept = 10

// Subsystems of node events.
const (
	NodeEventCluster   = "Cluster"
	NodeEventHeartbeat = "Heartbeat"
	NodeEventDriver    = "Driver"
	NodeEventDrain     = "Drain"
)

// NodeCore is a core of a node that can be given to one allocation alone.
type NodeCore struct {
	ID   uint16
	NUMA uint8 // the NUMA node it is of; 0 where that is not known
	MHz  int64 // what it takes out of the node's processor time
}

// Cores returns the cores that can be reserved, in order of ID: those that the
// agent offers, without reserved ones. A core's share is its speed. If no speed
// is known, or an operator set the total, it is an equal part of the node's
// CPU.
func (n *Node) Cores() []NodeCore {
	r := n.NodeResources
	if len(r.Cpu.ReservableCpuCores) == 0 {
		return nil
	}
	var kept []uint16
	if k := n.ReservedResources; k != nil {
		kept = k.Cpu.ReservedCpuCores
	}
	// Cores that are in use count for the share of each, reserved ones
	// included.
	known, total := map[uint16]Core{}, 0
	override := false
	if t := r.Processors.Topology; t != nil {
		override = t.OverrideTotalCompute > 0
		for _, c := range t.Cores {
			known[c.ID] = c
			if !c.Disable {
				total++
			}
		}
	}
	if total == 0 {
		total = max(int(r.Cpu.TotalCpuCores), len(r.Cpu.ReservableCpuCores))
	}
	out := make([]NodeCore, 0, len(r.Cpu.ReservableCpuCores))
	for _, id := range r.Cpu.ReservableCpuCores {
		c := known[id]
		if c.Disable || slices.Contains(kept, id) {
			continue
		}
		// A total that the operator set, or an unknown speed, is shared
		// equally.
		mhz := int64(min(cmp.Or(c.BaseSpeed, c.GuessSpeed, c.MaxSpeed), MaxCPU))
		if override || mhz == 0 {
			mhz = r.Cpu.CpuShares / int64(total)
		}
		out = append(out, NodeCore{id, c.NodeID, mhz})
	}
	slices.SortFunc(out, func(a, b NodeCore) int { return cmp.Compare(a.ID, b.ID) })
	return slices.CompactFunc(out, func(a, b NodeCore) bool { return a.ID == b.ID })
}

// DrainStrategy is a drain under way.
type DrainStrategy struct {
	DrainSpec
	ForceDeadline time.Time // when all that is left is stopped; zero is never, or at once
	StartedAt     time.Time
}

// DrainSpec holds an operator's settings for a drain.
type DrainSpec struct {
	Deadline         time.Duration // from the time of the request; below 0: at once, 0: never
	IgnoreSystemJobs bool          // they stay
}

// Forced reports whether everything left on the node is to be stopped now,
// whatever its migrate block says.
func (d *DrainStrategy) Forced(now time.Time) bool {
	return d.Deadline < 0 || !d.ForceDeadline.IsZero() && !now.Before(d.ForceDeadline)
}

// Holds reports whether the drain of a node waits for an allocation: until its
// end is confirmed. It does not wait for system jobs that the operator lets stay,
// nor for an allocation that should stop on a node without contact: that ends
// when its agent learns of it, which may be never.
func (d *DrainStrategy) Holds(a *Alloc) bool {
	switch {
	case a.Ended(), d.IgnoreSystemJobs && a.Job.Type == TypeSystem:
		return false
	case a.Client == ClientUnknown:
		return a.Wanted()
	}
	return true
}

// DrainMetadata describes a node's current or last drain.
type DrainMetadata struct {
	StartedAt  time.Time
	UpdatedAt  time.Time
	Status     string
	AccessorID string            // of the token that was used; none are known yet
	Meta       map[string]string // what the operator noted
}

// The statuses of a drain.
const (
	DrainUnderWay = "draining"
	DrainComplete = "complete"
	DrainCanceled = "canceled"
)
