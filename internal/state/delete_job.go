package state

import (
	"cmp"
	"iter"
	"slices"

	"berth"
)

// DeleteJob deletes a job and what it owns, or orphans what it owns.
type DeleteJob struct {
	Key    berth.JobKey
	UID    berth.UID // if set, only this incarnation
	Policy berth.Propagation
	Intent string
	// Force, in the foreground, does not wait for the job's allocations: those
	// that have not ended are lost at once, whatever the state of their nodes.
	// If one still runs, its agent is told to stop it, and its reports change
	// nothing.
	Force bool
	// NoShutdownDelay tells agents to skip the shutdown delays.
	NoShutdownDelay bool
	Eval            EvalSeed // of the evaluation that stops the job's allocations; the ID is zero if there can be none
	Now             int64
}

// Apply implements Command. A job that is being deleted in the foreground can
// then be deleted in the background or by force: it stops waiting.
func (c *DeleteJob) Apply(tx *Tx) error {
	if err := c.check(); err != nil {
		return err
	}
	old, err := tx.incarnation(c.Key, c.UID)
	if err != nil {
		return err
	}
	marked := tx.Deletion(c.Key)
	if marked != nil {
		switch {
		case c.Policy == berth.Orphan: // some of what it owned is gone already
			return deleting(marked)
		case c.Policy == marked.Deletion.Policy && !marked.hasSuccessor() && (!c.Force || tx.Blocking(c.Key, old.UID) == 0 && !tx.forces(marked)):
			return berth.Refusef(berth.CodeAlreadyDone, "job %q, %s, is being deleted since index %d", c.Key, marked.UID.Text('j'), marked.Deletion.RequestIndex)
		}
	}
	if c.Policy == berth.Orphan {
		c.orphan(tx, old)
		return nil
	}
	if err := tx.unusedSeed(c.Eval); err != nil {
		return err
	}
	j := tx.ended(old, c.NoShutdownDelay, c.Now)
	if c.Policy == berth.Foreground && j == old { // those who watch the job must see the mark
		same := *old
		same.ModifyIndex, same.JobModifyIndex = tx.Index, tx.Index
		j = &same
	}
	if j != old {
		tx.putJob(old, j) // also before it is removed, so that watchers see the job end as usual
	}
	if !c.Eval.ID.IsZero() {
		tx.raise(j, c.Eval, c.Now)
	}
	if c.Policy == berth.Foreground {
		tx.mark(&JobDeletion{Key: c.Key, UID: j.UID, Deletion: c.deletion(tx, marked)})
		if c.Force {
			c.giveUp(tx, j)
		}
		return nil
	}
	tx.storeCounts()
	tx.removeJob(j)
	return nil
}

// feature implements featured: it names what an old log version lacks.
func (c *DeleteJob) feature() string { return "deletion of jobs with propagation " + string(c.Policy) }

// deletion returns how the job is deleted from now on. marked is its mark so
// far, or nil.
func (c *DeleteJob) deletion(tx *Tx, marked *JobDeletion) berth.Deletion {
	d := berth.Deletion{Policy: c.Policy, Intent: c.Intent, Cause: berth.Cause{Kind: berth.CauseUser, Request: c.Eval.Cause.Request}, RequestIndex: tx.Index, Time: c.Now}
	switch {
	case marked == nil:
	case marked.hasSuccessor(): // now nothing follows
		d.RequestIndex = marked.Deletion.RequestIndex
	default:
		d = marked.Deletion
	}
	if c.Force && tx.LogVersion >= forceSince {
		d.Force = true
	}
	return d
}

// forceSince is the log version since which the mark of a job tells that it is
// deleted by force, so that its children are as well, and since which no job goes
// before its children.
const forceSince = 10

// forces reports whether force is still to be noted in the mark of a job.
func (tx *Tx) forces(marked *JobDeletion) bool {
	return tx.LogVersion >= forceSince && !marked.Deletion.Force
}

// giveUp marks the job's allocations as lost: nobody waits for their end.
func (c *DeleteJob) giveUp(tx *Tx, j *berth.Job) {
	for _, a := range tx.liveOf(tx.AllocsOf(c.Key), func(a *berth.Alloc) bool { return a.Job.UID == j.UID }) {
		tx.lose(a, berth.StopForced, c.Now)
	}
}

// check returns an Invalid error for fields that no state could accept.
func (c *DeleteJob) check() error {
	switch {
	case !slices.Contains(berth.Propagations, c.Policy):
		return berth.Errorf(berth.Invalid, "unknown propagation %.64q: want one of %v", string(c.Policy), berth.Propagations)
	case c.Intent != berth.IntentUser:
		return berth.Errorf(berth.Invalid, "unknown intent %.64q: want %s", c.Intent, berth.IntentUser)
	case c.Force && c.Policy != berth.Foreground:
		return berth.Errorf(berth.Invalid, "force: with propagation %s the job is gone at once, so there is nothing to force", c.Policy)
	}
	return nil
}

