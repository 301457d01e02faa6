// Package acl answers one question: may this token do that? Every operation
// names the capability it needs and where its namespace comes from (package
// op); here stands what the capabilities are. Tokens and policies are not
// built yet, and an agent configured to use them refuses to start, so for now
// anyone who reaches the API may do all that it offers.
package acl

// Capability is the right to do one kind of thing, in the words of Nomad's
// access control policies.
type Capability string

// The capabilities that operations need.
const (
	Open      Capability = "open"       // anybody, without a token
	Node      Capability = "node"       // a node's agent, by the node's secret
	Server    Capability = "server"     // another server, by its certificate or the key that servers share
	ListJobs  Capability = "list-jobs"  // in a namespace
	ParseJob  Capability = "parse-job"  // in a namespace
	ReadJob   Capability = "read-job"   // in a namespace
	SubmitJob Capability = "submit-job" // in a namespace
	ReadLogs  Capability = "read-logs"  // in a namespace
	ScaleJob  Capability = "scale-job"  // in a namespace

	ReadJobScaling      Capability = "read-job-scaling"      // in a namespace
	ListScalingPolicies Capability = "list-scaling-policies" // in a namespace
	ReadScalingPolicy   Capability = "read-scaling-policy"   // in a namespace
	AllocLifecycle      Capability = "alloc-lifecycle"       // in a namespace
	DispatchJob         Capability = "dispatch-job"          // in a namespace
	ForcePeriodicJob    Capability = "force-periodic-job"    // in a namespace

	NodeRead       Capability = "node:read"
	NodeWrite      Capability = "node:write"
	NodePoolRead   Capability = "node_pool:read"
	NodePoolWrite  Capability = "node_pool:write"
	NodePoolDelete Capability = "node_pool:delete"
	AgentRead      Capability = "agent:read"
	AgentWrite     Capability = "agent:write"
	OperatorRead   Capability = "operator:read"
	OperatorWrite  Capability = "operator:write"
	Management     Capability = "management"
)

// Namespaced reports whether the capability is granted per namespace.
func (c Capability) Namespaced() bool {
	switch c {
	case ListJobs, ParseJob, ReadJob, SubmitJob, ReadLogs, ScaleJob, ReadJobScaling, ListScalingPolicies, ReadScalingPolicy, AllocLifecycle, DispatchJob, ForcePeriodicJob:
		return true
	}
	return false
}

// Known reports whether the capability is one of those above.
func (c Capability) Known() bool {
	switch c {
	case Open, Node, Server, NodeRead, NodeWrite, NodePoolRead, NodePoolWrite, NodePoolDelete, AgentRead, AgentWrite, OperatorRead, OperatorWrite, Management:
		return true
	}
	return c.Namespaced()
}

// Space says where the namespace of a request comes from, which decides whose
// policy is asked.
type Space string

// The sources of a namespace.
const (
	NoSpace         Space = "none"           // the operation is not about a namespace
	QuerySpace      Space = "query"          // the namespace parameter
	JobSpace        Space = "job in body"    // the job's own, which must agree with the parameter if both are given
	AllocSpace      Space = "allocation"     // of the allocation that is named
	EvalSpace       Space = "evaluation"     // of the evaluation that is named
	DeploymentSpace Space = "deployment"     // of the deployment that is named
	PolicySpace     Space = "scaling policy" // of the job that the policy named is of
	NodeSpace       Space = "allocs there"   // of each allocation on the node, one by one
	EventSpace      Space = "each event"     // of each event, one by one; the namespace parameter chooses among them
)
