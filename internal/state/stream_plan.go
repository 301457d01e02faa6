package state

import (
	"cmp"
	"math"
	"slices"

	"berth"
)

// MaxPlanObjects is how many objects a stream job can come to.
const MaxPlanObjects = 50_000

// PlanSubmission stores what a stream job at its next generation consists of.
// Nothing can be made for a job that is not in its plan.
type PlanSubmission struct {
	ByLeader
	Key      berth.JobKey
	UID      berth.UID
	Plan     *berth.StreamPlan
	Deadline int64 // ns since 1970: when this attempt is given up; 0 is never
	Now      int64
}

// Apply implements Command. The first plan of an incarnation is of generation
// 0. Another one follows when what the job was has been submitted, and the job
// has a version that its plan is not of.
func (c *PlanSubmission) Apply(tx *Tx) error {
	j, row, err := tx.alive(c.Key, c.UID)
	if err != nil {
		return err
	}
	p := c.Plan
	if err := checkPlan(p); err != nil {
		return err
	}
	next := uint64(0)
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
		return berth.Errorf(berth.Invalid, "plan: the next ID of a processing element is %d; it was %d", p.NextPE, row.Plan.NextPE)
	}
	n := *row
	n.Phase, n.Plan, n.PlanIndex, n.Generation, n.Version, n.Deadline = berth.PhaseSubmission, p, tx.Index, p.Generation, p.Version, c.Deadline
	if n.StreamID == 0 {
		tx.streamIDs++
		n.StreamID = tx.streamIDs
	}
	n.Deleted = nil
	for _, d := range row.Deleted {
		if p.Object(berth.KindPE, d.Name) != nil {
			n.Deleted = append(n.Deleted, d)
		}
	}
	tx.putStream(row, &n)
	tx.forgetVersions(c.Key) // the one that was planned before may have been kept for that alone
	return nil
}

// checkPlan refuses a plan that could not be carried out.
func checkPlan(p *berth.StreamPlan) error {
	switch {
	case p == nil:
		return berth.Errorf(berth.Invalid, "plan: there is none")
	case len(p.Objects) > MaxPlanObjects:
		return berth.Errorf(berth.Limited, "plan: %d objects; allowed are %d", len(p.Objects), MaxPlanObjects)
	case p.NextPE < 0 || p.NextPE > math.MaxInt32:
		return berth.Errorf(berth.Invalid, "plan: the next ID of a processing element is %d; allowed are 0 to %d", p.NextPE, math.MaxInt32)
	}
	ids := map[int]bool{}
	for i := range p.Objects {
		o := &p.Objects[i]
		if err := checkObject(o); err != nil {
			return err
		}
		if i > 0 && cmp.Or(cmp.Compare(rank(&p.Objects[i-1]), rank(o)), cmp.Compare(p.Objects[i-1].Name, o.Name)) >= 0 {
			return berth.Errorf(berth.Invalid, "plan: %s %.150q follows %s %.150q; objects stand in order of kind and name", o.Kind, o.Name, p.Objects[i-1].Kind, p.Objects[i-1].Name)
		}
		if o.PE == nil {
			continue
		}
		if id := o.PE.ID; id < 0 || id >= p.NextPE || ids[id] {
			return berth.Errorf(berth.Invalid, "plan: processing element %.150q has the ID %d, which another one has, or that is not below %d", o.Name, id, p.NextPE)
		}
		ids[o.PE.ID] = true
	}
	return nil
}

func rank(o *berth.StreamObject) int { return slices.Index(berth.StreamKinds, o.Kind) }

// checkObject refuses an object that does not hold what its kind says.
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
		return berth.Errorf(berth.Invalid, "plan: %.150q is no %.64q: it does not hold what that does, and nothing else", o.Name, o.Kind)
	}
	return nil
}

// CompleteSubmission says that all of a plan is there.
type CompleteSubmission struct {
	ByLeader
	Key        berth.JobKey
	UID        berth.UID
	Generation uint64
	Now        int64
}

// Apply implements Command. It counts again: what is planned and not there, or
// there and not planned, refuses it.
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

// Incomplete returns what keeps a submission that is planned from being
// complete, "" if nothing does: every object of the plan is there as planned,
// nothing else is, and each processing element has an allocation of its
// present launch that is to run and has not ended.
func (s *Snapshot) Incomplete(row *berth.StreamJob) string {
	for i := range row.Plan.Objects {
		o := &row.Plan.Objects[i]
		r := s.ResourceNamed(row.UID, o.Kind, o.Name)
		switch {
		case r == nil:
			return o.Kind + " " + o.Name + " is not there"
		case r.Generation != row.Generation || r.Hash != o.Hash:
			return o.Kind + " " + o.Name + " is of an older generation"
		}
	}
	if n := s.Dependents(row.UID); n != len(row.Plan.Objects) {
		return "something of an older generation is left"
	}
	live := map[berth.PERef]bool{}
	for a := range s.AllocsOf(row.Key) {
		if ref := a.Rest().PE; ref != nil && a.Live() {
			live[*ref] = true
		}
	}
	for pe := range s.ResourcesOf(row.UID, berth.KindPE) {
		switch {
		case pe.PE.ContentID != pe.Object.PE.ContentID:
			return pe.Name + " was not launched with its present configuration"
		case !live[berth.PERef{UID: pe.UID, Launch: pe.PE.Launch}]:
			return pe.Name + " has no allocation of its launch " + utoa(pe.PE.Launch)
		}
	}
	return ""
}

// FailSubmission gives up the submission of a stream job: what it owns goes,
// the job stays to be looked at, and can be registered again.
type FailSubmission struct {
	ByLeader
	Key   berth.JobKey
	UID   berth.UID
	Error string // the reason, for people
	Now   int64
}

// Apply implements Command. It raises the evaluation that stops what runs.
func (c *FailSubmission) Apply(tx *Tx) error {
	j, row, err := tx.alive(c.Key, c.UID)
	switch {
	case err != nil:
		return err
	case c.Error == "" || len(c.Error) > MaxStreamError:
		return berth.Errorf(berth.Invalid, "Error: %d bytes; allowed are 1 to %d", len(c.Error), MaxStreamError)
	case row.Phase != berth.PhaseSubmission:
		return berth.Refusef(berth.CodeAlreadyDone, "job %q, %s, is %s", c.Key, c.UID.Text('j'), row.Phase)
	}
	n := *row
	n.Phase, n.LastError, n.Deadline = berth.PhaseFailed, c.Error, 0
	tx.cancelOpen(j, "the submission of the job was given up", c.Now)
	tx.givenUp(j, &n, row)
	tx.raise(j, EvalSeed{
		ID: tx.newID(seedOf(j.UID)), TriggeredBy: berth.TriggerJobDeregister, Cause: berth.Cause{Kind: berth.CauseSystem, ID: "submission-failed"},
	}, c.Now)
	return nil
}
