package berth

// Plan is what a scheduler wants changed, worked out on a snapshot that may be
// old by now. The planner commits what still fits.
type Plan struct {
	Eval          *Eval
	Job           *Job // the version placed; nil when the job is gone
	SnapshotIndex uint64
	Place         []Placement
	Stop          []AllocStop
	Update        []AllocID // to carry over to Job in place
}

// Empty says that the plan changes no allocation.
func (p *Plan) Empty() bool {
	return len(p.Place) == 0 && len(p.Stop) == 0 && len(p.Update) == 0
}

// Placement puts one new allocation of the plan's job on a node.
type Placement struct {
	Group  int // in Job.TaskGroups
	Index  uint32
	NodeID NodeID
	Grant
	Score    float32
	Previous AllocID   // the allocation it replaces, if any
	Resched  bool      // it counts as a reschedule of Previous
	Before   bool      // it is of the version of Previous, not of the newest
	Canary   bool      // it is placed beside what has its name, until its deployment is promoted
	Evict    []AllocID // less urgent allocations of the node that make room for it
}

// Grant is what an allocation was given of the things on its node that are
// counted by name. Its share of processor time, memory and disk follows from
// its group.
type Grant struct {
	Ports   []uint16      // dynamic ports, in the order of the group's labels
	Cores   []uint16      // whole cores, in the order of the group's tasks
	Devices []DeviceGrant // in the order of the group's tasks and of what each requests
}

// DeviceGrant is the devices that one request of one task was given.
type DeviceGrant struct {
	Task               string
	Vendor, Type, Name string // of the group of equal devices on the node
	IDs                []string
}

// AllocStop stops an allocation, or notes what became of it.
type AllocStop struct {
	ID          AllocID
	Description string
	// Client is ClientLost when its node is gone; ClientUnknown when it is not
	// heard and waited for: then it is not stopped; else ClientPending: as the
	// agent says.
	Client       ClientStatus
	FollowupEval EvalID // with it: do not stop, only point to the evaluation that will replace it
}

// Why an allocation stops, as its DesiredDescription says it.
const (
	StopSurplus   = "the job wants fewer instances of the group"
	StopReplaced  = "replaced: its tasks changed with the job"
	StopUnfit     = "replaced: its node no longer meets the job's conditions"
	StopNodeLost  = "its node is down"
	StopFailed    = "replaced: it failed"
	StopGroupGone = "the job no longer has the group"
	StopNotMet    = "its node no longer meets the job's conditions"
	StopJobEnded  = "the job was stopped"
	StopOldJob    = "it belongs to an earlier job of the same name"
	StopMigrated  = "migrated: its node is drained"
	StopWanted    = "a user stopped it, to be placed anew"
	StopAway      = "its node was not heard for too long"
	StopRejoined  = "another one of its name was kept when its client reconnected"
	StopCanary    = "a canary of a deployment that did not promote it"
	StopOrphan    = "a user stopped it; it has no job that would replace it"
	StopForced    = "its job was deleted by force, and its end not waited for"
	StopDone      = "the batch instance of its name has finished"
	StopPEGone    = "its processing element is gone"
	StopPELaunch  = "its processing element was launched anew"
)

// What becomes of an allocation that does not stop, as its ClientDescription
// says it.
const (
	UnknownAway = "its node is disconnected"
)

// Refusal says why a placement of a plan was not committed.
type Refusal struct {
	Placement int // in Plan.Place
	NodeID    NodeID
	Reason    string
}
