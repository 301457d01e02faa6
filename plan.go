package berth

// Plan is what a scheduler wants changed, worked out on a snapshot that may be
// old by now. The planner commits what still fits.
type Plan struct {
	Eval          *Eval
	Job           *Job   // the version placed; nil when the job is gone
	SnapshotIndex uint64 // of the state that it was worked out on
	Place         []Placement
	Stop          []AllocStop
	Update        []AllocID // to carry over to Job in place
}

// Empty reports whether the plan changes no allocation.
func (p *Plan) Empty() bool {
	return len(p.Place) == 0 && len(p.Stop) == 0 && len(p.Update) == 0
}

// Placement puts one new allocation of the plan's job on a node.
type Placement struct {
	Group  int    // in Job.TaskGroups
	Index  uint32 // of the instance's name
	NodeID NodeID
	Grant
	Score    float32   // of the node
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
	ID         AllocID
	StopReason StopReason
	Text       string // the reason, with StopOther
	// Client is ClientLost when its node is gone; ClientUnknown when its node is
	// disconnected and is waited for: then the allocation is not stopped; else
	// ClientPending: as the agent says.
	Client       ClientStatus
	FollowupEval EvalID // with it: do not stop, only point to the evaluation that will replace it
}

// Description returns the reason as people read it.
func (s *AllocStop) Description() string {
	if s.StopReason == StopOther {
		return s.Text
	}
	return s.StopReason.String()
}

// Refusal is why a placement of a plan was not committed.
type Refusal struct {
	Placement int // in Plan.Place
	NodeID    NodeID
	Kind      RefusalKind
	Reason    string // for people
}

// RefusalKind says what a placement was refused for.
type RefusalKind string

// The kinds of refusal: the node, the instance, what the node has too little of,
// or the quota.
const (
	RefusedNode     RefusalKind = "node"
	RefusedInstance RefusalKind = "instance"
	RefusedCPU      RefusalKind = "cpu"
	RefusedMemory   RefusalKind = "memory"
	RefusedDisk     RefusalKind = "disk"
	RefusedAllocs   RefusalKind = "allocations"
	RefusedPort     RefusalKind = "port"
	RefusedDynamic  RefusalKind = "dynamic ports"
	RefusedCores    RefusalKind = "cores"
	RefusedDevices  RefusalKind = "devices"
	RefusedQuota    RefusalKind = "quota"
)

// Refuse returns the refusal of a kind, nil if reason is "".
func Refuse(k RefusalKind, reason string) *Refusal {
	if reason == "" {
		return nil
	}
	return &Refusal{Kind: k, Reason: reason}
}
