package state

import (
	"cmp"
	"iter"
	"slices"

	"berth"
)

// DeleteJob deletes a job with what it owns, or leaves that to itself.
type DeleteJob struct {
	Key    berth.JobKey
	UID    berth.UID // if set, only this incarnation
	Policy berth.Propagation
	Intent string
	// Force, in the foreground, waits for nothing that the job runs: what has not
	// ended is lost at once, whatever its node is. If it runs all the same, its
	// agent is told to stop it, and what that reports changes nothing.
	Force bool
	// NoShutdownDelay tells agents to skip the shutdown delays.
	NoShutdownDelay bool
	Eval            EvalSeed // of the evaluation that stops what the job runs; its ID is zero if that can be nothing
	Now             int64
}

// Apply implements Command. A job that is being deleted in the foreground can
// be deleted in the background then, or by force: it does not wait any more.
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
		case c.Policy == marked.Deletion.Policy && !marked.begins() && (!c.Force || tx.Blocking(c.Key, old.UID) == 0):
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
	if c.Policy == berth.Foreground && j == old { // who watches the job is to see the mark
		same := *old
		same.ModifyIndex, same.JobModifyIndex = tx.Index, tx.Index
		j = &same
	}
	if j != old {
		tx.putJob(old, j) // also before it is removed, so that this is an end like any other to those who watch
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

func (c *DeleteJob) feature() string { return "deletion of jobs with propagation " + string(c.Policy) }

// deletion returns how the job is deleted from now on; marked is how it was
// until now, nil if it was not.
func (c *DeleteJob) deletion(tx *Tx, marked *JobDeletion) berth.Deletion {
	d := berth.Deletion{Policy: c.Policy, Intent: c.Intent, Cause: berth.Cause{Kind: berth.CauseUser}, RequestIndex: tx.Index, Time: c.Now}
	switch {
	case marked == nil:
	case marked.begins(): // now nothing follows
		d.RequestIndex = marked.Deletion.RequestIndex
	default:
		d = marked.Deletion
	}
	return d
}

// giveUp takes for lost what the job runs: nobody waits for its end.
func (c *DeleteJob) giveUp(tx *Tx, j *berth.Job) {
	for _, a := range tx.liveOf(tx.AllocsOf(c.Key), func(a *berth.Alloc) bool { return a.Job.UID == j.UID }) {
		tx.lose(a, berth.StopForced, c.Now)
	}
}

func (c *DeleteJob) check() error {
	switch {
	case !slices.Contains(berth.Propagations, c.Policy):
		return berth.Errorf(berth.Invalid, "propagation %.64q: allowed are %v", string(c.Policy), berth.Propagations)
	case c.Intent != berth.IntentUser:
		return berth.Errorf(berth.Invalid, "intent %.64q: allowed is %s", c.Intent, berth.IntentUser)
	case c.Force && c.Policy != berth.Foreground:
		return berth.Errorf(berth.Invalid, "force: a job that is deleted with propagation %s is gone at once; there is nothing to wait for", c.Policy)
	}
	return nil
}

// orphan removes the job and leaves what it runs to itself. What is to stop is
// not left: it ends as it would have.
func (c *DeleteJob) orphan(tx *Tx, j *berth.Job) {
	tx.cancelOpen(j, "the job was deleted, and what it runs left to itself", c.Now)
	ending := tx.ending(j)
	for _, a := range tx.liveOf(tx.AllocsOf(c.Key), func(a *berth.Alloc) bool { return a.Job.UID == j.UID && a.Wanted() }) {
		n := tx.Node(a.NodeID)
		switch {
		case n == nil || n.Status == berth.NodeDown:
			tx.lose(a, berth.StopNodeLost, c.Now)
		case ending:
			tx.stopOrphan(a, berth.StopJobEnded, false, c.Now)
		case a.Rest().Relocate: // a user wants it stopped, and nothing will place it anew
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

// ending says whether what a job owns is about to go anyway: a user stopped it,
// or its submission was given up.
func (tx *Tx) ending(j *berth.Job) bool {
	row := tx.StreamJob(j.UID)
	return j.Stop || row != nil && row.Phase == berth.PhaseFailed
}

// liveOf returns those of the allocations that keep accepts and that have not
// ended, oldest first.
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

// lose notes that an allocation is lost: with its node, or because nobody waits
// for its end. When its agent is heard, that stops what runs of it.
func (tx *Tx) lose(old *berth.Alloc, why string, now int64) {
	a, more := old.With()
	a.ModifyTime, a.AllocModifyIndex = now, tx.Index
	if old.Wanted() {
		a.Desired, more.DesiredDescription = berth.DesiredStop, why
	}
	a.Client, more.ClientDescription, more.UnknownSince = berth.ClientLost, why, 0
	tx.changeAlloc(old, a)
}

// loseOrphans ends what has no job on a node that is down: no scheduler looks
// at it. A node that is down has none, so there is nothing to do twice.
func (tx *Tx) loseOrphans(n *berth.Node, now int64) {
	if n.Status != berth.NodeDown {
		return
	}
	for _, a := range tx.liveOf(tx.AllocsOn(n.ID), func(a *berth.Alloc) bool { return a.Orphaned }) {
		tx.lose(a, berth.StopNodeLost, now)
	}
}

// stopOrphan stops an allocation that nothing will replace.
func (tx *Tx) stopOrphan(old *berth.Alloc, why string, noDelay bool, now int64) {
	if !old.Live() {
		return
	}
	a, more := old.With()
	a.ModifyTime, a.AllocModifyIndex = now, tx.Index
	a.Desired, more.DesiredDescription = berth.DesiredStop, why
	more.NoShutdownDelay = more.NoShutdownDelay || noDelay
	tx.changeAlloc(old, a)
}

// MaxFinalize is how many jobs one command removes at most.
const MaxFinalize = 100

// FinalizeDeletions removes jobs that are being deleted and that nothing holds
// any more. What follows a job is made by the command that removes it, so that
// there is no time at which there is neither.
type FinalizeDeletions struct {
	ByLeader
	Jobs []JobRef
}

// Apply implements Command. Jobs that are gone, or are not being deleted, are
// passed over, unless all are: then it was done already. One that something
// holds refuses the whole command.
func (c *FinalizeDeletions) Apply(tx *Tx) error {
	if n := len(c.Jobs); n == 0 || n > MaxFinalize {
		return berth.Errorf(berth.Invalid, "finalize: %d jobs; allowed are 1 to %d", n, MaxFinalize)
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
		gone = append(gone, tx.Job(r.Key))
	}
	if gone == nil {
		return berth.Refusef(berth.CodeAlreadyDone, "none of the %d jobs is being deleted", len(c.Jobs))
	}
	for i, j := range gone {
		if d := tx.Deletion(j.Key()); d.begins() {
			tx.follow(j, d, uint32(i))
		} else {
			tx.removeJob(j)
		}
	}
	return nil
}

// AllocByUID returns the allocation of a UID, or nil.
func (s *Snapshot) AllocByUID(uid berth.UID) *berth.Alloc {
	_, a := find(&s.allocs.rows, &s.allocs.byTime, uid.Index, func(a *berth.Alloc) bool { return a.Ordinal == uid.Ordinal })
	return a
}
