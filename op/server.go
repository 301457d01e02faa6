package op

import (
	"time"

	"berth"
	"berth/internal/acl"
)

// Safe answers ReadIndex: the Raft index that a server's state must have
// reached to contain every write acknowledged before the call.
type Safe struct{ Index uint64 }

// BootstrapStatus is what servers ask each other before there is a cluster.
type BootstrapStatus struct {
	ID           string
	Bootstrapped bool     // it has a log, so there is or was a cluster
	Founders     []string // IDs of the servers that it would bootstrap with, in order; empty if it sees too few, or there was a leader before
	Peers        []string // IDs in its newest Raft configuration, in order
}

// LogPosition is the end of a server's log.
type LogPosition struct {
	LastContact         time.Duration // since it last heard from the leader; at least an hour if it knows no leader
	LastTerm, LastIndex uint64
}

// Ballot is what a server tells the others about its state, so that they can
// find out together which server's state is wrong.
type Ballot struct {
	Server   string        // ID
	Hashes   []CheckedHash // of its state at the newest checks, oldest first
	Applied  uint64        // the last entry of the Raft log that it applied since its start, or skipped as void
	Disputed uint64        // the entry that it cannot apply; 0 if none
	Void     []uint64      // entries that a majority could not apply, the newest
}

// CheckedHash is the hash of a state at the index of a check.
type CheckedHash struct{ Index, Hash uint64 }

// NodeID names a node.
type NodeID struct{ NodeID berth.NodeID }

// Connected reports whether the agent of a node has a session with the server
// that is asked.
type Connected struct{ Connected bool }

// Relay is a call to a node's agent through the server that has a session with
// it.
type Relay struct {
	NodeID berth.NodeID
	Method string // the RPC name of an operation that agents serve
	Arg    []byte // its input in wire format
}

// Relayed is the agent's answer in wire format.
type Relayed struct{ Answer []byte }

// DequeueEvals asks for evaluations to process. As a blocking query it waits
// until there are some.
type DequeueEvals struct {
	Query
	Schedulers []string // the types that the worker can process
	Most       int      // how many evaluations at most
	// Life identifies one run of a server's workers. Evaluations handed to
	// an earlier life are free again, even if that answer arrived.
	Life uint64
}

// DequeuedEvals answers DequeueEvals. A worker must process them on a state at
// Index or later.
type DequeuedEvals struct {
	Term  uint64
	Index uint64
	Evals []DequeuedEval
}

// DequeuedEval is an evaluation that was handed out; its row is in the state.
type DequeuedEval struct {
	EvalID             berth.EvalID
	Token              berth.Token // proves that the worker still holds it
	Enqueued, Dequeued int64       // ns since 1970, by the leader's clock
	Count              int         // how often it was handed out, including this time
}

// SettleEval ends the work on an evaluation: it is done, or with EvalNack it
// must be handed out again.
type SettleEval struct {
	Term   uint64
	EvalID berth.EvalID
	Token  berth.Token
	// Unread says that no worker has looked at the evaluation, so that it is
	// handed out again at once and the delivery does not count.
	Unread bool `msgpack:",omitempty"`
}

// SubmitPlan submits a plan, encoded like state.ApplyPlan.
type SubmitPlan struct {
	SettleEval
	Plan []byte
}

// PlanSubmitted is the committed result of a plan. The same evaluation must
// next be processed on a state at Index or later.
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
	ExchangeBallots = define[Ballot, Ballot]("status.ballot", "", "Status.Ballot", acl.Server, acl.NoSpace, servers)

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
	AgentChecks      = define[AllocRef, Checks]("agent.checks", "", "Allocations.Checks", acl.Server, acl.NoSpace, agents)
	AgentRestartTask = define[RestartAlloc, Nothing]("agent.restart_task", "", "Allocations.Restart", acl.Server, acl.NoSpace, agents, write)
	AgentSignalTask  = define[SignalAlloc, Nothing]("agent.signal_task", "", "Allocations.Signal", acl.Server, acl.NoSpace, agents, write)
	AgentLogs        = define[LogsQuery, StreamFrame]("agent.logs", "", "FileSystem.Logs", acl.Server, acl.NoSpace, agents)
)
