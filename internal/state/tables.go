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
	// Restored is the index at which the state was replaced by a saved
	// snapshot, 0 if it never was. Rows keep the indexes from before they were
	// saved, so a row that somebody saw at an index up to this one may have
	// been different.
	Restored uint64
	// Cluster identifies the cluster and never changes. It is zero until the
	// first term that sets it; older builds did not.
	Cluster ClusterID
	// LogVersion is the highest log version that any command so far needed, so
	// all servers that share this state know it. It is excluded from
	// comparisons.
	LogVersion int

	namespaces   namespaceTable
	nodes        nodeTable
	jobs         jobTable
	evals        evalTable
	allocs       allocTable
	deployments  deploymentTable
	reschedules  rescheduleTable
	explanations explanationTable
	scheduler    *berth.SchedulerConfig // nil if never set
	pools        poolTable
	acl          aclTable
	services     serviceTable
	deletions    deletionTable
	streams      streamTable
	resources    resourceTable
	rootKeys     rootKeyTable
	variables    variableTable
	quotas       quotaTable
	hostVolumes  hostVolumeTable
	csi          csiTable
	streamIDs    uint64 // the last one given to a stream job
	traces       traces

	check     *Check                 // the last one applied; not part of the state
	autopilot *berth.AutopilotConfig // nil if never set
	limit     *versionLimit          // nil if never set
}

// LastChange returns the index at which a row of the table was last changed; 0 if
// the table never had one.
func (s *Snapshot) LastChange(t Table) uint64 {
	switch t {
	case Namespaces:
		return s.namespaces.changed
	case Nodes:
		return s.nodes.changed
	case Jobs:
		return s.jobs.changed
	case Evals:
		return s.evals.changed
	case Allocs:
		return s.allocs.changed
	case Deployments:
		return s.deployments.changed
	case Summaries:
		return s.jobs.summaryChanged
	case SchedulerConfigs:
		return s.SchedulerConfig().ModifyIndex
	case NodePools:
		return s.pools.changed
	case Services:
		return s.services.changed
	case Streams:
		return s.streams.changed
	case Resources:
		return s.resources.changed
	case RootKeys:
		return s.rootKeys.changed
	case Variables:
		return s.variables.changed
	case ACLTokens:
		return s.acl.tokens.changed
	case ACLPolicies:
		return s.acl.policies.changed
	case ACLRoles:
		return s.acl.roles.changed
	case ACLAuthMethods:
		return s.acl.methods.changed
	case ACLBindingRules:
		return s.acl.rules.changed
	case ACLOneTimeTokens:
		return s.acl.oneTime.changed
	case Quotas:
		return s.quotas.changed
	case QuotaUsages:
		return s.quotas.counted
	case HostVolumes:
		return s.hostVolumes.changed
	case HostVolumeClaims:
		return s.hostVolumes.claims.changed
	case CSIVolumes:
		return s.csi.changed
	case CSIClaims:
		return s.csi.claims.changed
	case CSIPlugins:
		return s.csi.plugins.changed
	}
	return 0
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
	case RootKeys:
		return s.rootKeys.count
	case Variables:
		return s.variables.count
	case ACLTokens:
		return s.acl.tokens.count
	case ACLPolicies:
		return s.acl.policies.count
	case ACLRoles:
		return s.acl.roles.count
	case ACLAuthMethods:
		return s.acl.methods.count
	case ACLBindingRules:
		return s.acl.rules.count
	case ACLOneTimeTokens:
		return s.acl.oneTime.count
	case Quotas, QuotaUsages:
		return s.quotas.count
	case HostVolumes:
		return s.hostVolumes.count
	case HostVolumeClaims:
		return s.hostVolumes.claims.count
	case CSIVolumes:
		return s.csi.count
	case CSIClaims:
		return s.csi.claims.count
	case CSIPlugins:
		return s.csi.plugins.count
	}
	return 0
}

// Check returns the last check that was applied since the server loaded the
// state, or nil. It is not part of the state: it is neither saved nor hashed.
func (s *Snapshot) Check() *Check { return s.check }

