package op

import (
	"time"

	"berth"
	"berth/internal/acl"
)

// Safe is the answer to ReadIndex: the Raft index up to which a server's state
// must have come to hold all that was answered before the question.
type Safe struct{ Index uint64 }

// BootstrapStatus is what a server tells of itself before there is a cluster.
type BootstrapStatus struct {
	ID           string
	Bootstrapped bool     // it has a log: there is a cluster, or there was one
	Founders     []string // IDs of the servers that it would bootstrap with, in order; none if it sees too few, or there has been a leader
	Peers        []string // IDs in its newest Raft configuration, in order
}

// LogPosition is how far the log of a server is.
type LogPosition struct {
	LastContact         time.Duration // since it heard the leader; an hour at least if it knows none
	LastTerm, LastIndex uint64
}

// NodeID names a node.
type NodeID struct{ NodeID berth.NodeID }

// Connected reports whether the agent of a node has a session to the server
// that is asked.
type Connected struct{ Connected bool }

// Relay is a call of a node's agent by way of the server that it is connected
// to.
type Relay struct {
	NodeID berth.NodeID
	Method string // the RPC name of an operation that agents serve
	Arg    []byte // its input, as the wire has it
}

// Relayed is the answer of the agent, as the wire has it.
type Relayed struct{ Answer []byte }

// DequeueEvals asks for evaluations to decide. As a blocking query it waits for
// some.
type DequeueEvals struct {
	Query
	Schedulers []string // the types that the worker can decide
	Most       int
	// Life is one run of the workers of a server. Workers of another life hold
	// nothing of what was handed out before, whether the answers arrived or not.
	Life uint64
}

// DequeuedEvals is what a worker gets. It must not decide on a state before
// Index.
type DequeuedEvals struct {
	Term  uint64
	Index uint64
	Evals []DequeuedEval
}

// DequeuedEval is an evaluation that was handed out. Its row is in the state.
type DequeuedEval struct {
	EvalID             berth.EvalID
	Token              berth.Token
	Enqueued, Dequeued int64 // ns since 1970, by the leader's clock
	Count              int
}

// SettleEval says of an evaluation that its worker is done with it, or could
// not decide it.
type SettleEval struct {
	Term   uint64
	EvalID berth.EvalID
	Token  berth.Token
}

// SubmitPlan hands in a plan in the form in which state.ApplyPlan travels.
type SubmitPlan struct {
	SettleEval
	Plan []byte
}

// PlanSubmitted is what became of a plan, once that is safe. The next decision on
// the same evaluation must be made on a state that is not before Index.
type PlanSubmitted struct {
	Index   uint64
	Refused []berth.Refusal // placements that did not fit
	Kind    berth.Kind      // of the error that refused the plan as a whole, "" if none did
	Code    berth.Code      // of that error, "" if it has none
	Error   string
}

// The operations that servers call on each other.
var (
	ReadIndex       = define[Nothing, Safe]("raft.read_index", "", "Raft.ReadIndex", acl.Server, acl.NoSpace, servers)
	ReadBootstrap   = define[Nothing, BootstrapStatus]("status.bootstrapped", "", "Status.Bootstrapped", acl.Server, acl.NoSpace, servers)
	ReadLogPosition = define[Nothing, LogPosition]("status.raft_stats", "", "Status.RaftStats", acl.Server, acl.NoSpace, servers)

	NodeConnected = define[NodeID, Connected]("node.connected", "", "Node.Connected", acl.Server, acl.NoSpace, servers)
	RelayCall     = define[Relay, Relayed]("node.relay", "", "Node.Relay", acl.Server, acl.NoSpace, servers)
	RelayStream   = define[Relay, Nothing]("node.relay_stream", "", "Node.RelayStream", acl.Server, acl.NoSpace, servers, bytes)

	EvalDequeue = define[DequeueEvals, DequeuedEvals]("eval.dequeue", "", "Eval.Dequeue", acl.Server, acl.NoSpace, servers)
	EvalAck     = define[SettleEval, Nothing]("eval.ack", "", "Eval.Ack", acl.Server, acl.NoSpace, servers, write)
	EvalNack    = define[SettleEval, Nothing]("eval.nack", "", "Eval.Nack", acl.Server, acl.NoSpace, servers, write)
	PlanSubmit  = define[SubmitPlan, PlanSubmitted]("plan.submit", "", "Plan.Submit", acl.Server, acl.NoSpace, servers, write)
)

// The operations that servers call on agents.
var (
	AgentChecks      = define[AllocRef, Checks]("agent.checks", "", "ClientAllocations.Checks", acl.Server, acl.NoSpace, agents)
	AgentRestartTask = define[RestartAlloc, Nothing]("agent.restart_task", "", "ClientAllocations.Restart", acl.Server, acl.NoSpace, agents, write)
	AgentSignalTask  = define[SignalAlloc, Nothing]("agent.signal_task", "", "ClientAllocations.Signal", acl.Server, acl.NoSpace, agents, write)
	AgentLogs        = define[LogsQuery, StreamFrame]("agent.logs", "", "FileSystem.Logs", acl.Server, acl.NoSpace, agents)
)