// orphan removes the job and orphans its allocations. Those that are to stop
// still end as they would have.
func (c *DeleteJob) orphan(tx *Tx, j *berth.Job) {
	tx.cancelOpen(j, "the job was deleted and its allocations orphaned", c.Now)
	ending := tx.ending(j)
	for _, a := range tx.liveOf(tx.AllocsOf(c.Key), func(a *berth.Alloc) bool { return a.Job.UID == j.UID && a.Wanted() }) {
		n := tx.Node(a.NodeID)
		switch {
		case n == nil || n.Status == berth.NodeDown:
			tx.lose(a, berth.StopNodeLost, c.Now)
		case ending:
			tx.stopOrphan(a, berth.StopJobEnded, false, c.Now)
		case a.Rest().Relocate: // a user wants it stopped, and nothing will replace it
			tx.stopOrphan(a, berth.StopOrphan, false, c.Now)
		default:
			o := *a
			o.Orphaned, o.ModifyTime = true, c.Now
			tx.changeAlloc(a, &o)
		}
	}
	tx.storeCounts()
	if !ending {
		tx.orphanResources(j)
	}
	tx.removeJob(j)
}

// ending reports whether what a job owns is about to go anyway: a user stopped
// the job, or its submission was given up.
func (tx *Tx) ending(j *berth.Job) bool {
	row := tx.StreamJob(j.UID)
	return j.Stop || row != nil && row.Phase == berth.PhaseFailed
}

// liveOf returns the allocations that keep accepts and that have not ended,
// oldest first.
func (tx *Tx) liveOf(all iter.Seq[*berth.Alloc], keep func(*berth.Alloc) bool) (out []*berth.Alloc) {
	for a := range all {
		if !a.Ended() && keep(a) {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b *berth.Alloc) int {
		return cmp.Or(cmp.Compare(a.CreateIndex, b.CreateIndex), cmp.Compare(a.Ordinal, b.Ordinal))
	})
	return out
}

// lose marks an allocation as lost: with its node, or because nobody waits for
// its end. When its agent reconnects, it stops what still runs.
func (tx *Tx) lose(old *berth.Alloc, why berth.StopReason, now int64) {
	a, more := old.With()
	a.ModifyTime, a.AllocModifyIndex = now, tx.Index
	if old.Wanted() {
		a.Desired, more.StopReason, more.DesiredDescription = berth.DesiredStop, why, why.String()
	}
	a.Client, more.ClientDescription, more.UnknownSince = berth.ClientLost, why.String(), 0
	tx.changeAlloc(old, a)
}

// loseOrphans marks orphaned allocations on a node that is down as lost,
// because no scheduler looks at them. Afterwards there are none, so doing it
// twice does nothing.
func (tx *Tx) loseOrphans(n *berth.Node, now int64) {
	if n.Status != berth.NodeDown {
		return
	}
	for _, a := range tx.liveOf(tx.AllocsOn(n.ID), func(a *berth.Alloc) bool { return a.Orphaned }) {
		tx.lose(a, berth.StopNodeLost, now)
	}
}

// stopOrphan stops an allocation that nothing will replace.
func (tx *Tx) stopOrphan(old *berth.Alloc, why berth.StopReason, noDelay bool, now int64) {
	if !old.Live() {
		return
	}
	a, more := old.With()
	a.ModifyTime, a.AllocModifyIndex = now, tx.Index
	a.Desired, more.StopReason, more.DesiredDescription = berth.DesiredStop, why, why.String()
	more.NoShutdownDelay = more.NoShutdownDelay || noDelay
	tx.changeAlloc(old, a)
}

// MaxFinalize is the largest number of jobs that one command removes.
const MaxFinalize = 100

// FinalizeDeletions removes jobs that are being deleted and that nothing holds
// any more. The same command creates the job's successor, so there is no moment
// with neither.
type FinalizeDeletions struct {
	ByLeader
	Jobs []JobRef
}

// Apply implements Command. Jobs that are gone, or are not being deleted, are
// skipped; if that is all of them, the command was applied before. A job that
// something still holds refuses the whole command.
func (c *FinalizeDeletions) Apply(tx *Tx) error {
	if n := len(c.Jobs); n == 0 || n > MaxFinalize {
		return berth.Errorf(berth.Invalid, "finalize: must name 1 to %d jobs, got %d", MaxFinalize, n)
	}
	var gone []*berth.Job
	for i, r := range c.Jobs {
		d := tx.Deletion(r.Key)
		if d == nil || d.UID != r.UID || slices.Contains(c.Jobs[:i], r) {
			continue
		}
		if n := tx.Blocking(r.Key, r.UID); n > 0 {
			return berth.Refusef(berth.CodeNotEmpty, "job %q, %s, is held by allocations that have not ended: %d", r.Key, r.UID.Text('j'), n)
		}
		if tx.owns(r.UID) {
			return berth.Refusef(berth.CodeNotEmpty, "job %q, %s, is held by resources that it owns: %d", r.Key, r.UID.Text('j'), tx.Dependents(r.UID))
		}
		if n := len(tx.ChildrenOfIncarnation(r.Key, r.UID)); n > 0 && tx.LogVersion >= forceSince {
			return berth.Refusef(berth.CodeNotEmpty, "job %q, %s, is held by its children: %d", r.Key, r.UID.Text('j'), n)
		}
		gone = append(gone, tx.Job(r.Key))
	}
	if gone == nil {
		return berth.Refusef(berth.CodeAlreadyDone, "none of the %d jobs is being deleted", len(c.Jobs))
	}
	for i, j := range gone {
		if d := tx.Deletion(j.Key()); d.hasSuccessor() {
			tx.follow(j, d, uint32(i))
		} else {
			tx.removeJob(j)
		}
	}
	return nil
}

// AllocByUID returns the allocation with a UID, or nil.
func (s *Snapshot) AllocByUID(uid berth.UID) *berth.Alloc {
	_, a := find(&s.allocs.rows, &s.allocs.byTime, uid.Index, func(a *berth.Alloc) bool { return a.Ordinal == uid.Ordinal })
	return a
}
