package berth

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Namespace is a set of jobs with unique names, and what these may use.
type Namespace struct {
	Name                  string
	Description           string
	Quota                 string // that limits what it uses; "": none does
	Meta                  map[string]string
	Capabilities          *NamespaceCapabilities          `json:",omitempty"` // nil: jobs may use everything
	NodePoolConfiguration *NamespaceNodePoolConfiguration `json:",omitempty"` // nil: jobs may use every pool
	CreateIndex           uint64
	ModifyIndex           uint64
}

// NamespaceCapabilities restricts the drivers and network modes of jobs. What is
// disabled is refused, and if some are enabled, all others are.
type NamespaceCapabilities struct {
	EnabledTaskDrivers   []string
	DisabledTaskDrivers  []string
	EnabledNetworkModes  []string
	DisabledNetworkModes []string
}

// NamespaceNodePoolConfiguration restricts the node pools of jobs. In the lists *
// stands for any text. At most one of them is set.
type NamespaceNodePoolConfiguration struct {
	Default string   // of jobs that name none; "" is DefaultNodePool. It is always allowed
	Allowed []string // nil: all that are not denied; empty: only the default
	Denied  []string
}

// MaxNamespaceDescription is the longest description of a namespace, in bytes.
const MaxNamespaceDescription = 256

// namespaceName is the form of a namespace's name.
var namespaceName = regexp.MustCompile(`^[A-Za-z0-9-]{1,128}$`)

// Validate returns every problem of the namespace.
func (n *Namespace) Validate() error {
	var ps Problems
	if !namespaceName.MatchString(n.Name) || n.Name == CoreNamespace {
		ps.Addf("Name", "%.150q is not a valid name of a namespace: want letters, digits and -, 1 to 128", n.Name)
	}
	if len(n.Description) > MaxNamespaceDescription || !utf8.ValidString(n.Description) {
		ps.Addf("Description", "is not text of at most %d bytes", MaxNamespaceDescription)
	}
	if n.Quota != "" && !quotaName.MatchString(n.Quota) {
		ps.Addf("Quota", "%.150q is not a valid name of a quota: want letters, digits and -, 1 to 128", n.Quota)
	}
	ps.CheckMeta("Meta", n.Meta)
	texts := func(path string, list []string) {
		for _, s := range list {
			if s == "" || len(s) > MaxNameLen || !utf8.ValidString(s) {
				ps.Addf(path, "%q is not text of 1 to %d bytes", Clip(s, 64), MaxNameLen)
			}
		}
	}
	if c := n.Capabilities; c != nil {
		texts("Capabilities.EnabledTaskDrivers", c.EnabledTaskDrivers)
		texts("Capabilities.DisabledTaskDrivers", c.DisabledTaskDrivers)
		texts("Capabilities.EnabledNetworkModes", c.EnabledNetworkModes)
		texts("Capabilities.DisabledNetworkModes", c.DisabledNetworkModes)
	}
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

// DefaultPool returns the node pool of jobs that name none.
func (n *Namespace) DefaultPool() string {
	if n != nil && n.NodePoolConfiguration != nil && n.NodePoolConfiguration.Default != "" {
		return n.NodePoolConfiguration.Default
	}
	return DefaultNodePool
}

// CheckJob returns what of a job the namespace does not allow.
func (n *Namespace) CheckJob(j *Job) error {
	var ps Problems
	if p := n.NodePoolConfiguration; p != nil && j.NodePool != n.DefaultPool() {
		like := func(list []string) bool {
			return slices.ContainsFunc(list, func(glob string) bool { return MatchGlob(glob, j.NodePool) })
		}
		if p.Allowed != nil && !like(p.Allowed) || like(p.Denied) {
			ps.Addf("job.node_pool", "namespace %q does not allow node pool %q", n.Name, Clip(j.NodePool, 64))
		}
	}
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
					ps.Addf(at, "namespace %q does not allow network mode %q", n.Name, Clip(mode, 64))
				}
			}
			for _, t := range g.Tasks {
				if refuses(c.EnabledTaskDrivers, c.DisabledTaskDrivers, t.Driver) {
					ps.Addf("job.group["+g.Name+"].task["+t.Name+"].driver", "namespace %q does not allow driver %q", n.Name, Clip(t.Driver, 64))
				}
			}
		}
	}
	return ps.Err()
}

// MatchGlob reports whether a name matches a pattern, in which each * stands for
// any text, even none.
func MatchGlob(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == name
	}
	first, last := parts[0], parts[len(parts)-1]
	if len(name) < len(first)+len(last) || !strings.HasPrefix(name, first) || !strings.HasSuffix(name, last) {
		return false
	}
	name = name[len(first) : len(name)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(name, part)
		if at < 0 {
			return false
		}
		name = name[at+len(part):]
	}
	return true
}