// SchedulerConfig returns the scheduler configuration, which must not be
// changed. Its indexes are 0 if it was never set.
func (s *Snapshot) SchedulerConfig() *berth.SchedulerConfig {
	if s.scheduler == nil {
		return &berth.DefaultSchedulerConfig
	}
	return s.scheduler
}

// TrackedVersions returns how many untagged versions of each job are kept,
// including the newest. A job that has more loses the oldest with its next
// version, but not the newest stable one before its newest. No job has more than
// most.
func (s *Snapshot) TrackedVersions() (kept, most int) {
	if s.limit == nil {
		return TrackedVersions, TrackedVersions
	}
	return s.limit.Kept, s.limit.Most
}

// rows holds the rows of one table in slots. Indexes refer to slots, so
// changing a row touches one block however many indexes there are. Slots are
// reused, and only this server's memory knows of them.
type rows[T any] struct {
	vec     cow.Vec[*T]
	free    *freeSlot
	next    uint32 // slots from here on were never used
	count   int
	changed uint64 // index of the last change of any row
}

// freeSlot is a list of slots to reuse.
type freeSlot struct {
	slot uint32
	rest *freeSlot // nil at the end
}

// namespaceTable holds the namespaces.
type namespaceTable struct {
	rows[berth.Namespace]
	byName cow.Tree[string]
}

// nodeTable holds nodes by number. A node's slot is its number, which the log
// uses, so all servers must give out the same one: the smallest free number.
type nodeTable struct {
	rows    cow.Vec[*berth.Node]
	byID    cow.Tree[uint64] // first half of the ID → number
	gaps    cow.Tree[uint32] // runs of free numbers: the first one, and how many follow it
	numbers uint32           // numbers from here on were never used
	count   int
	changed uint64
	usage   cow.Vec[fit.Usage]
	classes classTable
	drains  cow.Tree[uint32] // numbers of nodes that are being drained
}

// classTable numbers the existing node classes.
type classTable struct {
	rows[class]
	byHash cow.Tree[uint64] // hash of the class's name
}

// class is what nodes have in common if they answer alike to every constraint
// that does not look at unique attributes.
type class struct {
	name  string
	nodes int
	some  uint32 // the number of a node of the class, as last seen
}

// poolTable holds the node pools.
type poolTable struct {
	rows[berth.NodePool]
	byName cow.Tree[string]
}

// jobTable holds the newest version of each job, its earlier versions, and the
// counts of its allocations and evaluations.
type jobTable struct {
	rows[berth.Job]
	byKey cow.Tree[string] // jobKey
	// perNode is like byKey, for jobs that run on every node.
	perNode cow.Tree[string]
	kin     relations

	versions       rows[berth.Job]  // all that are kept, the newest too
	byVersion      cow.Tree[string] // versionKey
	submitted      rows[Submission]
	bySubmit       cow.Tree[string]        // versionKey
	summaries      cow.Vec[*Summary]       // by the slot of the job
	scaled         cow.Tree[string]        // like byKey, for those that are not stopped and have a scaling policy
	scalings       cow.Vec[*ScalingEvents] // by the slot of the job, nil if there are none
	summaryChanged uint64                  // index of the last change of a summary
}

// A periodic or parameterized job runs nothing itself: it has children that do.

// relations finds parents and children, by slot.
type relations struct {
	children cow.Tree[uint64] // by hash of the parent's key
	tokens   cow.Tree[uint64] // children with an idempotency token, by hash of it and of the parent's key
	periodic cow.Tree[uint64] // periodic jobs, by the index at which they or their launches last changed
}

// evalTable holds the evaluations.
type evalTable struct {
	rows[berth.Eval]
	byID   cow.Tree[uint64] // first half of the ID
	byTime cow.Tree[uint64] // CreateIndex
	byJob  cow.Tree[uint64] // hash of the job's key

	// Open ones are in one of these, by hash of the job's key.
	pending cow.Tree[uint64]
	blocked cow.Tree[uint64]
}

