package admit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth"
)

// What a job file can say and Berth does not support is refused here, by name.
// Supporting a key removes its line. docs/unsupported.md is made from these
// tables.

// unsupported is a key that a job may only leave out.
type unsupported[T any] struct {
	key     string       // below the block that the table is for
	used    func(T) bool // reports whether the job asks for something
	instead string       // what to write instead; "" if there is nothing
}

// The tables of fields that Nomad has and Berth refuses. Refusing is better
// than ignoring: the job would run without what its author relies on.
var unsupportedInJob = []unsupported[*berth.Job]{
	{"multiregion", func(j *berth.Job) bool { return j.Multiregion != nil }, ""},
	{"consul_namespace", func(j *berth.Job) bool { return j.ConsulNamespace != "" }, ""},
	{"vault_namespace", func(j *berth.Job) bool { return j.VaultNamespace != "" }, ""},
}

var unsupportedInGroup = []unsupported[*berth.TaskGroup]{
	{"consul", func(g *berth.TaskGroup) bool { return g.Consul != nil }, ""},
}

var unsupportedInVolume = []unsupported[*berth.VolumeRequest]{
	{"attachment_mode = block-device, type = host", func(v *berth.VolumeRequest) bool {
		return v.AttachmentMode == berth.AttachBlock && v.Type != berth.VolumeCSI
	}, "must be file-system"},
}

var unsupportedInNetwork = []unsupported[*berth.NetworkResource]{
	{"device", func(n *berth.NetworkResource) bool { return n.Device != "" }, onNode},
	{"cidr", func(n *berth.NetworkResource) bool { return n.CIDR != "" }, onNode},
	{"ip", func(n *berth.NetworkResource) bool { return n.IP != "" }, onNode},
}

var unsupportedInTaskNetwork = append([]unsupported[*berth.NetworkResource]{
	{"dns", func(n *berth.NetworkResource) bool { return n.DNS != nil }, inGroup},
	{"hostname", func(n *berth.NetworkResource) bool { return n.Hostname != "" }, inGroup},
	{"cni", func(n *berth.NetworkResource) bool { return n.CNI != nil }, inGroup},
	{"port.host_network", func(n *berth.NetworkResource) bool {
		return namesHostNetwork(n.ReservedPorts) || namesHostNetwork(n.DynamicPorts)
	}, inGroup},
}, unsupportedInNetwork...)

// onNode is what to do about a network that a job describes by the interface or
// address of a node: only the node's configuration knows these.
const onNode = "name it in a host_network block of the agents, and ask for it with port.host_network"

// namesHostNetwork reports whether a port is on another than the default host
// network.
func namesHostNetwork(ports []berth.Port) bool {
	return slices.ContainsFunc(ports, func(p berth.Port) bool { return p.Network() != berth.DefaultHostNetwork })
}

var unsupportedInTask = []unsupported[*berth.Task]{
	{"vault", func(t *berth.Task) bool { return t.Vault != nil }, ""},
	{"consul", func(t *berth.Task) bool { return t.Consul != nil }, ""},
	{"kind", func(t *berth.Task) bool { return t.Kind != "" }, ""},
	{"identity.service_name", func(t *berth.Task) bool {
		return slices.ContainsFunc(t.AllIdentities(), func(w *berth.WorkloadIdentity) bool { return w.ServiceName != "" })
	}, "it is for identities of Consul services"},
}

// Unsupported returns the keys of a job file that are refused by name, in the
// order of the tables: "group.consul".
func Unsupported() []string {
	out := []string{"task.template.vault_grace", "task.template.change_script.run_on_first_render"}
	out = append(out, keysOf("job", unsupportedInJob)...)
	out = append(out, keysOf("group", unsupportedInGroup)...)
	out = append(out, keysOf("group.volume", unsupportedInVolume)...)
	out = append(out, keysOf("group.network", unsupportedInNetwork)...)
	out = append(out, keysOf("task", unsupportedInTask)...)
	return append(out, keysOf("task.resources.network", unsupportedInTaskNetwork)...)
}

// keysOf returns the names of the unsupported fields, with their block.
func keysOf[T any](block string, table []unsupported[T]) (out []string) {
	for _, k := range table {
		out = append(out, block+"."+k.key)
	}
	return out
}

// refuseUnsupported notes each key of a table that a value uses.
func refuseUnsupported[T any](c *checker, at string, table []unsupported[T], v T) {
	for _, k := range table {
		key, value, _ := strings.Cut(k.key, " = ")
		instead := k.instead
		if value, _, _ = strings.Cut(value, ","); value != "" && instead != "" { // a second condition is not said
			instead = fmt.Sprintf("%s, got %s", instead, value)
		}
		c.unsupported(k.used(v), at+"."+key, instead)
	}
}

// unsupported notes that the block or value at a path is not supported.
func (c *checker) unsupported(present bool, at, instead string) {
	if present {
		if instead != "" {
			instead = ": " + instead
		}
		c.addf(at, "is not supported%s", instead)
	}
}

// unsupportedJob refuses the job's own fields that Berth does not support.
func (c *checker) unsupportedJob(at string, j *berth.Job) {
	refuseUnsupported(c, at, unsupportedInJob, j)
}

// unsupportedGroup refuses unsupported fields of the group, its volumes and its
// networks.
func (c *checker) unsupportedGroup(at string, g *berth.TaskGroup) {
	for _, name := range slices.Sorted(maps.Keys(g.Volumes)) {
		v := g.Volumes[name]
		refuseUnsupported(c, fmt.Sprintf("%s.volume[%s]", at, berth.Clip(name, 64)), unsupportedInVolume, &v)
	}
	refuseUnsupported(c, at, unsupportedInGroup, g)
	for i := range g.Networks {
		refuseUnsupported(c, at+".network", unsupportedInNetwork, &g.Networks[i])
	}
}

// unsupportedTask refuses unsupported fields of a task.
func (c *checker) unsupportedTask(at string, t *berth.Task) {
	refuseUnsupported(c, at, unsupportedInTask, t)
}
