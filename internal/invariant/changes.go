package invariant

import (
	"fmt"
	"path"

	"berth"
	"berth/internal/state"
)

// Changed returns the violations by the changes of a commit, command by
// command. base is the state before the first of them. It sees the states
// between two snapshots, and which command made each change; the table in the
// package comment lists the rules. Its cost grows with the number of changes,
// not with the state.
func Changed(base *state.Snapshot, changes []state.Change) []Violation {
	f := &follower{
		base: base, jobs: map[berth.JobKey]*berth.Job{}, nodes: map[berth.NodeID]*berth.Node{}, evals: map[berth.EvalID]*berth.Eval{},
		allocs: map[berth.AllocID]*berth.Alloc{}, neededEvals: map[uint64]neededEval{}, placed: map[placed]bool{}, newAllocs: map[berth.JobKey]bool{}, preempted: map[preempted]bool{},
		past: map[berth.JobKey][]*berth.Job{}, succeeded: map[version]bool{}, grew: map[berth.JobKey]uint64{}, deleted: map[uint64]int{}, owners: map[uint64]*berth.Job{},
		resources: map[berth.UID]*berth.Object{}, intents: map[berth.JobKey]string{}, absent: map[berth.JobKey]uint64{},
	}
	for i := range changes {
		f.change(&changes[i])
	}
	f.leftAlone()
	f.missing()
	for index, w := range f.neededEvals {
		f.addf("I-02", "job %s changed at index %d without an evaluation", w.key, index)
	}
	f.deletions()
	for r := range f.preempted {
		f.addf("I-13", "an allocation of job %s was preempted at index %d without an evaluation", r.key, r.index)
	}
	return f.found
}

// follower walks through changes and keeps the rows as of the current change.
type follower struct {
	base        *state.Snapshot
	jobs        map[berth.JobKey]*berth.Job // nil if deleted meanwhile
	nodes       map[berth.NodeID]*berth.Node
	evals       map[berth.EvalID]*berth.Eval
	allocs      map[berth.AllocID]*berth.Alloc
	neededEvals map[uint64]neededEval // by index: the evaluation that its command must raise
	placed      map[placed]bool
	preempted   map[preempted]bool // preempted jobs whose evaluation is still missing
	// newAllocs are the jobs that got new allocations.
	newAllocs map[berth.JobKey]bool

	past      map[berth.JobKey][]*berth.Job // versions that the changes met
	succeeded map[version]bool              // versions with a successful deployment
	grew      map[berth.JobKey]uint64       // the index of the last new version
	deleted   map[uint64]int                // by index: number of rows that the command chose to delete
	dropped   []*berth.Deployment           // active deployments that were deleted
	owners    map[uint64]*berth.Job         // by index: jobs removed because they were deleted
	resources map[berth.UID]*berth.Object
	intents   map[berth.JobKey]string // why jobs are being deleted, "" if they are not
	absent    map[berth.JobKey]uint64 // jobs that must start again, and were deleted
	found     []Violation
}

// neededEval is the evaluation that a change of a job must create.
type neededEval struct {
	key berth.JobKey
	// modified is the JobModifyIndex that the evaluation must carry.
	modified uint64
}

// placed identifies a placement; no two may be equal.
type placed struct {
	index uint64
	eval  berth.EvalID
	name  string
	node  berth.NodeID // of a job that runs on every node
}

// addf adds a violation of the rule id.
func (f *follower) addf(id, format string, args ...any) {
	f.found = append(f.found, Violation{id, fmt.Sprintf(format, args...)})
}

// now returns the row k as it is after the changes seen so far: from rows if it
// changed, else from base. A deleted row is nil.
func now[K comparable, T any](rows map[K]*T, k K, base func(K) *T) *T {
	if r, ok := rows[k]; ok {
		return r
	}
	return base(k)
}

// job returns a job as it is now, or nil.
func (f *follower) job(k berth.JobKey) *berth.Job { return now(f.jobs, k, f.base.Job) }

// node returns a node as it is now, or nil.
func (f *follower) node(id berth.NodeID) *berth.Node { return now(f.nodes, id, f.base.Node) }

