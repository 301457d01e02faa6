package berth

import "time"

// Node is one machine that can run work, as its agent registered it and as
// servers see it.
type Node struct {
	ID                    NodeID
	SecretID              string `json:"-"` // proves that a call comes from the node; never shown
	Datacenter            string
	Name                  string
	HTTPAddr              string
	TLSEnabled            bool
	Attributes            map[string]string // what fingerprints found: ${attr.*}
	NodeResources         *NodeResources    // never nil once registered
	ReservedResources     *NodeReservedResources
	Links                 map[string]string
	Meta                  map[string]string
	NodeClass             string
	NodePool              string
	CgroupParent          string
	SchedulingEligibility string
	DrainStrategy         *DrainStrategy // nil: the node is not drained
	Drivers               map[string]*DriverInfo
	HostVolumes           map[string]HostVolumeInfo
	HostNetworks          map[string]HostNetworkInfo

	Status            string
	StatusDescription string
	StatusUpdatedAt   int64 // s since 1970
	Events            []NodeEvent
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
	NodeInit         = "initializing" // registered, not heard since
	NodeReady        = "ready"
	NodeDown         = "down"
	NodeDisconnected = "disconnected"
)

// Whether a node takes new work.
const (
	NodeEligible   = "eligible"
	NodeIneligible = "ineligible"
)

// Ready says whether new allocations may be put on the node.
func (n *Node) Ready() bool {
	return n.Status == NodeReady && n.SchedulingEligibility == NodeEligible && !n.Draining()
}

// Draining says whether what runs on the node is to leave it.
func (n *Node) Draining() bool { return n.DrainStrategy != nil }

// Room returns what the node has for allocations: all but what is reserved.
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
	CIDR          string
	Interface     string
	ReservedPorts string
}

// NodeEvent is something that happened to a node.
type NodeEvent struct {
	Message     string
	Subsystem   string
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
