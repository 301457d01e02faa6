package admit

import (
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strings"

	"berth"
	"berth/internal/pattern"
	"berth/internal/validate"
)

// sortPorts moves ports with a number to ReservedPorts and the others to
// DynamicPorts, wherever they were written.
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

// portLabel is the form of a port's label, which becomes part of the names of
// environment variables.
var portLabel = pattern.New(`^[A-Za-z0-9_-]{1,64}$`)

// portSpace is a port of a host network.
type portSpace struct {
	network string
	port    int
}

// networks checks a group's network and those that its tasks ask for. Two static
// ports may be equal only on different host networks.
func (c *checker) networks(at string, g *berth.TaskGroup) {
	if n := len(g.Networks); n > 1 {
		c.addf(at+".network", "at most one network block is allowed, got %d", n)
	}
	taken, seen, count := map[portSpace]string{}, map[string]bool{}, 0
	for i := range g.Networks {
		n := &g.Networks[i]
		if name, isCNI := strings.CutPrefix(n.Mode, berth.NetworkCNI); isCNI {
			if !portLabel.MatchString(strings.ReplaceAll(name, ".", "-")) {
				c.addf(at+".network.mode", "must be cni/ and the name of a network, got %q", berth.Clip(n.Mode, 64))
			}
		} else {
			c.oneOf(at+".network.mode", n.Mode, berth.NetworkHost, berth.NetworkBridge, berth.NetworkNone, berth.NetworkCNI+"…")
		}
		c.groupNetwork(at+".network", n)
		c.ports(at+".network", n, seen, taken, &count)
	}
	for _, t := range g.Tasks {
		tat := fmt.Sprintf("%s.task[%s].resources.network", at, berth.Clip(t.Name, 64))
		c.taskNetwork(tat, g, t.Resources.Networks)
		seen := map[string]bool{} // each task has labels of its own
		for i := range t.Resources.Networks {
			c.ports(tat, &t.Resources.Networks[i], seen, taken, &count)
		}
	}
}

// ports checks the ports of one network block. seen are labels in lower case,
// taken the static ports so far, each with its label, and count how many ports
// the group has so far.
func (c *checker) ports(at string, n *berth.NetworkResource, seen map[string]bool, taken map[portSpace]string, count *int) {
	// Labels name ports whether static or dynamic, and in any case, since they
	// become environment variables.
	ports := slices.Concat(n.ReservedPorts, n.DynamicPorts)
	*count += len(ports)
	if !c.atMost(at+".port", portsLimit, *count, "ports") {
		return
	}
	for _, p := range ports {
		pat := fmt.Sprintf("%s.port[%s]", at, berth.Clip(p.Label, 64))
		if !portLabel.MatchString(p.Label) {
			c.addf(pat, "the label must be 1 to 64 letters, digits, - or _")
		}
		if seen[strings.ToLower(p.Label)] {
			c.addf(pat, "is defined twice")
		}
		seen[strings.ToLower(p.Label)] = true
		if p.Value != 0 {
			c.between(pat+".static", int64(p.Value), 1, berth.MaxPort)
			on := portSpace{p.Network(), p.Value}
			if other := taken[on]; other != "" {
				c.addf(pat+".static", "%d is also the static port of %q", p.Value, other)
			}
			taken[on] = p.Label
		}
		c.line(pat+".host_network", p.HostNetwork, berth.MaxNameLen)
		if p.IgnoreCollision && (p.Value == 0 || n.Mode != berth.NetworkHost) {
			c.addf(pat+".ignore_collision", "is only for static ports in mode host")
		}
		c.between(pat+".to", int64(p.To), -1, berth.MaxPort)
	}
}

// inGroup is what to do about a network that a task cannot have.
const inGroup = "use the network block of the group"

// taskNetwork checks the networks in the resources of a task, the form that job
// files had before groups had networks. Such a task is on the host's network.
func (c *checker) taskNetwork(at string, g *berth.TaskGroup, networks []berth.NetworkResource) {
	if len(networks) > 1 {
		c.addf(at, "at most one network block is allowed, got %d", len(networks))
	}
	for i := range networks {
		if m := networks[i].Mode; m != "" && m != berth.NetworkHost {
			c.addf(at+".mode", "must be host, got %q: for other modes %s", berth.Clip(m, 64), inGroup)
		}
		refuseUnsupported(c, at, unsupportedInTaskNetwork, &networks[i])
	}
	for i := range g.Networks {
		if m := g.Networks[i].Mode; len(networks) > 0 && m != "" && m != berth.NetworkHost {
			c.addf(at, "cannot be combined with the group's network of mode %s, in which its ports would not be reached: %s", m, inGroup)
		}
	}
}

