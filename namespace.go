package berth

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
	RequiredExtraClaims   map[string]string `json:",omitempty"` // by name: every identity of a task has them
	OptionalExtraClaims   map[string]string `json:",omitempty"` // by name: an identity has those that it asks for
}

// NamespaceCapabilities restricts the drivers and network modes of jobs. What is
// disabled is refused, and if some are enabled, all others are.
type NamespaceCapabilities struct {
	EnabledTaskDrivers, DisabledTaskDrivers   []string
	EnabledNetworkModes, DisabledNetworkModes []string
}

// NamespaceNodePoolConfiguration restricts the node pools of jobs. In the lists *
// stands for any text. At most one of them is set.
type NamespaceNodePoolConfiguration struct {
	Default string   // of jobs that name none; "" is DefaultNodePool. It is always allowed
	Allowed []string // nil: all that are not denied; empty: only the default
	Denied  []string
}

// DefaultPool returns the node pool of jobs that name none.
func (n *Namespace) DefaultPool() string {
	if n != nil && n.NodePoolConfiguration != nil && n.NodePoolConfiguration.Default != "" {
		return n.NodePoolConfiguration.Default
	}
	return DefaultNodePool
}
