package place

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth"
	"berth/internal/fit"
)

// needs lists what a group's node must have at all, in use or not: networks,
// volumes and device types. It is nil for most groups.
type needs struct {
	group *berth.TaskGroup
	modes []string // of networks, without host
	nets  []string // host networks, without the default
}

// needsOf returns what a group needs of a node besides quantities; nil, which
// every node meets, if it needs nothing special.
func needsOf(g *berth.TaskGroup) *needs {
	t := &needs{group: g}
	for _, nw := range g.AllNetworks() {
		if nw.Mode != "" && nw.Mode != berth.NetworkHost {
			t.modes = append(t.modes, nw.Mode)
		}
		for _, ports := range [2][]berth.Port{nw.ReservedPorts, nw.DynamicPorts} {
			for _, p := range ports {
				if name := p.Network(); name != berth.DefaultHostNetwork && !slices.Contains(t.nets, name) {
					t.nets = append(t.nets, name)
				}
			}
		}
	}
	devices := slices.ContainsFunc(g.Tasks, func(t *berth.Task) bool { return len(t.Resources.Devices) > 0 })
	if len(t.modes)+len(t.nets)+len(g.Volumes) == 0 && !devices {
		return nil
	}
	return t
}

// lacking returns what a node does not have for the instance with that index,
// one reason each.
func (t *needs) lacking(n *berth.Node, index uint32) (out []string) {
	if t == nil {
		return nil
	}
	for _, mode := range t.modes {
		if !hasNetwork(n, mode) {
			out = append(out, "missing network: "+mode)
		}
	}
	for _, name := range t.nets {
		if n.AddressOn(name) == "" {
			out = append(out, "missing host network: "+name)
		}
	}
	// In order of name, as a map has none.
	for _, name := range slices.Sorted(maps.Keys(t.group.Volumes)) {
		v := t.group.Volumes[name]
		if v.Type == berth.VolumeCSI {
			continue // each node is asked: see filter.node
		}
		if why := lacksVolume(n, v.SourceFor(index), v.ReadOnly); why != "" {
			out = append(out, why)
		}
	}
	for _, task := range t.group.Tasks {
		if name := fit.MissingDevices(task, n); name != "" {
			out = append(out, "missing devices: "+name)
		}
	}
	return out
}

// hasNetwork reports whether a node can give allocations networks of a mode.
// The agent describes bridges by a network of that mode, and each CNI network
// by an attribute.
func hasNetwork(n *berth.Node, mode string) bool {
	if name, isCNI := strings.CutPrefix(mode, berth.NetworkCNI); isCNI {
		if _, ok := n.Attributes["plugins.cni.config."+name]; ok {
			return true
		}
	}
	return slices.ContainsFunc(n.NodeResources.NodeNetworks, func(nw berth.NodeNetwork) bool { return nw.Mode == mode })
}

// lacksVolume returns why a node cannot offer a host volume, "" if it can.
func lacksVolume(n *berth.Node, source string, readOnly bool) string {
	v, ok := n.HostVolumes[source]
	switch {
	case !ok:
		return "missing host volume: " + source
	case v.ReadOnly && !readOnly:
		return fmt.Sprintf("host volume %s is read-only", source)
	}
	return ""
}

// wantsCSI reports whether a group has CSI volumes.
func wantsCSI(g *berth.TaskGroup) bool {
	for _, v := range g.Volumes {
		if v.Type == berth.VolumeCSI {
			return true
		}
	}
	return false
}

// perAlloc reports whether instances of a group need different nodes because
// each has volumes of its own, or keeps the ones that it had.
func perAlloc(g *berth.TaskGroup) bool {
	for _, v := range g.Volumes {
		if v.PerAlloc || v.Sticky {
			return true
		}
	}
	return false
}

// addMissed adds to all what would help another instance.
func addMissed(all, one *berth.Missed) {
	all.Escaped = all.Escaped || one.Escaped
	all.Quota, all.QuotaOnly = cmp.Or(all.Quota, one.Quota), all.QuotaOnly && one.QuotaOnly
	for class, helps := range one.Classes {
		all.Classes[class] = all.Classes[class] || helps
	}
	for _, d := range one.Dimensions {
		if !slices.Contains(all.Dimensions, d) {
			all.Dimensions = append(all.Dimensions, d)
		}
	}
}