// allocTable holds the allocations. There can be millions, so each index takes
// a word and a slot per row.
type allocTable struct {
	rows[berth.Alloc]
	byID   cow.Tree[uint64] // first half of the ID
	byTime cow.Tree[uint64] // CreateIndex
	byNode cow.Tree[uint64] // first half of the node's ID
	byJob  cow.Tree[uint64] // hash of the job's key
	byEval cow.Tree[uint64] // first half of the evaluation's ID
}

// deploymentTable holds the deployments.
type deploymentTable struct {
	rows[berth.Deployment]
	byID   cow.Tree[uint64] // first half of the ID
	byJob  cow.Tree[uint64] // hash of the job's key
	active cow.Tree[uint64] // ModifyIndex of active ones
}

// A job owns its allocations: each refers to its incarnation. Deleting in the
// background removes the job at once, and an evaluation stops what it leaves.
// Deleting in the foreground adds a mark, in a table of its own, so that other
// jobs pay nothing for it. Nothing else is stored: what holds a marked job is
// counted from its allocations.

// deletionTable holds the marks.
type deletionTable struct {
	rows[JobDeletion]
	byKey cow.Tree[string] // jobKey
}

// explanationTable holds the reasons for placements, one row for all
// allocations of an evaluation.
type explanationTable struct {
	rows[Explanation]
	byEval cow.Tree[uint64] // first half of the ID
}

// rescheduleTable records the replacements of failed allocations by instance: a
// name within a group of one incarnation of a job. A record is not copied from
// allocation to allocation, so none is lost or counted twice.
type rescheduleTable struct {
	rows[Reschedules]
	byName cow.Tree[string] // rescheduleKey
}

// resourceTable holds what stream jobs own.
type resourceTable struct {
	rows[berth.Object]
	byUID   cow.Tree[uint64] // index of the UID
	byOwner cow.Tree[string] // owner, kind and name; orphans by UID
	held    cow.Tree[uint64] // first half of a node's ID: the exclusive pool that has it
	given   cow.Tree[uint64] // likewise: the shared pools that were given it
}

// rootKeyTable holds the keyring: a few keys.
type rootKeyTable struct {
	rows[berth.RootKey]
	byTime cow.Tree[uint64] // CreateIndex; no two keys share it
}

// variableTable holds the variables, encrypted.
type variableTable struct {
	rows[berth.SealedVariable]
	byPath cow.Tree[string] // variableKey
	byKey  cow.Tree[uint64] // first half of the ID of the root key
	locked cow.Tree[uint64] // those with a lock, by hash of the key
}

// serviceTable holds the instances of services. It has none of allocations that
// have ended or of nodes that are down: the command that ends them removes
// their services.
type serviceTable struct {
	rows[berth.ServiceRegistration]
	byID    cow.Tree[string]
	byName  cow.Tree[string] // see serviceKey
	byNode  cow.Tree[uint64] // first half of the node's ID
	byAlloc cow.Tree[uint64] // first half of the allocation's ID
}

// A stream job has a second row with the progress of its submission, one for
// each incarnation. The row exists as long as the job, and longer if the job
// was deleted in the background: until the last resource of the job is gone. So
// the tables alone show which resources have lost their job. Jobs of other
// types have no such row.

// streamTable holds the submissions of stream jobs.
type streamTable struct {
	rows[berth.StreamJob]
	byUID cow.Tree[uint64] // index of the UID

	// touched orders the rows by the last change that can matter to them; at
	// has that index for each. Only this server knows it.
	touched cow.Tree[uint64]
	at      cow.Vec[uint64]
}

// traces record when the stream jobs of a name last changed, and when the
// routes of a namespace may last have changed. Existing rows tell that
// themselves; removed ones leave only the index of their table, which others
// raise as well.
//
// Traces are local to this server. Names share places, so that memory is
// bounded, and a server that starts from a saved state only knows that nothing
// in it is newer. So a trace may be later than the change, never earlier.
type traces struct {
	at    cow.Vec[uint64]
	since uint64 // no trace is older
}

// tracePlaces is the number of places: enough that few names share one, and
// they take only 32 KiB.
const tracePlaces = 1 << 12
