package network

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containernetworking/cni/libcni"

	"berth"
)

// bridgeList is the name of the network of mode bridge. Plugins keep the
// addresses that they gave away by it.
const bridgeList = "berth-bridge"

// adminChain is the chain of iptables in which an administrator may write rules
// of their own for the traffic of bridges.
const adminChain = "BERTH-ADMIN"

// bridgePlugins are what mode bridge needs.
var bridgePlugins = []string{"bridge", "firewall", "host-local", "portmap"}

// list returns the configuration of the networks of a mode; nil for none.
func (n *Networks) list(mode string) (*libcni.NetworkConfigList, error) {
	switch name, isCNI := strings.CutPrefix(mode, berth.NetworkCNI); {
	case mode == berth.NetworkNone:
		return nil, nil
	case mode == berth.NetworkBridge:
		b, err := json.Marshal(n.bridge())
		if err != nil {
			return nil, err
		}
		return libcni.NetworkConfFromBytes(b)
	case isCNI:
		list, err := libcni.LoadNetworkConf(n.c.ConfigDir, name)
		if err != nil {
			return nil, berth.Errorf(berth.NotFound, "network.mode: there is no CNI network %q in %s: %w", name, n.c.ConfigDir, err)
		}
		return list, nil
	}
	return nil, berth.Errorf(berth.Invalid, "network.mode: must be bridge, none or cni/NAME, got %q", berth.Clip(mode, 64))
}

// bridge is the configuration of mode bridge, in the form that CNI documents: a
// bridge whose host side is the gateway, addresses from the subnet, rules that
// let its traffic through, and the mapped ports.
func (n *Networks) bridge() map[string]any {
	ranges := [][]map[string]string{{{"subnet": n.c.Subnet}}}
	routes := []map[string]string{{"dst": "0.0.0.0/0"}}
	if n.c.SubnetIPv6 != "" {
		ranges = append(ranges, []map[string]string{{"subnet": n.c.SubnetIPv6}})
		routes = append(routes, map[string]string{"dst": "::/0"})
	}
	return map[string]any{
		"cniVersion": "1.0.0",
		"name":       bridgeList,
		"plugins": []map[string]any{
			{
				"type": "bridge", "bridge": n.c.Bridge, "isGateway": true, "forceAddress": true, "ipMasq": true, "hairpinMode": n.c.Hairpin,
				"ipam": map[string]any{"type": "host-local", "ranges": ranges, "routes": routes, "dataDir": filepath.Join(n.c.Addresses, n.c.Bridge)},
			},
			{"type": "firewall", "backend": "iptables", "iptablesAdminChainName": adminChain},
			{"type": "portmap", "capabilities": map[string]bool{"portMappings": true}, "snat": true},
		},
	}
}

// Offer is what a machine can do for networks of groups.
type Offer struct {
	Bridge  bool              // mode bridge works
	Why     string            // why it does not
	CNI     []string          // names of the networks that cni/NAME can mean, sorted
	Plugins map[string]string // versions of the plugins that are there, by name
}

// Find looks at the machine. It starts each plugin once, to ask for its version.
func Find(ctx context.Context, c *Config) *Offer {
	o := &Offer{Plugins: map[string]string{}}
	for _, dir := range c.Plugins {
		entries, _ := os.ReadDir(dir) // one that is not there has no plugins
		for _, e := range entries {
			if _, known := o.Plugins[e.Name()]; known || !e.Type().IsRegular() {
				continue
			}
			if v := pluginVersion(ctx, filepath.Join(dir, e.Name())); v != "" {
				o.Plugins[e.Name()] = v
			}
		}
	}
	o.CNI = cniNetworks(c.ConfigDir)
	o.Bridge, o.Why = true, ""
	for _, p := range bridgePlugins {
		if o.Plugins[p] == "" {
			o.Bridge, o.Why = false, "the CNI plugin "+p+" is not in "+strings.Join(c.Plugins, " or ")
			return o
		}
	}
	if _, err := exec.LookPath("iptables"); err != nil {
		o.Bridge, o.Why = false, "the command iptables is not there"
	}
	if os.Geteuid() != 0 {
		o.Bridge, o.Why = false, "the agent does not run as root"
	}
	return o
}

// pluginVersion asks a CNI plugin for its version, which it prints as "CNI bridge
// plugin v1.1.1" when it is started without a command. "" means that the file
// is no such plugin.
func pluginVersion(ctx context.Context, path string) string {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := run(ctx, cmd); err != nil && ctx.Err() != nil {
		return ""
	}
	line, _, _ := bytes.Cut(out.Bytes(), []byte("\n"))
	words := strings.Fields(string(line))
	if len(words) < 4 || words[0] != "CNI" || words[2] != "plugin" {
		return ""
	}
	return strings.TrimPrefix(words[3], "v")
}

// cniNetworks returns the names of the networks that a directory configures.
func cniNetworks(dir string) (names []string) {
	files, err := libcni.ConfFiles(dir, []string{".conflist", ".conf", ".json"})
	if err != nil {
		return nil
	}
	for _, f := range files {
		var conf struct{ Name string } // a list of plugins or a single one
		if b, err := os.ReadFile(f); err != nil || json.Unmarshal(b, &conf) != nil {
			continue
		}
		if conf.Name != "" && !slices.Contains(names, conf.Name) {
			names = append(names, conf.Name)
		}
	}
	slices.Sort(names)
	return names
}
