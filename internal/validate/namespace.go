package validate

import (
	"slices"
	"unicode/utf8"

	"berth"
	"berth/internal/glob"
	"berth/internal/pattern"
)

// maxNamespaceDescription is the longest description of a namespace, in bytes.
const maxNamespaceDescription = 256

// namespaceName is the form of a namespace's name.
var namespaceName = pattern.New(`^[A-Za-z0-9-]{1,128}$`)

// Namespace returns every problem of the namespace.
func Namespace(n *berth.Namespace) error {
	var ps berth.Problems
	if !namespaceName.MatchString(n.Name) || n.Name == berth.CoreNamespace {
		ps.Addf("Name", "invalid name %.150q. Want letters, digits and -, 1 to 128", n.Name)
	}
	if len(n.Description) > maxNamespaceDescription || !utf8.ValidString(n.Description) {
		ps.Addf("Description", "is not text of at most %d bytes", maxNamespaceDescription)
	}
	if n.Quota != "" && !quotaName.MatchString(n.Quota) {
		ps.Addf("Quota", "%.150q is not a valid name of a quota: want letters, digits and -, 1 to 128", n.Quota)
	}
	Meta(&ps, "Meta", n.Meta)
	texts := func(path string, list []string) {
		for _, s := range list {
			if s == "" || len(s) > berth.MaxNameLen || !utf8.ValidString(s) {
				ps.Addf(path, "%q is not text of 1 to %d bytes", berth.Clip(s, 64), berth.MaxNameLen)
			}
		}
	}
	if c := n.Capabilities; c != nil {
		texts("Capabilities.EnabledTaskDrivers", c.EnabledTaskDrivers)
		texts("Capabilities.DisabledTaskDrivers", c.DisabledTaskDrivers)
		texts("Capabilities.EnabledNetworkModes", c.EnabledNetworkModes)
		texts("Capabilities.DisabledNetworkModes", c.DisabledNetworkModes)
	}
	extraClaims(&ps, n)
	if p := n.NodePoolConfiguration; p != nil {
		if p.Default != "" {
			checkPoolName(&ps, "NodePoolConfiguration.Default", p.Default)
		}
		texts("NodePoolConfiguration.Allowed", p.Allowed)
		texts("NodePoolConfiguration.Denied", p.Denied)
		if len(p.Allowed) > 0 && len(p.Denied) > 0 {
			ps.Addf("NodePoolConfiguration.Denied", "must not be set together with Allowed")
		}
	}
	return ps.Err()
}

// JobIn returns what of a job its namespace does not allow.
func JobIn(n *berth.Namespace, j *berth.Job) error {
	var ps berth.Problems
	if p := n.NodePoolConfiguration; p != nil && j.NodePool != n.DefaultPool() {
		like := func(list []string) bool {
			return slices.ContainsFunc(list, func(pattern string) bool { return glob.Match(pattern, j.NodePool) })
		}
		if p.Allowed != nil && !like(p.Allowed) || like(p.Denied) {
			ps.Addf("job.node_pool", "namespace %q does not allow node pool %q", n.Name, berth.Clip(j.NodePool, 64))
		}
	}
	jobClaims(&ps, n, j)
	if c := n.Capabilities; c != nil {
		refuses := func(enabled, disabled []string, s string) bool {
			return len(enabled) > 0 && !slices.Contains(enabled, s) || slices.Contains(disabled, s)
		}
		for _, g := range j.TaskGroups {
			for t, net := range g.AllNetworks() {
				mode := net.Mode
				if mode == "" {
					mode = "host"
				}
				at := "job.group[" + g.Name + "].network.mode"
				if t != nil {
					at = "job.group[" + g.Name + "].task[" + t.Name + "].resources.network.mode"
				}
				if refuses(c.EnabledNetworkModes, c.DisabledNetworkModes, mode) {
					ps.Addf(at, "namespace %q does not allow network mode %q", n.Name, berth.Clip(mode, 64))
				}
			}
			for _, t := range g.Tasks {
				if refuses(c.EnabledTaskDrivers, c.DisabledTaskDrivers, t.Driver) {
					ps.Addf("job.group["+g.Name+"].task["+t.Name+"].driver", "namespace %q does not allow driver %q", n.Name, berth.Clip(t.Driver, 64))
				}
			}
		}
	}
	return ps.Err()
}
