package berth

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

var portLabel = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func (c *checker) networks(at string, networks []NetworkResource) {
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
		if name, isCNI := strings.CutPrefix(n.Mode, NetworkCNI); isCNI {
			if !portLabel.MatchString(strings.ReplaceAll(name, ".", "-")) {
				c.addf(at+".network.mode", "%q names no CNI network", clip(n.Mode, 64))
			}
		} else {
			c.oneOf(at+".network.mode", n.Mode, NetworkHost, NetworkBridge, NetworkNone, NetworkCNI+"…")
		}
		ports := slices.Concat(n.ReservedPorts, n.DynamicPorts)
		if len(ports) > MaxPorts {
			c.addf(at+".network.port", "%d ports are too many; allowed are %d", len(ports), MaxPorts)
			continue
		}
		for _, p := range ports {
			pat := fmt.Sprintf("%s.network.port[%s]", at, clip(p.Label, 64))
			if !portLabel.MatchString(p.Label) {
				c.addf(pat, "the label must be letters, digits, - and _, up to 64")
			}
			if seen[strings.ToLower(p.Label)] {
				c.addf(pat, "is there twice")
			}
			seen[strings.ToLower(p.Label)] = true
			if p.Value != 0 {
				c.between(pat+".static", int64(p.Value), 1, MaxPort)
				at := space{p.Network(), p.Value}
				if other := taken[at]; other != "" {
					c.addf(pat+".static", "%d is the static port of %q too", p.Value, other)
				}
				taken[at] = p.Label
			}
			c.line(pat+".host_network", p.HostNetwork, MaxNameLen)
			if p.IgnoreCollision && (p.Value == 0 || n.Mode != NetworkHost) {
				c.addf(pat+".ignore_collision", "is for static ports in mode host alone")
			}
			c.between(pat+".to", int64(p.To), -1, MaxPort)
		}
	}
}

// volumes checks what a group asks of its node's volumes.
func (c *checker) volumes(at string, j *Job, g *TaskGroup) {
	if len(g.Volumes) > maxRequests {
		c.addf(at+".volume", "%d volumes are too many; allowed are %d", len(g.Volumes), maxRequests)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(g.Volumes)) {
		v := g.Volumes[name]
		vat := fmt.Sprintf("%s.volume[%s]", at, clip(name, 64))
		c.line(vat, name, MaxNameLen)
		c.oneOf(vat+".type", v.Type, VolumeHost, VolumeCSI)
		c.line(vat+".source", v.Source, MaxNameLen)
		if v.Source == "" {
			c.addf(vat+".source", "is missing")
		}
		if v.PerAlloc && (j.Type == TypeSystem || j.Type == TypeSysbatch) {
			c.addf(vat+".per_alloc", "is not for %s jobs", j.Type)
		}
		if v.Type == VolumeHost && v.MountOptions != nil {
			c.addf(vat+".mount_options", "is for csi volumes alone")
		}
		if v.PerAlloc && v.Sticky {
			c.addf(vat+".sticky", "and per_alloc exclude each other")
		}
	}
}
