// Package network makes the networks of allocations. Each network is a network
// namespace of its own. In the modes bridge and cni/NAME, CNI plugins join it to
// the host; in the mode none, it has a loopback interface and nothing else.
//
// What was made is recorded before it is made, so that an agent that was killed
// in the middle leaves nothing that [Networks.Sweep] does not find.
package network

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/containernetworking/cni/libcni"
	cnitypes "github.com/containernetworking/cni/pkg/types"
	types "github.com/containernetworking/cni/pkg/types/100"
	"golang.org/x/sys/unix"

	"berth"
	"berth/internal/saferoot"
)

// Config says how networks are made.
type Config struct {
	Bridge     string   // name of the bridge of networks in mode bridge
	Subnet     string   // IPv4 addresses of these networks, as a CIDR
	SubnetIPv6 string   // IPv6 addresses of these networks; "" for none
	Hairpin    bool     // tasks reach their own ports by the host's address
	Plugins    []string // directories of CNI plugins
	ConfigDir  string   // holds the configurations of the networks that cni/NAME means
	StateDir   string   // absolute; the only one who may use it is this Networks
	Namespaces string   // directory in which the namespaces are mounted; absolute
	Addresses  string   // directory that holds who has which address of a bridge; absolute. All agents of a machine share it
	Resolver   bool     // the address of the bridge answers DNS queries of these networks
}

// The defaults of Config. Bridge and Subnet are those that Nomad documents.
const (
	DefaultSubnet     = "172.26.64.0/20"
	DefaultPlugins    = "/opt/cni/bin"
	DebianPlugins     = "/usr/lib/cni" // where Debian's containernetworking-plugins are
	DefaultNamespaces = "/run/netns"
	DefaultAddresses  = "/run/berth/addresses" // lives as long as the namespaces: until the machine starts again
)

// Namespacer makes network namespaces. A driver implements it if its tasks can
// only be in namespaces that it made itself. Both calls can be repeated.
type Namespacer interface {
	// Name is that of the driver. It is recorded with the network.
	Name() string
	// MakeNetwork makes a namespace for the tasks of an allocation, if there is
	// none, and returns its path. Hostname is that of its tasks, "" for any.
	MakeNetwork(ctx context.Context, alloc, hostname string) (path string, err error)
	// RemoveNetwork removes it, if it is there.
	RemoveNetwork(ctx context.Context, alloc string) error
}

// Request asks for the network of an allocation.
type Request struct {
	Alloc    string // ID of the allocation
	Mode     string // bridge, none or cni/NAME
	Ports    []berth.PortMapping
	Hostname string
	Args     map[string]string // of CNI networks
	Maker    Namespacer        // makes the namespace; nil: Make does
}

// Made is a network that is there.
type Made struct {
	Namespace string // path of the namespace
	Fresh     bool   // the namespace was made now: what runs in an earlier one is cut off
	Status    berth.AllocNetworkStatus
}

// Networks makes and removes the networks of one agent. It is safe for
// concurrent use.
type Networks struct {
	c    Config
	cni  *libcni.CNIConfig
	mu   sync.Mutex
	busy map[string]*sync.Mutex // by allocation; an entry stays

	// adding, of capacity 1, lets one network be made at a time: plugins make chains
	// of the firewall that all networks share, and fail if two do so at once. The
	// agents of a machine take turns by a lock on Config.Addresses.
	adding chan struct{}

	pluginTime time.Duration // [pluginTime], or what a test sets
}

// interfaceName is the name of the interface that plugins make in a namespace.
const interfaceName = "eth0"

// New returns the networks whose records are in c.StateDir, which it makes.
func New(c Config) (*Networks, error) {
	for _, dir := range []string{"allocs", "results"} {
		if err := os.MkdirAll(filepath.Join(c.StateDir, dir), 0o700); err != nil {
			return nil, fmt.Errorf("networks: %w", err)
		}
	}
	return &Networks{c: c, cni: libcni.NewCNIConfigWithCacheDir(c.Plugins, filepath.Join(c.StateDir, "results"), &plugins{}), busy: map[string]*sync.Mutex{}, adding: make(chan struct{}, 1), pluginTime: pluginTime}, nil
}