// eval returns an evaluation as it is now, or nil.
func (f *follower) eval(id berth.EvalID) *berth.Eval { return now(f.evals, id, f.base.Eval) }

// alloc returns an allocation as it is now, or nil.
func (f *follower) alloc(id berth.AllocID) *berth.Alloc {
	return now(f.allocs, id, f.base.Alloc)
}

// change checks one change of a row, by its table.
func (f *follower) change(c *state.Change) {
	switch c.Table {
	case state.Jobs:
		old, _ := c.Old.(*berth.Job)
		new, _ := c.New.(*berth.Job)
		f.changedJob(c, old, new)
	case state.Nodes:
		old, _ := c.Old.(*berth.Node)
		new, _ := c.New.(*berth.Node)
		f.changedNode(c, old, new)
	case state.Evals:
		old, _ := c.Old.(*berth.Eval)
		new, _ := c.New.(*berth.Eval)
		f.changedEval(c, old, new)
	case state.Deployments:
		old, _ := c.Old.(*berth.Deployment)
		new, _ := c.New.(*berth.Deployment)
		f.changedDeployment(c, old, new)
	case state.Summaries:
		old, _ := c.Old.(*state.Summary)
		new, _ := c.New.(*state.Summary)
		f.changedLaunch(c, old, new)
	case state.Resources:
		old, _ := c.Old.(*berth.Object)
		new, _ := c.New.(*berth.Object)
		f.changedResource(c, old, new)
	case state.Streams:
		old, _ := c.Old.(*berth.StreamJob)
		new, _ := c.New.(*berth.StreamJob)
		f.changedStream(c, old, new)
	case state.Allocs:
		old, _ := c.Old.(*berth.Alloc)
		new, _ := c.New.(*berth.Alloc)
		f.changedAlloc(c, old, new)
	}
}

var (
	// The commands that changes are told apart by.
	byRegister = state.NumberOf(&state.RegisterJob{})
	byStop     = state.NumberOf(&state.StopJob{})
	byRevert   = state.NumberOf(&state.RevertJob{})
	byScale    = state.NumberOf(&state.ScaleJob{})
	byPlan     = state.NumberOf(&state.ApplyPlan{})
	byFailing  = state.NumberOf(&state.FailEval{})
	byHand     = state.NumberOf(&state.SetJobStability{})
	byLaunch   = state.NumberOf(&state.LaunchPeriodic{})
	byFailed   = state.NumberOf(&state.FailDeployment{})
	byHealth   = state.NumberOf(&state.SetAllocHealth{})
	byDeletion = state.NumberOf(&state.DeleteRows{})
	byDelete   = state.NumberOf(&state.DeleteJob{})
	byReport   = state.NumberOf(&state.ReportAllocs{})
	byFinalize = state.NumberOf(&state.FinalizeDeletions{})
)

// changedJob checks a change of a job, and notes that the command owes an
// evaluation if the job needs one.
func (f *follower) changedJob(c *state.Change, old, new *berth.Job) {
	j := new
	if j == nil {
		j = old
	}
	f.jobs[j.Key()] = new
	// A job that runs nothing itself needs no evaluation.
	silent := j.Type == berth.TypeStream && c.By != byStop // its submission decides what to create
	if (c.By == byRegister || c.By == byStop || c.By == byRevert || c.By == byScale) && j.Schedulable() && !silent {
		f.neededEvals[c.Index] = neededEval{j.Key(), j.JobModifyIndex}
		for _, e := range f.evals {
			f.raised(e)
		}
	}
	// The deletion of an owner has rules of its own.
	if c.By == byDelete || c.By == byFinalize {
		f.ownerGoes(c, old, new)
	}
	if j.Type == berth.TypeStream {
		f.successor(c, old, new)
	}
	if new == nil {
		f.counted(c)
		return
	}
	f.changedVersion(c, old, new)
}

// raised records that a command raised an evaluation.
func (f *follower) raised(e *berth.Eval) {
	if e == nil {
		return
	}
	if w, ok := f.neededEvals[e.CreateIndex]; ok && w == (neededEval{e.Key(), e.JobModifyIndex}) {
		delete(f.neededEvals, e.CreateIndex)
	}
}

