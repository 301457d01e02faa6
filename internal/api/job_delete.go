package api

import (
	"time"

	"berth"
	"berth/internal/acl"
	"berth/internal/state"
	"berth/op"
)

// deletionView shows how far the deletion of a job has come, nil if it is not
// being deleted. Blocking counts what must be gone first.
func deletionView(s *state.Snapshot, d *state.JobDeletion) *op.Deletion {
	if d == nil {
		return nil
	}
	children := len(s.ChildrenOfIncarnation(d.Key, d.UID))
	return &op.Deletion{Deletion: d.Deletion, Blocking: s.Blocking(d.Key, d.UID) + s.Dependents(d.UID) + children}
}

// deleteJob deletes a job, and what it owns unless that is to be orphaned.
func deleteJob(w *Write, in *op.StopJob) (ch Change[op.JobStopped], err error) {
	c := &state.DeleteJob{
		Key: w.job(in.JobID), Intent: berth.IntentUser, Force: in.Force, NoShutdownDelay: in.NoShutdownDelay, Now: w.Now.UnixNano(),
	}
	// Force skips the wait for what the job owns, so it takes more than the
	// right to stop jobs.
	if in.Force {
		if err := w.may(acl.Management, ""); err != nil {
			return ch, err
		}
	}
	if c.Policy, err = berth.ParsePropagation("propagation", in.Propagation); err != nil {
		return ch, err
	}
	if c.UID, err = uidOf("uid", in.UID, 'j'); err != nil {
		return ch, err
	}
	wait, err := waitFor(in.Wait, c.Policy)
	if err != nil {
		return ch, err
	}
	if j := w.Job(c.Key); c.Policy != berth.Orphan && (j == nil || j.Schedulable()) {
		c.Eval = w.seed(berth.TriggerJobDeregister, in.EvalPriority)
	}
	ch = propose(c, func(o *Outcome) op.JobStopped {
		out := op.JobStopped{EvalID: c.Eval.ID, JobModifyIndex: o.Index, Meta: o.Meta()}
		if !out.EvalID.IsZero() {
			out.EvalCreateIndex = o.Index
		}
		return out
	})
	ch.Refused = func(o *Outcome, err error) (op.JobStopped, error) { return alreadyDeleting(c, o, err) }
	switch c.Policy {
	// Servers that do not know the command of a deletion still know a purge,
	// which has the same effect.
	case berth.Background:
		ch.Older = []state.Command{&state.StopJob{
			Key: c.Key, UID: c.UID, Purge: true, NoShutdownDelay: c.NoShutdownDelay, Eval: c.Eval, Now: c.Now,
		}}
	case berth.Foreground:
		ch.Follow = &Follow[op.JobStopped]{For: wait, Keys: []state.WatchKey{state.OnJob(c.Key)}, Look: whileDeleting(c.Key)}
	}
	return ch, nil
}

// alreadyDeleting answers a deletion that was refused: asking again for a
// deletion that is under way succeeds and changes nothing.
func alreadyDeleting(c *state.DeleteJob, o *Outcome, err error) (out op.JobStopped, _ error) {
	d := o.After.Deletion(c.Key)
	if berth.KindOf(err) != berth.Conflict || d == nil || d.Deletion.Policy != c.Policy || !c.UID.IsZero() && c.UID != d.UID {
		return out, err
	}
	index := d.Deletion.RequestIndex
	return op.JobStopped{JobModifyIndex: index, Meta: op.Meta{Index: index, KnownLeader: true}}, nil
}

// waitFor parses how long a caller wants to wait for a job to be gone.
func waitFor(s string, policy berth.Propagation) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil || d < 0:
		return 0, berth.Errorf(berth.Invalid, "wait: %q is not a duration such as 30s", berth.Clip(s, 64))
	case policy != berth.Foreground:
		return 0, berth.Errorf(berth.Invalid, "wait: applies to foreground deletions only; with propagation %s the job is gone at once", policy)
	}
	return min(d, op.MaxWait), nil
}

// whileDeleting adds the progress of a deletion to its answer until the job is
// gone.
func whileDeleting(k berth.JobKey) func(after, now *state.Snapshot, out *op.JobStopped) (done bool) {
	return func(after, now *state.Snapshot, out *op.JobStopped) bool {
		out.Deletion = nil
		if marked, d := after.Deletion(k), now.Deletion(k); marked != nil && d != nil && d.UID == marked.UID {
			out.Deletion = deletionView(now, d)
		}
		return out.Deletion == nil
	}
}
