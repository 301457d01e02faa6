package state

import (
	"cmp"
	"math"
	"slices"

	"berth"
)

// MaxPlanObjects is the largest number of objects of a stream job.
const MaxPlanObjects = 50_000

// PlanSubmission stores which objects a stream job has in its next generation.
// Nothing can be created for a job that is not in its plan.
type PlanSubmission struct {
	ByLeader
	Key      berth.JobKey
	UID      berth.UID
	Plan     *berth.StreamPlan
	Deadline int64 // ns since 1970: when this attempt is given up; 0 means never
	Now      int64
}

// Apply implements Command. The first plan of an incarnation has generation 0.
// Another one follows when the previous plan is complete and the job has a
// newer version.
func (c *PlanSubmission) Apply(tx *Tx) error {
	j, row, err := tx.alive(c.Key, c.UID)
	if err != nil {
		return err
	}
	p := c.Plan
	if err := checkPlan(p); err != nil {
		return err
	}
	// Which generation can be planned: the first, or the next one when the last
	// is complete and the job has changed since.
	next := uint64(0)
	// The plan must be for it, made from the newest version.
	switch {
	case row.Plan == nil:
	case row.Phase == berth.PhaseSubmitted && j.Version > row.Version:
		next = row.Generation + 1
	case p.Generation <= row.Generation:
		return berth.Refusef(berth.CodeAlreadyDone, "job %q, %s, has a plan of generation %d", c.Key, c.UID.Text('j'), row.Generation)
	default:
		return berth.Refusef(berth.CodeStaleGeneration, "job %q, %s, is at generation %d of version %d, in phase %s: there is no next one to plan", c.Key, c.UID.Text('j'), row.Generation, row.Version, row.Phase)
	}
	switch {
	case p.Generation != next:
		return berth.Refusef(berth.CodeStaleGeneration, "the plan of job %q, %s, is of generation %d; the next one is %d", c.Key, c.UID.Text('j'), p.Generation, next)
	case p.Version != j.Version:
		return berth.Refusef(berth.CodeStaleGeneration, "the plan of job %q, %s, is of version %d; the job is at version %d", c.Key, c.UID.Text('j'), p.Version, j.Version)
	case row.Plan != nil && p.NextPE < row.Plan.NextPE:
		return berth.Errorf(berth.Invalid, "plan: the next processing element ID must not fall from %[2]d to %[1]d", p.NextPE, row.Plan.NextPE)
	}
	// A new submission begins. The stream ID stays for the job's life.
	n := *row
	n.Phase, n.Plan, n.PlanIndex, n.Generation, n.Version, n.Deadline = berth.PhaseSubmission, p, tx.Index, p.Generation, p.Version, c.Deadline
	if n.StreamID == 0 {
		tx.streamIDs++
		n.StreamID = tx.streamIDs
	}
	// Forget deleted PEs that are not planned any more.
	n.Deleted = nil
	for _, d := range row.Deleted {
		if p.Object(berth.KindPE, d.Name) != nil {
			n.Deleted = append(n.Deleted, d)
		}
	}
	tx.putStream(row, &n)
	tx.forgetVersions(c.Key) // the previously planned version may have been kept only for that
	return nil
}

// checkPlan refuses a plan that could not be carried out.
func checkPlan(p *berth.StreamPlan) error {
	switch {
	case p == nil:
		return berth.Errorf(berth.Invalid, "plan: must not be empty")
	case len(p.Objects) > MaxPlanObjects:
		return berth.Errorf(berth.Limited, "plan: must have at most %d objects, got %d", MaxPlanObjects, len(p.Objects))
	case p.NextPE < 0 || p.NextPE > math.MaxInt32:
		return berth.Errorf(berth.Invalid, "plan: the next processing element ID must be 0 to %d, got %d", math.MaxInt32, p.NextPE)
	}
	// The order makes equal plans equal, and lookups fast.
	ids := map[int]bool{}
	for i := range p.Objects {
		o := &p.Objects[i]
		if err := checkObject(o); err != nil {
			return err
		}
		if i > 0 && cmp.Or(cmp.Compare(rank(&p.Objects[i-1]), rank(o)), cmp.Compare(p.Objects[i-1].Name, o.Name)) >= 0 {
			return berth.Errorf(berth.Invalid, "plan: %s %.150q follows %s %.150q, but objects must be in order of kind and name", o.Kind, o.Name, p.Objects[i-1].Kind, p.Objects[i-1].Name)
		}
		if o.PE == nil {
			continue
		}
		if id := o.PE.ID; id < 0 || id >= p.NextPE || ids[id] {
			return berth.Errorf(berth.Invalid, "plan: processing element %.150q has ID %d, which must be unique and below %d", o.Name, id, p.NextPE)
		}
		ids[o.PE.ID] = true
	}
	return nil
}

// rank returns the place of an object's kind in the order of creation, -1 for
// an unknown kind.
func rank(o *berth.StreamObject) int { return slices.Index(berth.StreamKinds, o.Kind) }

