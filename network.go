package berth

import "iter"

// NetworkResource describes what a group asks of its node's network, what a node
// offers, or what an allocation was given.
type NetworkResource struct {
	Mode          string // one of the Network constants; "" is NetworkHost
	Device        string // of a node; jobs cannot ask for it
	CIDR          string
	IP            string     // of a node; jobs cannot ask for it
	DNS           *DNSConfig `hcl:"dns"`
	ReservedPorts []Port     `hcl:"reserved_ports"` // with a static number
	DynamicPorts  []Port     `hcl:"port"`           // whose number is chosen when an allocation is placed
	Hostname      string     // inside the network of the group
	MBits         int        `hcl:"mbits"` // no longer used
	CNI           *CNIConfig `hcl:"cni"`
}

// Network modes.
const (
	NetworkHost   = "host"
	NetworkBridge = "bridge"
	NetworkNone   = "none"
	NetworkCNI    = "cni/" // and the name of a CNI network
)

// DefaultHostNetwork is the host network of ports that name none.
const DefaultHostNetwork = "default"

// Network returns the host network that the port is on.
func (p *Port) Network() string {
	if p.HostNetwork == "" {
		return DefaultHostNetwork
	}
	return p.HostNetwork
}

// Port is one port by its label. In a job file a port with a static number is
// written like one without; DecodeJob sorts them into ReservedPorts and
// DynamicPorts.
type Port struct {
	Label           string `hcl:",label"`
	Value           int    `hcl:"static"` // 0: a dynamic port
	To              int    // inside the group's network; -1 is the port on the host
	HostNetwork     string // "" is DefaultHostNetwork
	IgnoreCollision bool   // others on the node may have the same static port
}

// DNSConfig overrides name resolution inside an allocation.
type DNSConfig struct {
	Servers  []string
	Searches []string
	Options  []string
}

// CNIConfig holds arguments for CNI plugins.
type CNIConfig struct {
	Args map[string]string
}

// PortMapping is a port that an allocation was given.
type PortMapping struct {
	Label  string
	Value  int // on the host
	To     int // inside the network
	HostIP string
}

// The range dynamic ports are drawn from when a node names none.
const (
	MinDynamicPort = 20000
	MaxDynamicPort = 32000
	MaxPort        = 65535
)

// The ports of a group: those of its network block, and those that a task asks
// for itself in the older form, resources { network { … } }. Both are on the
// host's network and are taken of the same ranges; only the task's own services
// and environment know the latter by their plain label.

// AllNetworks returns all networks of the group: its own first, with no task,
// then those of its tasks in their order. An allocation's dynamic ports are
// stored in this order. The caller must not change them.
func (g *TaskGroup) AllNetworks() iter.Seq2[*Task, *NetworkResource] {
	return func(yield func(*Task, *NetworkResource) bool) {
		for i := range g.Networks {
			if !yield(nil, &g.Networks[i]) {
				return
			}
		}
		for _, t := range g.Tasks {
			if t.Resources == nil {
				continue
			}
			for i := range t.Resources.Networks {
				if !yield(t, &t.Resources.Networks[i]) {
					return
				}
			}
		}
	}
}

// PortMappings returns the ports of the allocation's group, static ones
// included, with the addresses that they are on if its node, which may be nil,
// is known.
func (a *Alloc) PortMappings(n *Node) []PortMapping { return a.portsOf(n, nil) }

// TaskPortMappings is PortMappings for the ports that a task of the group asks
// for itself.
func (a *Alloc) TaskPortMappings(n *Node, t *Task) []PortMapping { return a.portsOf(n, t) }

// portsOf returns the ports that a task asks for itself, or those of the group
// if of is nil.
func (a *Alloc) portsOf(n *Node, of *Task) (out []PortMapping) {
	next := 0
	for t, nw := range a.Group.AllNetworks() {
		if t != of {
			next += len(nw.DynamicPorts)
			continue
		}
		for _, p := range nw.ReservedPorts {
			out = append(out, PortMapping{Label: p.Label, Value: p.Value, To: p.To, HostIP: n.AddressOn(p.Network())})
		}
		for _, p := range nw.DynamicPorts {
			m := PortMapping{Label: p.Label, To: p.To, HostIP: n.AddressOn(p.Network())}
			if next < len(a.Ports) {
				m.Value = int(a.Ports[next])
			}
			next++
			if m.To < 0 { // -1 in a job file: the same as on the host
				m.To = m.Value
			}
			out = append(out, m)
		}
	}
	return out
}
