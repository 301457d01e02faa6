package acl

import (
	"slices"
	"strings"
)

// Capability is the right to do one kind of thing, in the words of Nomad's
// access control policies.
type Capability string

// The capabilities that operations need.
const (
	Open      Capability = "open"       // anybody, without a token
	AnyToken  Capability = "any-token"  // anybody with a valid token
	Node      Capability = "node"       // a node's agent, by the node's secret
	Server    Capability = "server"     // another server, by its certificate or the key that servers share
	Deny      Capability = "deny"       // none, whatever other rules with the label grant
	ListJobs  Capability = "list-jobs"  // in a namespace
	ParseJob  Capability = "parse-job"  // in a namespace
	ReadJob   Capability = "read-job"   // in a namespace
	SubmitJob Capability = "submit-job" // in a namespace
	ReadLogs  Capability = "read-logs"  // in a namespace
	ReadFS    Capability = "read-fs"    // in a namespace
	ScaleJob  Capability = "scale-job"  // in a namespace

	// ReadServices is not in the language of policies: ReadJob includes it, and the
	// identity of a task has it in its own namespace.
	ReadServices Capability = "read-services"

	ReadJobScaling      Capability = "read-job-scaling"      // in a namespace
	ListScalingPolicies Capability = "list-scaling-policies" // in a namespace
	ReadScalingPolicy   Capability = "read-scaling-policy"   // in a namespace
	AllocExec           Capability = "alloc-exec"            // in a namespace
	AllocNodeExec       Capability = "alloc-node-exec"       // in a namespace
	AllocLifecycle      Capability = "alloc-lifecycle"       // in a namespace
	DispatchJob         Capability = "dispatch-job"          // in a namespace
	ForcePeriodicJob    Capability = "force-periodic-job"    // in a namespace

	VariablesList    Capability = "variables:list"    // of a path in a namespace
	VariablesRead    Capability = "variables:read"    // of a path in a namespace
	VariablesWrite   Capability = "variables:write"   // of a path in a namespace
	VariablesDestroy Capability = "variables:destroy" // of a path in a namespace

	NodeRead       Capability = "node:read"
	NodeWrite      Capability = "node:write"
	NodePoolRead   Capability = "node_pool:read"
	NodePoolWrite  Capability = "node_pool:write"
	NodePoolDelete Capability = "node_pool:delete"
	AgentRead      Capability = "agent:read"
	AgentWrite     Capability = "agent:write"
	OperatorRead   Capability = "operator:read"
	OperatorWrite  Capability = "operator:write"
	QuotaRead      Capability = "quota:read"
	QuotaWrite     Capability = "quota:write"
	PluginList     Capability = "plugin:list"
	PluginRead     Capability = "plugin:read"
	Management     Capability = "management"

	CSIListVolume     Capability = "csi-list-volume" // in a namespace, as below
	CSIReadVolume     Capability = "csi-read-volume"
	CSIWriteVolume    Capability = "csi-write-volume"
	CSIMountVolume    Capability = "csi-mount-volume"
	CSIRegisterPlugin Capability = "csi-register-plugin"

	HostVolumeCreate   Capability = "host-volume-create" // in a namespace, as below
	HostVolumeRegister Capability = "host-volume-register"
	HostVolumeRead     Capability = "host-volume-read"
	HostVolumeWrite    Capability = "host-volume-write"
	HostVolumeDelete   Capability = "host-volume-delete"
)

// inNamespaces are the capabilities that namespace rules grant. No operation
// needs some of them; policies may grant them all the same.
var inNamespaces = []Capability{
	ListJobs, ParseJob, ReadJob, SubmitJob, ReadLogs, ReadFS, ScaleJob, ReadJobScaling, ListScalingPolicies, ReadScalingPolicy,
	AllocExec, AllocNodeExec, AllocLifecycle, DispatchJob, ForcePeriodicJob,
	"register-job", "deregister-job", "purge-job", "revert-job", "evaluate-job", "plan-job", "tag-job-version", "stable-job",
	"fail-deployment", "pause-deployment", "promote-deployment", "unblock-deployment", "cancel-deployment", "set-alloc-health-deployment",
	"gc-allocation", "pause-allocation", "delete-service-registration",
	"csi-list-volume", "csi-read-volume", "csi-write-volume", "csi-mount-volume", "csi-register-plugin",
	"host-volume-create", "host-volume-register", "host-volume-read", "host-volume-write", "host-volume-delete",
	"submit-recommendation", "sentinel-override",
}

// namespaced is inNamespaces, to look up.
var namespaced = func() map[Capability]bool {
	m := map[Capability]bool{}
	for _, c := range inNamespaces {
		m[c] = true
	}
	m[ReadServices] = true
	return m
}()

// Namespaced reports whether the capability is granted per namespace.
func (c Capability) Namespaced() bool { return namespaced[c] }

// Granted returns the capability that a policy must have to grant this one.
func (c Capability) Granted() Capability {
	if c == ReadServices {
		return ReadJob
	}
	return c
}

// variables reports whether the capability is granted per path of variables.
func (c Capability) variables() bool { return strings.HasPrefix(string(c), "variables:") }

// area returns the kind of rule that grants the capability, if it is not a
// namespace's: "node" of "node:read".
func (c Capability) area() string {
	area, _, ok := strings.Cut(string(c), ":")
	if !ok {
		return ""
	}
	return area
}

// Known reports whether the capability is one that exists.
func (c Capability) Known() bool {
	switch c {
	case Open, AnyToken, Node, Server, Management:
		return true
	}
	return c.Namespaced() || slices.Contains(areas[c.area()].all(), c)
}