// lock lets one caller at a time work on the network of an allocation.
func (n *Networks) lock(alloc string) (unlock func()) {
	n.mu.Lock()
	m := n.busy[alloc]
	if m == nil {
		m = new(sync.Mutex)
		n.busy[alloc] = m
	}
	n.mu.Unlock()
	m.Lock()
	return m.Unlock
}

// record is the path of the file that says that an allocation may have a
// network. It holds the name of the driver that made the namespace, if one did.
func (n *Networks) record(alloc string) string { return filepath.Join(n.c.StateDir, "allocs", alloc) }

// path is where the namespace of an allocation is mounted.
func (n *Networks) path(alloc string) string { return filepath.Join(n.c.Namespaces, alloc) }

// Make makes the network of an allocation, or returns the one that it has. If it
// fails, nothing is left, or Remove removes it.
func (n *Networks) Make(ctx context.Context, r *Request) (*Made, error) {
	if err := saferoot.Name(r.Alloc); err != nil {
		return nil, fmt.Errorf("network: allocation: %w", err)
	}
	defer n.lock(r.Alloc)()
	list, err := n.list(r.Mode)
	if err != nil {
		return nil, err
	}
	var maker []byte
	if r.Maker != nil {
		maker = []byte(r.Maker.Name())
	}
	if err := os.WriteFile(n.record(r.Alloc), maker, 0o600); err != nil {
		return nil, fmt.Errorf("network: %w", err)
	}
	fresh, err := n.namespace(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("network namespace: %w", err)
	}
	made := &Made{Namespace: n.path(r.Alloc), Fresh: fresh}
	if list == nil { // mode none
		return made, nil
	}
	rt, err := n.runtime(r)
	if err != nil {
		return nil, err
	}
	if !fresh {
		// A network that is whole stays: tasks may use it. The plugins' own CHECK
		// is not asked: that of portmap 1.1 refuses networks with IPv6.
		if n.recall(made, list, rt) {
			n.resolver(made, r.Mode)
			return made, nil
		}
	}
	// What an agent that was killed began is removed first.
	if err := n.detach(ctx, r.Alloc); err != nil {
		return nil, err
	}
	result, err := n.add(ctx, list, rt)
	if err != nil {
		return nil, fmt.Errorf("network %s: %w", list.Name, errors.Join(err, n.detach(ctx, r.Alloc), n.del(ctx, list, rt)))
	}
	err = made.read(result)
	n.resolver(made, r.Mode)
	return made, err
}

// add has the plugins make a network, while no other agent of the machine does so.
func (n *Networks) add(ctx context.Context, list *libcni.NetworkConfigList, rt *libcni.RuntimeConf) (cnitypes.Result, error) {
	select {
	case n.adding <- struct{}{}:
		defer func() { <-n.adding }()
	case <-ctx.Done():
		return nil, fmt.Errorf("another network is being made: %w", context.Cause(ctx))
	}
	if err := os.MkdirAll(n.c.Addresses, 0o700); err != nil {
		return nil, err
	}
	turn, err := os.Open(n.c.Addresses)
	if err != nil {
		return nil, err
	}
	defer turn.Close() // which ends the turn
	if err := lockFile(ctx, turn); err != nil {
		return nil, fmt.Errorf("lock %s: %w", n.c.Addresses, err)
	}
	ctx, cancel := n.limited(ctx)
	defer cancel()
	return n.cni.AddNetworkList(ctx, list, rt)
}

// del has the plugins remove a network.
func (n *Networks) del(ctx context.Context, list *libcni.NetworkConfigList, rt *libcni.RuntimeConf) error {
	ctx, cancel := n.limited(ctx)
	defer cancel()
	return n.cni.DelNetworkList(ctx, list, rt)
}

