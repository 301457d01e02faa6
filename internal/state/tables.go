package state

import (
	"berth"
	"berth/internal/cow"
	"berth/internal/fit"
)

// A Snapshot is the whole state at one index. It never changes; reading it
// needs no lock. Values it returns must not be changed either.
type Snapshot struct {
	Index     uint64 // of the last command applied
	Term      uint64 // of the last leader that began
	TermIndex uint64 // where that term began
	// Restored is the index at which the state was replaced as a whole by one
	// that was saved before, 0 if it never was. Rows keep the indexes that they
	// had when they were saved, so whoever saw a row at an index up to this one
	// may have seen another.
	Restored uint64
	// Cluster names those who agree on this state, for ever. It is zero until
	// the first term that says it, as logs of older builds may not.
	Cluster ClusterID
	// LogVersion is the log version that all servers know which agree on this
	// state: the greatest that a command on the way here needed. It is no part of
	// what is compared.
	LogVersion int

	namespaces   namespaceTable
	nodes        nodeTable
	jobs         jobTable
	evals        evalTable
	allocs       allocTable
	deployments  deploymentTable
	reschedules  rescheduleTable
	explanations explanationTable
	scheduler    *berth.SchedulerConfig // nil: never set
	pools        poolTable
	services     serviceTable
	deletions    deletionTable
	streams      streamTable
	resources    resourceTable
	streamIDs    uint64 // the last that was given to a stream job
	traces       traces

	check     *Check                 // the last one on the way here; no part of the state
	autopilot *berth.AutopilotConfig // nil: never set
	limit     *versionLimit          // nil: never set
}

// LastChange returns the index at which a row of the table was last changed,
// at least 1.
func (s *Snapshot) LastChange(t Table) uint64 {
	var i uint64
	switch t {
	case Namespaces:
		i = s.namespaces.changed
	case Nodes:
		i = s.nodes.changed
	case Jobs:
		i = s.jobs.changed
	case Evals:
		i = s.evals.changed
	case Allocs:
		i = s.allocs.changed
	case Deployments:
		i = s.deployments.changed
	case Summaries:
		i = s.jobs.summaryChanged
	case SchedulerConfigs:
		i = s.SchedulerConfig().ModifyIndex
	case NodePools:
		i = s.pools.changed
	case Services:
		i = s.services.changed
	case Streams:
		i = s.streams.changed
	case Resources:
		i = s.resources.changed
	}
	return max(i, 1)
}

// Count returns the number of rows of the table.
func (s *Snapshot) Count(t Table) int {
	switch t {
	case Namespaces:
		return s.namespaces.count
	case Nodes:
		return s.nodes.count
	case Jobs, Summaries:
		return s.jobs.count
	case Evals:
		return s.evals.count
	case Allocs:
		return s.allocs.count
	case Deployments:
		return s.deployments.count
	case SchedulerConfigs:
		return 1
	case NodePools:
		return s.pools.count
	case Services:
		return s.services.count
	case Streams:
		return s.streams.count
	case Resources:
		return s.resources.count
	}
	return 0
}

// Check returns the last check among the commands that led to this state since
// the server loaded it, nil if there was none. It is no part of the state: it
// is neither saved nor hashed.
func (s *Snapshot) Check() *Check { return s.check }

// SchedulerConfig returns how operators want the cluster scheduled; of one
// that never was set the indexes are 0. It must not be changed.
func (s *Snapshot) SchedulerConfig() *berth.SchedulerConfig {
	if s.scheduler == nil {
		return &berth.DefaultSchedulerConfig
	}
	return s.scheduler
}

// TrackedVersions returns how many versions of each job are kept that have no
// tag, the newest included. A job that has more loses the oldest of them with
// its next version. No job has more than most.
func (s *Snapshot) TrackedVersions() (kept, most int) {
	if s.limit == nil {
		return TrackedVersions, TrackedVersions
	}
	return s.limit.Kept, s.limit.Most
}

// rows holds the rows of one table in slots. Indexes point to slots, so to
// change a row touches one block however many indexes there are. A slot is
// used again after its row is gone; nothing but this server's memory knows of
// slots.
type rows[T any] struct {
	vec     cow.Vec[*T]
	free    *freeSlot
	next    uint32 // slots from here on were never used
	count   int
	changed uint64 // index of the last change of any row
}

// freeSlot is a list of slots to use again.
type freeSlot struct {
	slot uint32
	rest *freeSlot
}

type namespaceTable struct {
	rows[berth.Namespace]
	byName cow.Tree[string]
}

// nodeTable holds nodes by number: a node's slot is its number, which the log
// uses, so the smallest free one is given out on every server alike.
type nodeTable struct {
	rows    cow.Vec[*berth.Node]
	byID    cow.Tree[uint64] // first half of the ID → number
	gaps    cow.Tree[uint32] // runs of numbers that no node has: the first, and how many follow it
	numbers uint32           // numbers from here on were never used
	count   int
	changed uint64
	usage   cow.Vec[fit.Usage]
	classes classTable
	drains  cow.Tree[uint32] // numbers of nodes that are drained
}

// classTable numbers the classes that nodes have now.
type classTable struct {
	rows[class]
	byHash cow.Tree[uint64]
}

// class is what nodes have in common that answer equally to every constraint
// which does not look at what is unique to a node.
type class struct {
	name  string
	nodes int
	some  uint32 // the number of one node of the class, as last seen
}