// changedEval checks that an evaluation takes only allowed steps between
// statuses.
func (f *follower) changedEval(c *state.Change, old, new *berth.Eval) {
	if new == nil {
		f.evals[old.ID] = nil
		f.deletedEval(c, old)
		return
	}
	f.evals[new.ID] = new
	if old == nil {
		f.newEval(new)
		return
	}
	switch {
	case old.Status == berth.EvalComplete || old.Status == berth.EvalCanceled:
		f.addf("I-01", "evaluation %s changed though it is %s", old.ID, old.Status)
	case old.Status != new.Status && !follows(old.Status, new.Status):
		f.addf("I-01", "evaluation %s went from %s to %s", old.ID, old.Status, new.Status)
	}
	if c.By == byFailing && new.Status == berth.EvalFailed {
		f.givenUp(new)
	}
}

// givenUp checks that an evaluation that could not be delivered has a follow-up
// if something is left to do, and otherwise none.
func (f *follower) givenUp(e *berth.Eval) {
	j := f.job(e.Key())
	wanted := j != nil && j.UID == e.JobUID && !j.Stop
	switch {
	case wanted && e.NextEval.IsZero():
		f.addf("I-07", "evaluation %s was given up and has no follow-up", e.ID)
	case !wanted && !e.NextEval.IsZero() && !f.left(e):
		f.addf("I-07", "evaluation %s has a follow-up, but nothing is left to do", e.ID)
	}
}

// left reports whether there are allocations that an evaluation of a stopped or
// deleted job can stop.
func (f *follower) left(e *berth.Eval) bool {
	for a := range f.base.AllocsOf(e.Key()) {
		if !a.Ended() {
			return true
		}
	}
	return f.newAllocs[e.Key()]
}

// follows reports whether an evaluation may change between two statuses.
func follows(from, to string) bool {
	switch from {
	case berth.EvalPending:
		return to == berth.EvalComplete || to == berth.EvalFailed || to == berth.EvalCanceled
	case berth.EvalBlocked:
		return to == berth.EvalPending || to == berth.EvalComplete || to == berth.EvalFailed || to == berth.EvalCanceled
	}
	return false
}

// newEval checks how an evaluation begins, and marks off what was waiting for
// it.
func (f *follower) newEval(e *berth.Eval) {
	f.raised(e)
	delete(f.preempted, preempted{e.Key(), e.CreateIndex})
	if e.Status != berth.EvalPending && e.Status != berth.EvalBlocked {
		f.addf("I-01", "evaluation %s was created with the status %s", e.ID, e.Status)
	}
	if descends(e) {
		if p := f.eval(e.PreviousEval); p == nil || p.ModifyIndex != e.CreateIndex {
			f.addf("I-11", "evaluation %s follows %s but was not created when that one ended", e.ID, e.PreviousEval)
		}
	}
}

// descends reports whether such an evaluation always follows another one, which
// points to it.
func descends(e *berth.Eval) bool {
	switch e.TriggeredBy {
	case berth.TriggerQueuedAllocs, berth.TriggerMaxPlanAttempts, berth.TriggerFailedFollowUp, berth.TriggerRollingUpdate:
		return true
	}
	return false
}

// changedAlloc checks that an allocation never goes back: what must stop or has
// ended does not run again.
func (f *follower) changedAlloc(c *state.Change, old, new *berth.Alloc) {
	if new == nil {
		f.allocs[old.ID] = nil
	} else {
		f.allocs[new.ID] = new
	}
	switch {
	case new == nil:
		f.deletedAlloc(c, old)
	case old == nil:
		f.newAlloc(c, new)
	case old.Desired != berth.DesiredRun && new.Desired == berth.DesiredRun:
		f.addf("I-18", "allocation %s must run again after it was to stop", new.ID)
	case old.Ended() && new.Client != old.Client:
		f.addf("I-18", "allocation %s went from %s to %s", new.ID, old.Client, new.Client)
	case new.Client == berth.ClientUnknown && old.Client != new.Client:
		if n := f.node(new.NodeID); c.By != byPlan || n == nil || n.Status != berth.NodeDisconnected {
			f.addf("I-18", "allocation %s is unknown, but its node was not disconnected", new.ID)
		}
	case new.Client == berth.ClientLost && old.Client != new.Client:
		f.lost(c, new)
	}
}