// All returns the capabilities that policies can grant, in order of name.
func All() []Capability {
	all := slices.Clone(inNamespaces)
	for _, r := range areas {
		all = append(all, r.all()...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// areaRules is what a kind of rule may say: what each of its policies stands for,
// and its capabilities.
type areaRules struct {
	policies map[string][]Capability
	finer    []Capability
}

// all returns every capability of the rules.
func (r areaRules) all() []Capability {
	out := slices.Clone(r.finer)
	for _, cs := range r.policies {
		out = append(out, cs...)
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(c Capability) bool { return c == Deny })
}

// What a namespace's read, write and scale stand for.
var (
	readNamespace = []Capability{
		ListJobs, ParseJob, ReadJob, "csi-list-volume", "csi-read-volume", ReadJobScaling, ListScalingPolicies, ReadScalingPolicy, "host-volume-read",
	}
	scaleNamespace = []Capability{ListScalingPolicies, ReadScalingPolicy, ReadJobScaling, ScaleJob}
	writeNamespace = slices.Concat(readNamespace, scaleNamespace, []Capability{
		SubmitJob, DispatchJob, ReadLogs, ReadFS, AllocExec, AllocLifecycle, "csi-mount-volume", "csi-write-volume", "submit-recommendation",
		"host-volume-create", "host-volume-register", "host-volume-write", "host-volume-delete",
	})
)

// deny is what the policy deny stands for.
var deny = []Capability{Deny}

// areas are the kinds of rules by the name of their block.
var areas = map[string]areaRules{
	"namespace": {policies: map[string][]Capability{"deny": deny, "read": readNamespace, "write": writeNamespace, "scale": scaleNamespace}, finer: inNamespaces},
	"variables": {finer: []Capability{VariablesList, VariablesRead, VariablesWrite, VariablesDestroy}},
	"node_pool": {
		policies: map[string][]Capability{"deny": deny, "read": {NodePoolRead}, "write": {NodePoolRead, NodePoolWrite, NodePoolDelete}},
		finer:    []Capability{NodePoolRead, NodePoolWrite, NodePoolDelete},
	},
	"host_volume": {
		policies: map[string][]Capability{"deny": deny, "read": {"host_volume:mount-readonly"}, "write": {"host_volume:mount-readonly", "host_volume:mount-readwrite"}},
		finer:    []Capability{"host_volume:mount-readonly", "host_volume:mount-readwrite"},
	},
	"node":  {policies: map[string][]Capability{"deny": deny, "read": {NodeRead}, "write": {NodeRead, NodeWrite}}},
	"agent": {policies: map[string][]Capability{"deny": deny, "read": {AgentRead}, "write": {AgentRead, AgentWrite}}},
	"operator": {
		policies: map[string][]Capability{"deny": deny, "read": {OperatorRead}, "write": {OperatorRead, OperatorWrite}},
		finer:    []Capability{"operator:snapshot-save", "operator:keyring-read", "operator:keyring-rotate", "operator:keyring-delete", "operator:license-read"},
	},
	"quota":  {policies: map[string][]Capability{"deny": deny, "read": {QuotaRead}, "write": {QuotaRead, QuotaWrite}}},
	"plugin": {policies: map[string][]Capability{"deny": deny, "list": {PluginList}, "read": {PluginList, PluginRead}}},
}

// includes is what a capability grants besides itself.
var includes = map[Capability][]Capability{
	SubmitJob: {
		ParseJob, ScaleJob, ForcePeriodicJob, "register-job", "deregister-job", "purge-job", "revert-job", "evaluate-job", "plan-job",
		"tag-job-version", "stable-job", "fail-deployment", "pause-deployment", "promote-deployment", "unblock-deployment", "cancel-deployment",
		"set-alloc-health-deployment", "delete-service-registration",
	},
	DispatchJob:       {ForcePeriodicJob},
	ReadJob:           {ReadJobScaling, ReadServices},
	AllocLifecycle:    {"gc-allocation", "pause-allocation"},
	VariablesRead:     {VariablesList},
	"operator:read":   {"operator:license-read", "operator:keyring-read"},
	"operator:write":  {"operator:snapshot-save", "operator:keyring-rotate", "operator:keyring-delete"},
	"csi-read-volume": {"csi-list-volume"},

	"host-volume-write": {"host-volume-create", "host-volume-register", "host-volume-read", "host-volume-delete"},
}

// closure returns capabilities with those that they include, without Deny.
func closure(cs []Capability) []Capability {
	var out []Capability
	for _, c := range cs {
		if c != Deny {
			out = append(append(out, c), includes[c]...)
		}
	}
	return out
}

// Space says where the namespace of a request comes from, which decides whose
// policy is asked.
type Space string

// The sources of a namespace.
const (
	NoSpace         Space = "none"           // the operation is not about a namespace
	QuerySpace      Space = "query"          // the namespace parameter
	JobSpace        Space = "job in body"    // the job's own, which must agree with the parameter if both are given
	VolumeSpace     Space = "volume in body" // likewise the volume's own
	AllocSpace      Space = "allocation"     // of the allocation that is named
	EvalSpace       Space = "evaluation"     // of the evaluation that is named
	DeploymentSpace Space = "deployment"     // of the deployment that is named
	PolicySpace     Space = "scaling policy" // of the job that the policy named is of
	NodeSpace       Space = "allocs there"   // of each allocation on the node, one by one
	EventSpace      Space = "each event"     // of each event, one by one; the namespace parameter chooses among them
	NamedSpace      Space = "named"          // the namespace, node pool or policy that is named, or each of a list, one by one
)