type poolTable struct {
	rows[berth.NodePool]
	byName cow.Tree[string]
}

// jobTable holds the newest version of each job, its earlier versions, and
// what is counted of its allocations and evaluations.
type jobTable struct {
	rows[berth.Job]
	byKey cow.Tree[string]
	// perNode holds, as byKey does, those jobs that run on every node.
	perNode cow.Tree[string]
	kin     relations

	versions       rows[berth.Job]
	byVersion      cow.Tree[string]
	submitted      rows[Submission]
	bySubmit       cow.Tree[string]
	summaries      cow.Vec[*Summary] // by the slot of the job
	scaled         cow.Tree[string]  // as byKey, those that are not stopped and have a scaling policy
	scalings       cow.Vec[*ScalingEvents]
	summaryChanged uint64
}

// A periodic or parameterized job runs nothing itself: it begets children that
// do. What it is to them stands here.

// relations finds parents and children, by slot.
type relations struct {
	children cow.Tree[uint64] // by hash of the parent's key
	tokens   cow.Tree[uint64] // children with an idempotency token, by hash of it and of the parent's key
	periodic cow.Tree[uint64] // periodic jobs, by the index at which they or their launches last changed
}

type evalTable struct {
	rows[berth.Eval]
	byID   cow.Tree[uint64] // first half of the ID
	byTime cow.Tree[uint64] // CreateIndex
	byJob  cow.Tree[uint64] // hash of the job's key

	// Those that are open stand in one of these, by hash of the job's key.
	pending cow.Tree[uint64]
	blocked cow.Tree[uint64]
}

// allocTable holds the allocations: there can be millions, so an index is a
// word and a slot per row.
type allocTable struct {
	rows[berth.Alloc]
	byID   cow.Tree[uint64] // first half of the ID
	byTime cow.Tree[uint64] // CreateIndex
	byNode cow.Tree[uint64] // first half of the node's ID
	byJob  cow.Tree[uint64] // hash of the job's key
	byEval cow.Tree[uint64] // first half of the evaluation's ID
}

type deploymentTable struct {
	rows[berth.Deployment]
	byID   cow.Tree[uint64] // first half of the ID
	byJob  cow.Tree[uint64] // hash of the job's key
	active cow.Tree[uint64] // ModifyIndex of those that go on
}

// A job owns its allocations: each points to the incarnation it is of. What is
// deleted in the background is removed at once, and an evaluation stops what it
// leaves. What is deleted in the foreground gets a mark, which stands in a table
// of its own, so that jobs which nobody deletes pay nothing for it. Nothing else
// is stored: what keeps a marked job is counted from its allocations.

// deletionTable holds the marks.
type deletionTable struct {
	rows[JobDeletion]
	byKey cow.Tree[string]
}

// explanationTable keeps why the allocations of an evaluation are where they
// are, one row for all of them.
type explanationTable struct {
	rows[Explanation]
	byEval cow.Tree[uint64]
}

// rescheduleTable remembers the replacements of failed allocations by what
// they are replacements of: an instance of a group of one incarnation of a
// job. A record is not copied from allocation to allocation, so none is lost
// or counted twice.
type rescheduleTable struct {
	rows[Reschedules]
	byName cow.Tree[string]
}

// resourceTable holds what stream jobs own.
type resourceTable struct {
	rows[berth.Object]
	byUID   cow.Tree[uint64] // index of the UID
	byOwner cow.Tree[string] // owner, kind and name; what has no owner by UID
	held    cow.Tree[uint64] // first half of a node's ID: the exclusive pool that has it
	given   cow.Tree[uint64] // the same: the pools that were given it and let others in
}

// serviceTable holds the instances of services. Those of an allocation that
// has ended, or of a node that is down, are not there: the command that ends
// them takes them out.
type serviceTable struct {
	rows[berth.ServiceRegistration]
	byID    cow.Tree[string]
	byName  cow.Tree[string] // see serviceKey
	byNode  cow.Tree[uint64] // first half of the node's ID
	byAlloc cow.Tree[uint64] // first half of the allocation's ID
}

// A stream job has a row beside its own that tells how far its submission has
// come, one for each incarnation. It is there as long as the job, and longer if
// the job was deleted in the background: until the last of what the job owned
// is gone. So whose job is gone is known from the tables alone. Jobs of other
// types have no such row.

// streamTable holds the submissions of stream jobs.
type streamTable struct {
	rows[berth.StreamJob]
	byUID cow.Tree[uint64] // index of the UID

	// touched orders the rows by when something happened that can matter to
	// them, at is that of each. It is known to this server alone.
	touched cow.Tree[uint64]
	at      cow.Vec[uint64]
}

// traces say when something last happened to the stream jobs of a name, and when
// the routes of a namespace may last have changed. Rows tell that of themselves
// while they are there; what goes leaves nothing but the index of its table,
// which others raise as well.
//
// They are this server's alone. Names share places, so that there is an end to
// them, and a server that begins with a saved state knows no more than that
// nothing in it is newer: what is told may be later than it was, never earlier.
type traces struct {
	at    cow.Vec[uint64]
	since uint64 // nothing is told to be older
}

// tracePlaces is how many places there are: so few names meet in one that it
// does not matter, and 32 KiB is what all of them take.
const tracePlaces = 1 << 12