// hostName is the form of a host name: RFC 1123 labels, separated by dots.
var hostName = pattern.New(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$`)

// groupNetwork checks what only a network of the group's own can have.
func (c *checker) groupNetwork(at string, n *berth.NetworkResource) {
	own := n.Mode != "" && n.Mode != berth.NetworkHost
	if h := n.Hostname; h != "" {
		switch {
		case !own:
			c.addf(at+".hostname", "needs mode bridge, none or cni/…, got host")
		case !strings.Contains(h, "${") && (len(h) > 63 || !hostName.MatchString(h)):
			c.addf(at+".hostname", "must be a host name of at most 63 letters, digits, hyphens and dots, got %q", berth.Clip(h, 64))
		}
	}
	if n.CNI != nil && !strings.HasPrefix(n.Mode, berth.NetworkCNI) {
		c.addf(at+".cni", "needs mode cni/…, got %s", n.Mode)
	}
	if n.CNI != nil {
		for k, v := range n.CNI.Args {
			if k == "" || strings.ContainsAny(k+v, ";=\n") {
				c.addf(at+".cni.args", "%q: keys and values must not contain ; or =", berth.Clip(k, 64))
			}
		}
	}
	ports := len(n.ReservedPorts) + len(n.DynamicPorts)
	if n.Mode == berth.NetworkNone && ports > 0 {
		c.addf(at+".port", "must be left out with mode none")
	}
	if n.DNS == nil {
		return
	}
	if !own {
		c.addf(at+".dns", "needs mode bridge, none or cni/…, got host")
	}
	for _, s := range n.DNS.Servers {
		if _, err := netip.ParseAddr(s); err != nil && !strings.Contains(s, "${") {
			c.addf(at+".dns.servers", "must be IP addresses, got %q", berth.Clip(s, 64))
		}
	}
	for _, s := range slices.Concat(n.DNS.Searches, n.DNS.Options) {
		if s == "" || strings.ContainsAny(s, " \t\n#;") {
			c.addf(at+".dns", "%q must be one word", berth.Clip(s, 64))
		}
	}
}

// volumes checks the volumes that a group requests.
func (c *checker) volumes(at string, j *berth.Job, g *berth.TaskGroup) {
	if !c.atMost(at+".volume", requestsLimit, len(g.Volumes), "volumes") {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(g.Volumes)) {
		v := g.Volumes[name]
		vat := fmt.Sprintf("%s.volume[%s]", at, berth.Clip(name, 64))
		c.line(vat, name, berth.MaxNameLen)
		c.oneOf(vat+".type", v.Type, berth.VolumeHost, berth.VolumeCSI)
		c.line(vat+".source", v.Source, berth.MaxNameLen)
		if v.Source == "" {
			c.addf(vat+".source", "is missing: want the name of the volume")
		}
		if v.PerAlloc && (j.Type == berth.TypeSystem || j.Type == berth.TypeSysbatch) {
			c.addf(vat+".per_alloc", "is not for jobs of type %s", j.Type)
		}
		if v.Type == berth.VolumeHost && v.MountOptions != nil {
			c.addf(vat+".mount_options", "is only for volumes of type csi")
		}
		if v.Type == berth.VolumeCSI {
			c.csiVolume(vat, name, g, &v)
			continue
		}
		if v.AccessMode != "" {
			c.oneOf(vat+".access_mode", v.AccessMode, validate.VolumeAccess()...)
		}
		if v.AttachmentMode != "" {
			c.oneOf(vat+".attachment_mode", v.AttachmentMode, validate.VolumeAttachments()...)
		}
		if v.AccessMode == berth.AccessReader && !v.ReadOnly {
			c.addf(vat+".read_only", "must be true with access mode %s", v.AccessMode)
		}
		if v.Sticky && berth.PerNode(j.Type) {
			c.addf(vat+".sticky", "is not for jobs of type %s", j.Type)
		}
		if v.PerAlloc && v.Sticky {
			c.addf(vat+".sticky", "cannot be combined with per_alloc")
		}
	}
}

// volumeMounts checks where a task has volumes of its group. Whether its driver
// can mount them is for the node to say.
func (c *checker) volumeMounts(at string, g *berth.TaskGroup, mounts []berth.VolumeMount) {
	if !c.atMost(at, requestsLimit, len(mounts), "volume_mount blocks") {
		return
	}
	for i := range mounts {
		m := &mounts[i]
		if _, ok := g.Volumes[m.Volume]; !ok {
			c.addf(at+".volume", "the group has no volume %q", berth.Clip(m.Volume, 64))
		}
		switch parts := strings.Split(m.Destination, "/"); {
		case m.Destination == "":
			c.addf(at+".destination", "is missing: want the path of the volume in the task")
		case slices.Contains(parts, "..") || strings.ContainsRune(m.Destination, 0) || path.Clean("/"+m.Destination) == "/":
			c.addf(at+".destination", "must be a path below / without .. and NUL, got %q", berth.Clip(m.Destination, 64))
		}
		switch v := g.Volumes[m.Volume]; {
		case m.SELinuxLabel == "":
		case v.Type == berth.VolumeCSI && v.AttachmentMode == berth.AttachBlock:
			c.addf(at+".selinux_label", "must be left out: volume %s is attached as a block device, got %q", berth.Clip(m.Volume, 64), berth.Clip(m.SELinuxLabel, 64))
		default:
			c.oneOf(at+".selinux_label", m.SELinuxLabel, "z", "Z")
		}
		if m.PropagationMode != "" {
			c.oneOf(at+".propagation_mode", m.PropagationMode, "private", "host-to-task", "bidirectional")
		}
	}
}
