package state

import (
	"bytes"

	"berth"
	"berth/internal/state/codec"
)

// RegisterJob makes a job or gives it a new version, and raises the evaluation
// that looks at it: the two are never apart.
type RegisterJob struct {
	Job        *berth.Job
	Submission *berth.JobSubmission
	// Eval is the evaluation to raise; its ID is zero for jobs that run nothing
	// themselves.
	Eval EvalSeed
	// Enforce registers only if the job's JobModifyIndex is Index; 0 means that
	// there must be no such job.
	Enforce           bool
	Index             uint64
	PreserveCounts    bool // keep the counts of groups that exist, as far as their scaling policies allow
	PreserveResources bool // keep the resources of tasks that exist
	Now               int64
}

// Apply implements Command.
func (c *RegisterJob) Apply(tx *Tx) error {
	if err := c.Job.Whole(); err != nil {
		return err
	}
	key := c.Job.Key()
	if tx.Namespace(key.Namespace) == nil {
		return berth.Errorf(berth.Invalid, "job.namespace: there is no namespace %q", key.Namespace)
	}
	if err := tx.runnable(c.Job); err != nil {
		return err
	}
	old := tx.Job(key)
	if err := tx.unmarked(key); err != nil && !tx.beginsAnew(old, c.Job) {
		return err
	}
	if err := c.enforce(old); err != nil {
		return err
	}
	if old != nil && old.Type != c.Job.Type && (fixedType(old) || fixedType(c.Job)) {
		return berth.Errorf(berth.Invalid, "job.type: job %q is of type %s and cannot become one of type %s; purge it first", key, old.Type, c.Job.Type)
	}
	if c.Job.Type == berth.TypeStream {
		return c.stream(tx, old)
	}
	j := *c.Job
	if err := lineage(old, &j); err != nil {
		return err
	}
	if err := tx.unusedSeed(c.Eval); err != nil {
		return err
	}
	if old != nil {
		c.preserve(&j, old)
	}
	j.Stop = false
	tx.following(old, &j, c.Now)
	tx.putJob(old, &j)
	if c.Submission != nil {
		tx.putSubmission(&Submission{*c.Submission, key, j.Version})
	}
	if !c.Eval.ID.IsZero() {
		tx.raise(&j, c.Eval, c.Now)
	}
	return nil
}

func (c *RegisterJob) needs() int {
	if c.Job != nil && c.Job.Type == berth.TypeStream {
		return 2
	}
	return 1
}

// fixedType says whether a job of this type was always one, and stays one.
func fixedType(j *berth.Job) bool { return j.PerNode() || j.Type == berth.TypeStream }

func (c *RegisterJob) pack(w *codec.Writer) { w.Value((*registerFields)(c)) }

func (c *RegisterJob) unpack(r *codec.Reader) {
	r.Value((*registerFields)(c))
	if r.Err() == nil && c.Job == nil {
		r.Damaged("no job")
	}
}

// registerFields is a RegisterJob without its methods.
type registerFields RegisterJob

func (c *RegisterJob) enforce(old *berth.Job) error {
	const prefix = "Enforcing job modify index" // clients look for it
	switch {
	case !c.Enforce:
		return nil
	case old == nil && c.Index != 0:
		return berth.Errorf(berth.Conflict, "%s %d: job does not exist", prefix, c.Index)
	case old != nil && c.Index == 0:
		return berth.Errorf(berth.Conflict, "%s 0: job already exists", prefix)
	case old != nil && c.Index != old.JobModifyIndex:
		return berth.Errorf(berth.Conflict, "%s %d: job exists with conflicting job modify index: %d", prefix, c.Index, old.JobModifyIndex)
	}
	return nil
}

// preserve carries counts and resources over from the job as it is now, which
// only the log's order can say.
func (c *RegisterJob) preserve(j, old *berth.Job) {
	if !c.PreserveCounts && !c.PreserveResources {
		return
	}
	if c.PreserveCounts && j.Stream != nil {
		preserveWidths(j, old)
	}
	groups := make([]*berth.TaskGroup, len(j.TaskGroups))
	for i, g := range j.TaskGroups {
		groups[i] = g
		was := old.Group(g.Name)
		if was == nil {
			continue
		}
		ng := *g
		if c.PreserveCounts && j.Stream == nil {
			ng.Count = was.Count
			if p := g.Scaling; p != nil {
				ng.Count = int(max(p.Min, min(p.Max, int64(was.Count))))
			}
		}
		if c.PreserveResources {
			ng.Tasks = make([]*berth.Task, len(g.Tasks))
			for k, t := range g.Tasks {
				nt := *t
				if wt := was.Task(t.Name); wt != nil {
					nt.Resources = wt.Resources
				}
				ng.Tasks[k] = &nt
			}
		}
		groups[i] = &ng
	}
	j.TaskGroups = groups
}

// unusedSeed refuses the ID of an evaluation that is there; zero raises none.
func (tx *Tx) unusedSeed(s EvalSeed) error {
	if s.ID.IsZero() {
		return nil
	}
	return tx.unusedEvals(s.ID)
}

