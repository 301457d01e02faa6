package berth

// NetworkResource describes what a group asks of its node's network, what a node
// offers, or what an allocation was given.
type NetworkResource struct {
	Mode          string
	Device        string
	CIDR          string
	IP            string
	DNS           *DNSConfig `hcl:"dns"`
	ReservedPorts []Port     `hcl:"reserved_ports"`
	DynamicPorts  []Port     `hcl:"port"`
	Hostname      string
	MBits         int        `hcl:"mbits"`
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
	HostNetwork     string
	IgnoreCollision bool
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