// lockFile takes the lock of a file, which ends when the file is closed. It waits
// for other processes until ctx ends.
func lockFile(ctx context.Context, f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("another agent holds it: %w", context.Cause(ctx))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Gateway returns the address of the bridge: the first of the IPv4 subnet. It is
// not valid if the subnet is not.
func (c *Config) Gateway() netip.Addr {
	p, err := netip.ParsePrefix(c.Subnet)
	if err != nil {
		return netip.Addr{}
	}
	return p.Masked().Addr().Next()
}

// resolver has the tasks of a bridged network ask the bridge for names, unless
// plugins said whom to ask.
func (n *Networks) resolver(m *Made, mode string) {
	if n.c.Resolver && mode == berth.NetworkBridge && m.Status.DNS == nil {
		m.Status.DNS = &berth.DNSConfig{Servers: []string{n.c.Gateway().String()}}
	}
}

// Find returns the network that an allocation has, as Make would return it,
// without changing anything; nil if it has none that is whole. Whether a driver
// would have to make another namespace is not asked.
func (n *Networks) Find(r *Request) *Made {
	if saferoot.Name(r.Alloc) != nil {
		return nil
	}
	defer n.lock(r.Alloc)()
	made := &Made{Namespace: n.path(r.Alloc)}
	if !isNamespace(made.Namespace) {
		return nil
	}
	list, err := n.list(r.Mode)
	if err != nil {
		return nil
	}
	if list == nil { // mode none
		return made
	}
	rt, err := n.runtime(r)
	if err != nil || !n.recall(made, list, rt) {
		return nil
	}
	n.resolver(made, r.Mode)
	return made
}

// recall completes made with what the plugins returned when they made the
// network, and reports whether they had done so.
func (n *Networks) recall(made *Made, list *libcni.NetworkConfigList, rt *libcni.RuntimeConf) bool {
	result, err := n.cni.GetNetworkListCachedResult(list, rt)
	return err == nil && result != nil && made.read(result) == nil
}

// namespace makes the namespace if it is not there. fresh says that it was not.
func (n *Networks) namespace(ctx context.Context, r *Request) (fresh bool, err error) {
	path := n.path(r.Alloc)
	if r.Maker == nil {
		if isNamespace(path) {
			return false, nil
		}
		return true, makeNamespace(path)
	}
	// The driver knows whether its namespace still lives: one that a restart of
	// its engine ended is still mounted here.
	source, err := r.Maker.MakeNetwork(ctx, r.Alloc, r.Hostname)
	if err != nil {
		return false, err
	}
	if same, err := sameNamespace(source, path); err != nil || same {
		return false, err
	}
	if err := removeNamespace(path); err != nil {
		return false, err
	}
	return true, mountNamespace(source, path)
}

// runtime returns the parameters of the plugins for an allocation.
func (n *Networks) runtime(r *Request) (*libcni.RuntimeConf, error) {
	rt := &libcni.RuntimeConf{ContainerID: r.Alloc, NetNS: n.path(r.Alloc), IfName: interfaceName, CapabilityArgs: map[string]any{}}
	for k, v := range r.Args {
		// The protocol separates arguments by semicolons.
		if strings.ContainsAny(k+v, ";=") {
			return nil, berth.Errorf(berth.Invalid, "network.cni.args: %q: keys and values must not contain ; or =", k)
		}
		rt.Args = append(rt.Args, [2]string{k, v})
	}
	var ports []map[string]any
	for _, p := range r.Ports {
		to := p.To
		if to <= 0 {
			to = p.Value
		}
		for _, protocol := range []string{"tcp", "udp"} {
			ports = append(ports, map[string]any{"hostPort": p.Value, "containerPort": to, "protocol": protocol, "hostIP": p.HostIP})
		}
	}
	if len(ports) > 0 {
		rt.CapabilityArgs["portMappings"] = ports
	}
	return rt, nil
}

// read takes the addresses from what plugins returned.
func (m *Made) read(result cnitypes.Result) error {
	r, err := types.GetResult(result)
	if err != nil {
		return fmt.Errorf("network: answer of the plugins: %w", err)
	}
	for _, ip := range r.IPs {
		if ip.Interface != nil && (*ip.Interface < 0 || *ip.Interface >= len(r.Interfaces) || r.Interfaces[*ip.Interface].Sandbox == "") {
			continue // an interface of the host
		}
		switch {
		case ip.Address.IP.To4() != nil && m.Status.Address == "":
			m.Status.Address = ip.Address.IP.String()
		case ip.Address.IP.To4() == nil && m.Status.AddressIPv6 == "":
			m.Status.AddressIPv6 = ip.Address.IP.String()
		}
	}
	if m.Status.Address == "" {
		m.Status.Address = m.Status.AddressIPv6
	}
	m.Status.InterfaceName = interfaceName
	if d := r.DNS; len(d.Nameservers)+len(d.Search)+len(d.Options) > 0 {
		m.Status.DNS = &berth.DNSConfig{Servers: d.Nameservers, Searches: d.Search, Options: d.Options}
	}
	return nil
}

// Remove removes the network of an allocation, if it has one.
func (n *Networks) Remove(ctx context.Context, alloc string, maker Namespacer) error {
	if err := saferoot.Name(alloc); err != nil {
		return fmt.Errorf("network: allocation: %w", err)
	}
	defer n.lock(alloc)()
	if _, err := os.Lstat(n.record(alloc)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := n.detach(ctx, alloc); err != nil {
		return err
	}
	err := removeNamespace(n.path(alloc))
	if maker != nil {
		err = errors.Join(err, maker.RemoveNetwork(ctx, alloc))
	}
	if err != nil {
		return fmt.Errorf("network namespace: %w", err)
	}
	return os.Remove(n.record(alloc))
}

// detach has the plugins remove what they made for an allocation.
func (n *Networks) detach(ctx context.Context, alloc string) error {
	attachments, err := n.cni.GetCachedAttachments(alloc)
	if err != nil {
		return fmt.Errorf("network: %w", err)
	}
	limited, cancel := n.limited(ctx)
	defer cancel()
	chains, err := removeRules(limited, alloc)
	if err != nil {
		return fmt.Errorf("firewall rules: %w", err)
	}
	for _, a := range attachments {
		list, err := libcni.NetworkConfFromBytes(a.Config)
		if err != nil {
			return fmt.Errorf("network: record of %s: %w", a.Network, err)
		}
		netns := a.NetNS
		if !isNamespace(netns) {
			netns = "" // after a restart of the machine: plugins then remove what is on the host
		}
		rt := &libcni.RuntimeConf{ContainerID: a.ContainerID, NetNS: netns, IfName: a.IfName, Args: a.CniArgs, CapabilityArgs: a.CapabilityArgs}
		if err := n.del(ctx, list, rt); err != nil {
			return fmt.Errorf("network %s: %w", a.Network, err)
		}
	}
	limited, cancel = n.limited(ctx)
	defer cancel()
	if err := removeChains(limited, chains); err != nil {
		return fmt.Errorf("firewall rules: %w", err)
	}
	return nil
}

// Left returns the allocations that have, or may have, a network, in order of ID.
func (n *Networks) Left() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(n.c.StateDir, "allocs"))
	if err != nil {
		return nil, fmt.Errorf("networks: %w", err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out, nil
}

// Maker returns the name of the driver that made the namespace of an allocation,
// "" if none did.
func (n *Networks) Maker(alloc string) (string, error) {
	if err := saferoot.Name(alloc); err != nil {
		return "", fmt.Errorf("network: allocation: %w", err)
	}
	b, err := os.ReadFile(n.record(alloc))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("network: %w", err)
	}
	return string(b), nil
}