// checkObject refuses an object that does not have exactly the fields of its
// kind.
func checkObject(o *berth.StreamObject) error {
	has := map[string]bool{
		berth.KindPE: o.PE != nil, berth.KindConfig: o.Config != nil, berth.KindHostPool: o.Pool != nil,
		berth.KindExport: o.Export != nil, berth.KindImport: o.Import != nil, berth.KindRegion: o.Region != nil,
	}
	n := 0
	for _, there := range has {
		n += sign(there)
	}
	switch known := o.Kind == berth.KindEndpoint || has[o.Kind]; {
	case o.Name == "" || o.Hash == "":
		return berth.Errorf(berth.Invalid, "plan: an object of kind %.64q has no name or no hash", o.Kind)
	case !known || n != sign(o.Kind != berth.KindEndpoint):
		return berth.Errorf(berth.Invalid, "plan: %.150q does not have exactly the fields of its kind %.64q", o.Name, o.Kind)
	}
	return nil
}

// CompleteSubmission marks a submission as complete.
type CompleteSubmission struct {
	ByLeader
	Key        berth.JobKey
	UID        berth.UID
	Generation uint64 // that is complete
	Now        int64
}

// Apply implements Command. It checks again: a planned object that is missing,
// or an existing one that is not planned, refuses it.
func (c *CompleteSubmission) Apply(tx *Tx) error {
	_, row, err := tx.alive(c.Key, c.UID)
	switch {
	case err != nil:
		return err
	case row.Plan == nil || row.Generation != c.Generation:
		return berth.Refusef(berth.CodeStaleGeneration, "job %q, %s, is at generation %d, not %d, or not planned", c.Key, c.UID.Text('j'), row.Generation, c.Generation)
	case row.Phase == berth.PhaseSubmitted:
		return berth.Refusef(berth.CodeAlreadyDone, "job %q, %s, is submitted", c.Key, c.UID.Text('j'))
	}
	if why := tx.Incomplete(row); why != "" {
		return berth.Errorf(berth.Conflict, "incomplete: job %q, %s: %s", c.Key, c.UID.Text('j'), why)
	}
	n := *row
	n.Phase, n.Deadline, n.LastError = berth.PhaseSubmitted, 0, ""
	tx.putStream(row, &n)
	return nil
}

// Incomplete returns what keeps a planned submission from being complete, or
// "". It is complete if the planned objects exist as planned, no others exist,
// and each processing element has a live allocation of its current launch.
func (s *Snapshot) Incomplete(row *berth.StreamJob) string {
	// Every planned object exists as planned,
	for i := range row.Plan.Objects {
		o := &row.Plan.Objects[i]
		r := s.ResourceNamed(row.UID, o.Kind, o.Name)
		switch {
		case r == nil:
			return o.Kind + " " + o.Name + " does not exist"
		case r.Generation != row.Generation || r.Hash != o.Hash:
			return o.Kind + " " + o.Name + " belongs to an older generation"
		}
	}
	// no other object is left,
	if n := s.Dependents(row.UID); n != len(row.Plan.Objects) {
		return "an object of an older generation is left"
	}
	// and every PE runs in its newest launch.
	live := map[berth.PERef]bool{}
	for a := range s.AllocsOf(row.Key) {
		if ref := a.Rest().PE; ref != nil && a.Live() {
			live[*ref] = true
		}
	}
	for pe := range s.ResourcesOf(row.UID, berth.KindPE) {
		switch {
		case pe.PE.ContentID != pe.Object.PE.ContentID:
			return pe.Name + " was not launched with its current configuration"
		case !live[berth.PERef{UID: pe.UID, Launch: pe.PE.Launch}]:
			return pe.Name + " has no allocation of launch " + utoa(pe.PE.Launch)
		}
	}
	return ""
}

// FailSubmission gives up the submission of a stream job: what it owns is
// removed, the job stays visible and can be registered again.
type FailSubmission struct {
	ByLeader
	Key   berth.JobKey
	UID   berth.UID
	Error string // the reason, for people
	Now   int64
}

// Apply implements Command. It creates the evaluation that stops the job's
// allocations.
func (c *FailSubmission) Apply(tx *Tx) error {
	j, row, err := tx.alive(c.Key, c.UID)
	switch {
	case err != nil:
		return err
	case c.Error == "" || len(c.Error) > MaxStreamError:
		return berth.Errorf(berth.Invalid, "Error: must be 1 to %d bytes, got %d", MaxStreamError, len(c.Error))
	case row.Phase != berth.PhaseSubmission:
		return berth.Refusef(berth.CodeAlreadyDone, "job %q, %s, is %s", c.Key, c.UID.Text('j'), row.Phase)
	}
	// What the job owns goes, and a scheduler stops its allocations.
	n := *row
	n.Phase, n.LastError, n.Deadline = berth.PhaseFailed, c.Error, 0
	tx.cancelOpen(j, "the submission of the job was given up", c.Now)
	tx.givenUp(j, &n, row)
	tx.raise(j, EvalSeed{
		ID: tx.newID(seedOf(j.UID)), TriggeredBy: berth.TriggerJobDeregister, Cause: berth.Cause{Kind: berth.CauseSystem, ID: "submission-failed"},
	}, c.Now)
	return nil
}
