package admit

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"berth"
)

// sortPorts puts ports with a number among the reserved ones, and the others
// among the dynamic ones, however they were written.
func sortPorts(n *berth.NetworkResource) {
	all := append(n.ReservedPorts[:len(n.ReservedPorts):len(n.ReservedPorts)], n.DynamicPorts...)
	n.ReservedPorts, n.DynamicPorts = nil, nil
	for _, p := range all {
		if p.Value != 0 {
			n.ReservedPorts = append(n.ReservedPorts, p)
		} else {
			n.DynamicPorts = append(n.DynamicPorts, p)
		}
	}
	orDefault(&n.Mode, berth.NetworkHost)
}

var portLabel = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func (c *checker) networks(at string, networks []berth.NetworkResource) {
	if len(networks) > 1 {
		c.addf(at+".network", "is there %d times; allowed is once", len(networks))
	}
	type space struct { // ports of one host network
		network string
		port    int
	}
	seen, taken := map[string]bool{}, map[space]string{}
	for i := range networks {
		n := &networks[i]
		if name, isCNI := strings.CutPrefix(n.Mode, berth.NetworkCNI); isCNI {
			if !portLabel.MatchString(strings.ReplaceAll(name, ".", "-")) {
				c.addf(at+".network.mode", "%q names no CNI network", berth.Clip(n.Mode, 64))
			}
		} else {
			c.oneOf(at+".network.mode", n.Mode, berth.NetworkHost, berth.NetworkBridge, berth.NetworkNone, berth.NetworkCNI+"…")
		}
		ports := slices.Concat(n.ReservedPorts, n.DynamicPorts)
		if len(ports) > MaxPorts {
			c.addf(at+".network.port", "%d ports are too many; allowed are %d", len(ports), MaxPorts)
			continue
		}
		for _, p := range ports {
			pat := fmt.Sprintf("%s.network.port[%s]", at, berth.Clip(p.Label, 64))
			if !portLabel.MatchString(p.Label) {
				c.addf(pat, "the label must be letters, digits, - and _, up to 64")
			}
			if seen[strings.ToLower(p.Label)] {
				c.addf(pat, "is there twice")
			}
			seen[strings.ToLower(p.Label)] = true
			if p.Value != 0 {
				c.between(pat+".static", int64(p.Value), 1, berth.MaxPort)
				at := space{p.Network(), p.Value}
				if other := taken[at]; other != "" {
					c.addf(pat+".static", "%d is the static port of %q too", p.Value, other)
				}
				taken[at] = p.Label
			}
			c.line(pat+".host_network", p.HostNetwork, berth.MaxNameLen)
			if p.IgnoreCollision && (p.Value == 0 || n.Mode != berth.NetworkHost) {
				c.addf(pat+".ignore_collision", "is for static ports in mode host alone")
			}
			c.between(pat+".to", int64(p.To), -1, berth.MaxPort)
		}
	}
}

// volumes checks what a group asks of its node's volumes.
func (c *checker) volumes(at string, j *berth.Job, g *berth.TaskGroup) {
	if len(g.Volumes) > maxRequests {
		c.addf(at+".volume", "%d volumes are too many; allowed are %d", len(g.Volumes), maxRequests)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(g.Volumes)) {
		v := g.Volumes[name]
		vat := fmt.Sprintf("%s.volume[%s]", at, berth.Clip(name, 64))
		c.line(vat, name, berth.MaxNameLen)
		c.oneOf(vat+".type", v.Type, berth.VolumeHost, berth.VolumeCSI)
		c.line(vat+".source", v.Source, berth.MaxNameLen)
		if v.Source == "" {
			c.addf(vat+".source", "is missing")
		}
		if v.PerAlloc && (j.Type == berth.TypeSystem || j.Type == berth.TypeSysbatch) {
			c.addf(vat+".per_alloc", "is not for %s jobs", j.Type)
		}
		if v.Type == berth.VolumeHost && v.MountOptions != nil {
			c.addf(vat+".mount_options", "is for csi volumes alone")
		}
		if v.PerAlloc && v.Sticky {
			c.addf(vat+".sticky", "and per_alloc exclude each other")
		}
	}
}