// lost checks I-18 for an allocation that became lost: its agent reported it,
// its node is silent, or the job is deleted by force. Nothing else that may
// still run may count as ended, least of all to be run again.
func (f *follower) lost(c *state.Change, a *berth.Alloc) {
	n, j := f.node(a.NodeID), f.job(a.Key())
	switch {
	case c.By == byReport, n == nil || n.Status == berth.NodeDown || n.Status == berth.NodeDisconnected:
	case c.By == byDelete && (j == nil || j.UID != a.Job.UID || j.Stop):
	default:
		f.addf("I-18", "allocation %s is lost, but its node is %s and job %s is not deleted", a.ID, n.Status, a.Key())
	}
}

// newAlloc checks a placement: its evaluation is open, the name is placed once,
// the node suits it, and what it replaces does not run on.
func (f *follower) newAlloc(c *state.Change, a *berth.Alloc) {
	at := placed{index: c.Index, eval: a.EvalID, name: a.Name()}
	if s := a.Rest().DeploymentStatus; s != nil && s.Canary {
		at.name += " as a canary"
	}
	if a.Job.PerNode() {
		at.node = a.NodeID
	}
	if f.placed[at] {
		f.addf("I-05", "evaluation %s placed %s twice", a.EvalID, a.Name())
	}
	f.placed[at], f.newAllocs[a.Key()] = true, true
	if e := f.eval(a.EvalID); e == nil || e.Terminal() && e.ModifyIndex != c.Index {
		f.addf("I-11", "allocation %s was placed by evaluation %s, which was not open", a.ID, a.EvalID)
	}
	if p := f.alloc(a.Rest().Previous); p != nil && p.Live() && p.Client != berth.ClientUnknown && !canary(a) && !f.outlasts(p, a) {
		f.addf("I-15", "allocation %s replaces %s, which is %s and must run", a.ID, p.ID, p.Client)
	}
	f.newElement(a)
	f.preempts(a)
	if why := f.unmet(a, f.node(a.NodeID)); why != "" {
		f.addf("I-10", "allocation %s was placed on node %s: %s", a.ID, a.NodeID, why)
	}
}

// outlasts reports whether an allocation leaves its node only once its
// replacement is up. The newest version of the job decides that, or else the
// allocation's own.
func (f *follower) outlasts(p, a *berth.Alloc) bool {
	if !p.Rest().Migrate {
		return false
	}
	if j := f.job(a.Key()); j != nil && j.UID == a.Job.UID {
		if g := j.Group(a.Group.Name); g != nil && g.Migration().StartFirst {
			return true
		}
	}
	return p.Group.Migration().StartFirst || a.Group.Migration().StartFirst
}

// canary reports whether an allocation runs beside the one that it may replace.
func canary(a *berth.Alloc) bool {
	d := a.Rest().DeploymentStatus
	return d != nil && d.Canary
}

// unmet returns a basic condition of a job that a node does not meet, "" if it
// meets all. Package place checks constraints.
func (f *follower) unmet(a *berth.Alloc, n *berth.Node) string {
	if n == nil {
		return "it does not exist"
	}
	if !n.Ready() {
		return "it is " + n.Status + " and " + n.SchedulingEligibility
	}
	if a.Job.NodePool != berth.AllNodePool && a.Job.NodePool != n.NodePool {
		return "it is in pool " + n.NodePool
	}
	wanted := false
	for _, glob := range a.Job.Datacenters {
		ok, _ := path.Match(glob, n.Datacenter)
		wanted = wanted || ok || glob == "*"
	}
	if !wanted {
		return "it is in datacenter " + n.Datacenter
	}
	for _, t := range a.Group.Tasks {
		if d := n.Drivers[t.Driver]; d == nil || !d.Detected || !d.Healthy {
			return "its driver " + t.Driver + " does not work"
		}
	}
	return ""
}
