package fit

import (
	"slices"
	"strconv"
	"strings"

	"berth"
)

// Kind is a kind of capacity that a node can lack.
type Kind uint8

// The kinds of capacity, with the units of their numbers.
const (
	UnknownKind  Kind = iota // a name that this build does not know
	CPU                      // MHz
	Memory                   // MiB
	Disk                     // MiB
	Allocs                   // allocations that the node takes
	Cores                    // cores
	NUMACores                // cores of one NUMA node
	DynamicPorts             // ports of a host network
	StaticPort               // one port of a host network
	HostNetwork              // a host network that the node does not have
	Devices                  // instances for a device request
)

// The names of dimensions, as the state stores them and the API shows them. Those
// with a space at their end are followed by a port, a network or a device request.
const (
	DimCPU     = "cpu"
	DimMemory  = "memory"
	DimDisk    = "disk"
	DimCores   = "cores"
	DimDynamic = "dynamic ports"

	onNetwork = " on " // after ports; a host network that has a name follows
)

// names are the names, or how they begin, by kind. What each refuses a placement
// for is in refusals.
var (
	names = [...]string{
		CPU: DimCPU, Memory: DimMemory, Disk: DimDisk, Allocs: "allocations", Cores: DimCores, NUMACores: "cores of one NUMA node",
		DynamicPorts: DimDynamic, StaticPort: "port ", HostNetwork: "host network ", Devices: "devices ",
	}
	refusals = [...]berth.RefusalKind{
		CPU: berth.RefusedCPU, Memory: berth.RefusedMemory, Disk: berth.RefusedDisk, Allocs: berth.RefusedAllocs, Cores: berth.RefusedCores,
		NUMACores: berth.RefusedCores, DynamicPorts: berth.RefusedDynamic, StaticPort: berth.RefusedPort, HostNetwork: berth.RefusedPort,
		Devices: berth.RefusedDevices,
	}
)

// Dimension is a dimension in which a node can lack capacity: what its name says,
// as data.
type Dimension struct {
	Kind    Kind
	Port    uint16 // of StaticPort
	Network string // of DynamicPorts, StaticPort and HostNetwork
	Device  string // of Devices: which request, for people
}

// ParseDimension returns what a name says. Nothing else takes names apart.
func ParseDimension(name string) Dimension {
	if k := slices.Index(names[:DynamicPorts], name); k > 0 {
		return Dimension{Kind: Kind(k)}
	}
	if device, ok := strings.CutPrefix(name, names[Devices]); ok {
		return Dimension{Kind: Devices, Device: device}
	}
	if network, ok := strings.CutPrefix(name, names[HostNetwork]); ok {
		return Dimension{Kind: HostNetwork, Network: network}
	}
	ports, network, ok := strings.Cut(name, onNetwork)
	if !ok {
		network = berth.DefaultHostNetwork
	}
	if ports == DimDynamic {
		return Dimension{Kind: DynamicPorts, Network: network}
	}
	if text, ok := strings.CutPrefix(ports, names[StaticPort]); ok {
		if port, err := strconv.ParseUint(text, 10, 16); err == nil {
			return Dimension{Kind: StaticPort, Port: uint16(port), Network: network}
		}
	}
	return Dimension{}
}

// String returns the name.
func (d Dimension) String() string {
	name, on := names[d.Kind], ""
	if d.Network != berth.DefaultHostNetwork {
		on = onNetwork + d.Network
	}
	switch d.Kind {
	case DynamicPorts:
		return name + on
	case StaticPort:
		return name + strconv.Itoa(int(d.Port)) + on
	case HostNetwork:
		return name + d.Network
	case Devices:
		return name + d.Device
	}
	return name
}