// sameSpec says whether two versions of a job ask for the same.
func sameSpec(a, b *berth.Job) bool {
	return bytes.Equal(codec.Canonical(spec(a)), codec.Canonical(spec(b)))
}

// spec returns the job without what servers set.
func spec(j *berth.Job) *berth.Job {
	s := *j
	s.Stable, s.Version, s.VersionTag, s.SubmitTime = false, 0, nil, 0
	s.CreateIndex, s.ModifyIndex, s.JobModifyIndex, s.UID = 0, 0, 0, berth.UID{}
	return &s
}

// StopJob ends a job and raises the evaluation that stops its allocations.
type StopJob struct {
	Key   berth.JobKey
	UID   berth.UID // if set, only this incarnation
	Purge bool      // forget the job, not only stop it: DeleteJob in the background says more
	// NoShutdownDelay tells agents to skip the shutdown delays.
	NoShutdownDelay bool
	Eval            EvalSeed
	Now             int64
}

// Apply implements Command.
func (c *StopJob) Apply(tx *Tx) error {
	if c.Purge {
		return (&DeleteJob{
			Key: c.Key, UID: c.UID, Policy: berth.Background, Intent: berth.IntentUser, NoShutdownDelay: c.NoShutdownDelay, Eval: c.Eval, Now: c.Now,
		}).Apply(tx)
	}
	old, err := tx.incarnation(c.Key, c.UID)
	if err != nil {
		return err
	}
	if err := tx.unusedSeed(c.Eval); err != nil {
		return err
	}
	j := tx.ended(old, c.NoShutdownDelay, c.Now)
	if j == old {
		same := *old
		same.ModifyIndex, same.JobModifyIndex = tx.Index, tx.Index
		j = &same
	}
	tx.putJob(old, j)
	if j.Type == berth.TypeStream {
		tx.stopStream(j)
	}
	if !c.Eval.ID.IsZero() {
		tx.raise(j, c.Eval, c.Now)
	}
	return nil
}

// incarnation returns the job of the name, which must be the one of the UID if
// that is set.
func (tx *Tx) incarnation(k berth.JobKey, uid berth.UID) (*berth.Job, error) {
	switch j := tx.Job(k); {
	case j == nil && !uid.IsZero():
		return nil, berth.Errorf(berth.NotFound, "owner-missing: job %q, %s, is not there any more", k, uid.Text('j'))
	case j == nil:
		return nil, berth.Errorf(berth.NotFound, "job %q not found", k)
	case !uid.IsZero() && uid != j.UID:
		return nil, berth.Errorf(berth.Conflict, "uid-mismatch: job %q is %s now, not %s", k, j.UID.Text('j'), uid.Text('j'))
	default:
		return j, nil
	}
}

// ended returns the job as it is to be put when it ends, itself if it was
// stopped before, and cancels what waits for room on its behalf.
func (tx *Tx) ended(old *berth.Job, noDelay bool, now int64) *berth.Job {
	j := old
	if !old.Stop {
		stopped := *old
		stopped.Stop, stopped.Stable, stopped.VersionTag = true, false, nil
		stopped.Version++
		stopped.SubmitTime = now
		stopped.ModifyIndex, stopped.JobModifyIndex = tx.Index, tx.Index
		j = &stopped
	}
	if noDelay {
		tx.skipDelays(old.Key())
	}
	// Open evaluations of what came before have nothing left to do.
	tx.cancelOpen(j, "the job was stopped", now)
	return j
}

// skipDelays marks the job's allocations to stop without delay.
func (tx *Tx) skipDelays(k berth.JobKey) {
	var live []*berth.Alloc
	for a := range tx.AllocsOf(k) {
		if a.Live() {
			live = append(live, a)
		}
	}
	for _, old := range live {
		a, more := old.With()
		more.NoShutdownDelay = true
		a.AllocModifyIndex = tx.Index
		tx.changeAlloc(old, a)
	}
}

// cancelOpen cancels the blocked evaluations of a job: nothing of it waits for a
// place any more. Pending ones stay: the broker hands them out one after
// another, and the last to look finds all.
func (tx *Tx) cancelOpen(j *berth.Job, why string, now int64) {
	for _, e := range tx.blockedOf(j) {
		tx.cancel(e, why, now)
	}
	tx.setQueued(j, nil)
}

// blockedOf returns the blocked evaluations of one incarnation of a job.
func (tx *Tx) blockedOf(j *berth.Job) (out []*berth.Eval) {
	for e := range of(&tx.evals.rows, &tx.evals.blocked, keyHash(j.Key()), func(e *berth.Eval) bool { return e.Key() == j.Key() }) {
		if e.JobUID == j.UID {
			out = append(out, e)
		}
	}
	return out
}

func (tx *Tx) cancel(old *berth.Eval, why string, now int64) {
	e := *old
	e.Status, e.StatusDescription, e.ModifyTime = berth.EvalCanceled, why, now
	tx.putEval(old, &e)
}
