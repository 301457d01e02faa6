package berth

import (
	"strings"
	"time"
)

// Resources is what a task asks of its node.
type Resources struct {
	CPU         int               // MHz
	Cores       int               // whole cores, instead of CPU
	MemoryMB    int               `hcl:"memory"`     // MiB
	MemoryMaxMB int               `hcl:"memory_max"` // MiB the task may use while the node has free memory; 0 is MemoryMB, -1 without limit
	DiskMB      int               `hcl:"disk"`       // no longer used; see EphemeralDisk
	SecretsMB   int               `hcl:"secrets"`    // MiB of the directory of secrets, beside MemoryMB; 0 is the node's default, which does not count
	IOPS        int               // no longer used
	Networks    []NetworkResource `hcl:"network"`
	Devices     []RequestedDevice `hcl:"device"`
	NUMA        *NUMAResource     `hcl:"numa"`
}

// NUMAResource asks for cores and devices of one NUMA node.
type NUMAResource struct {
	Affinity string   // none, prefer or require
	Devices  []string // names of the task's device requests that must be there too
}

// The NUMA affinities.
const (
	NUMANone    = "none"
	NUMAPrefer  = "prefer"
	NUMARequire = "require"
)

// RequestedDevice asks for devices by vendor, type and name.
type RequestedDevice struct {
	Name        string       `hcl:",label"` // type, vendor/type or vendor/type/name
	Count       uint64       // default 1
	Constraints []Constraint `hcl:"constraint"`
	Affinities  []Affinity   `hcl:"affinity"`
}

// Ask is what one allocation of a group takes from its node's shared capacity.
type Ask struct {
	CPU      int64 // MHz
	MemoryMB int64 // MiB
	DiskMB   int64 // MiB
}

// Add returns the sum.
func (a Ask) Add(b Ask) Ask {
	return Ask{a.CPU + b.CPU, a.MemoryMB + b.MemoryMB, a.DiskMB + b.DiskMB}
}

// Sub returns the difference.
func (a Ask) Sub(b Ask) Ask {
	return Ask{a.CPU - b.CPU, a.MemoryMB - b.MemoryMB, a.DiskMB - b.DiskMB}
}

// Ask returns what one allocation of the group takes: the sum of its tasks and
// its ephemeral disk. The processor time of whole cores is not in it: that
// depends on the node, see [Node.Cores].
func (g *TaskGroup) Ask() (a Ask) {
	for _, t := range g.Tasks {
		a.CPU += int64(t.Resources.CPU)
		a.MemoryMB += int64(t.Resources.MemoryMB + t.Resources.SecretsMB)
	}
	if g.EphemeralDisk != nil {
		a.DiskMB = int64(g.EphemeralDisk.SizeMB)
	}
	return a
}

// NodeResources is what a node offers.
type NodeResources struct {
	Cpu            NodeCpuResources
	Processors     NodeProcessors
	Memory         NodeMemoryResources
	Disk           NodeDiskResources
	Networks       []NetworkResource
	NodeNetworks   []NodeNetwork
	Devices        []NodeDeviceResource
	MinDynamicPort int // first port that allocations are given
	MaxDynamicPort int // last one
}

// NodeCpuResources is the node's processor time.
type NodeCpuResources struct {
	CpuShares          int64 // MHz of all cores together
	TotalCpuCores      uint16
	ReservableCpuCores []uint16
}

// NodeProcessors is the shape of the node's processors.
type NodeProcessors struct {
	Topology *Topology
}

// Topology lists NUMA nodes and cores.
type Topology struct {
	Nodes                  []uint8
	Distances              [][]uint8
	Cores                  []Core
	OverrideTotalCompute   uint64 // MHz
	OverrideWitholdCompute uint64 // MHz; the wire spells it so

	// BusAssociativity is the NUMA node of a device by its address on the PCI
	// bus, as far as the agent knows.
	BusAssociativity map[string]uint8
}

// Core is one logical processor.
type Core struct {
	SocketID   uint8
	NodeID     uint8
	ID         uint16
	Grade      bool   // true: an efficiency core
	Disable    bool   // it does no work for tasks
	BaseSpeed  uint64 // MHz
	MaxSpeed   uint64 // MHz
	GuessSpeed uint64 // MHz, where BaseSpeed is not known
}

// NodeMemoryResources is the node's memory.
type NodeMemoryResources struct {
	MemoryMB    int64 // MiB
	MemoryMaxMB int64 // MiB; 0 is MemoryMB
}

// NodeDiskResources is the disk space for allocations on a node.
type NodeDiskResources struct {
	DiskMB int64 // MiB
}

// NodeNetwork is one network interface of a node.
type NodeNetwork struct {
	Mode       string
	Device     string
	MacAddress string
	Speed      int // Mbit/s
	Addresses  []NodeNetworkAddress
}

// NodeNetworkAddress is one address of an interface.
type NodeNetworkAddress struct {
	Family        string // ipv4 or ipv6
	Alias         string // name of the host network that it belongs to
	Address       string
	ReservedPorts string
	Gateway       string
}

// NodeReservedResources is what is kept back from allocations.
type NodeReservedResources struct {
	Cpu      NodeReservedCpuResources
	Memory   NodeReservedMemoryResources
	Disk     NodeReservedDiskResources
	Networks NodeReservedNetworkResources
}

// NodeReservedCpuResources is processor time kept back.
type NodeReservedCpuResources struct {
	CpuShares        uint64   // MHz
	ReservedCpuCores []uint16 // IDs
}

// NodeReservedMemoryResources is memory kept back.
type NodeReservedMemoryResources struct{ MemoryMB uint64 }

// NodeReservedDiskResources is disk kept back.
type NodeReservedDiskResources struct{ DiskMB uint64 }

// NodeReservedNetworkResources is ports kept back: "22,80,8000-8100".
type NodeReservedNetworkResources struct{ ReservedHostPorts string }

// NodeDeviceResource is a group of equal devices on a node.
type NodeDeviceResource struct {
	Vendor     string
	Type       string
	Name       string
	Instances  []NodeDevice
	Attributes map[string]any
}

// NodeDevice is one device.
type NodeDevice struct {
	ID                string
	Healthy           bool
	HealthDescription string
	Locality          *NodeDeviceLocality // nil: not known
}

// NodeDeviceLocality is where in a machine a device is.
type NodeDeviceLocality struct{ PciBusID string }

// DriverInfo is an agent's report about a task driver.
type DriverInfo struct {
	Attributes        map[string]string
	Detected          bool // the driver can be used on this machine
	Healthy           bool // and works now
	HealthDescription string
	UpdateTime        time.Time
}

// ID returns vendor/type/name of a group of devices.
func (d *NodeDeviceResource) ID() string { return d.Vendor + "/" + d.Type + "/" + d.Name }

// Offers reports whether a group of devices matches a request's name: type,
// vendor/type or vendor/type/name.
func (d *NodeDeviceResource) Offers(request string) bool {
	switch parts := strings.SplitN(request, "/", 3); len(parts) {
	case 1:
		return parts[0] == d.Type
	case 2:
		return parts[0] == d.Vendor && parts[1] == d.Type
	default:
		return parts[0] == d.Vendor && parts[1] == d.Type && parts[2] == d.Name
	}
}
