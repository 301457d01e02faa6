package api

import (
	"context"
	"errors"
	"time"

	"berth"
	"berth/internal/acl"
	"berth/internal/state"
	"berth/op"
)

func deletionView(s *state.Snapshot, d *state.JobDeletion) *op.Deletion {
	if d == nil {
		return nil
	}
	return &op.Deletion{Deletion: d.Deletion, Blocking: s.Blocking(d.Key, d.UID) + s.Dependents(d.UID)}
}

// deleteJob deletes a job with what it owns, or leaves that to itself.
func deleteJob(w *Write, in *op.StopJob) (out op.JobStopped, err error) {
	c := &state.DeleteJob{
		Key: berth.JobKey{Namespace: w.Space(), ID: berth.JobID(in.JobID)}, Intent: berth.IntentUser, Force: in.Force,
		NoShutdownDelay: in.NoShutdownDelay, Now: w.Now.UnixNano(),
	}
	if in.Force {
		if err := w.server.Authorize(w.Caller, acl.Management, ""); err != nil {
			return out, err
		}
	}
	if c.Policy, err = berth.ParsePropagation("propagation", in.Propagation); err != nil {
		return out, err
	}
	if c.UID, err = uidOf("uid", in.UID, 'j'); err != nil {
		return out, err
	}
	wait, err := waitFor(in.Wait, c.Policy)
	if err != nil {
		return out, err
	}
	if j := w.Job(c.Key); c.Policy != berth.Orphan && (j == nil || j.Schedulable()) {
		c.Eval = seed(w, berth.TriggerJobDeregister, in.EvalPriority)
	}
	index, err := w.Do(c)
	if errors.Is(err, state.ErrDialect) && c.Policy == berth.Background { // servers that are not upgraded yet have another word for this one
		index, err = w.Do(&state.StopJob{Key: c.Key, UID: c.UID, Purge: true, NoShutdownDelay: c.NoShutdownDelay, Eval: c.Eval, Now: c.Now})
	}
	switch {
	case err == nil:
		out = op.JobStopped{EvalID: c.Eval.ID, JobModifyIndex: index}
		if !out.EvalID.IsZero() {
			out.EvalCreateIndex = index
		}
	case berth.KindOf(err) != berth.Conflict:
		return out, err
	default: // to ask again for what is under way changes nothing
		d := w.server.Store.Snapshot().Deletion(c.Key)
		if d == nil || d.Deletion.Policy != c.Policy || !c.UID.IsZero() && c.UID != d.UID {
			return out, err
		}
		index = d.Deletion.RequestIndex
		out = op.JobStopped{JobModifyIndex: index}
	}
	if c.Policy == berth.Foreground {
		if out.Deletion, err = w.whileDeleting(c.Key, wait); err != nil {
			return out, err
		}
	}
	out.Meta = op.Meta{Index: index, KnownLeader: true}
	return out, nil
}

// waitFor reads how long a caller wants to wait for a job to go.
func waitFor(s string, policy berth.Propagation) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil || d < 0:
		return 0, berth.Errorf(berth.Invalid, "wait: %q is not a duration such as 30s", clip(s))
	case policy != berth.Foreground:
		return 0, berth.Errorf(berth.Invalid, "wait: a job that is deleted with propagation %s is gone at once; there is nothing to wait for", policy)
	}
	return min(d, op.MaxWait), nil
}

// whileDeleting waits until a job that is being deleted has gone, and returns
// how far it is, nil if it has.
func (w *Write) whileDeleting(k berth.JobKey, wait time.Duration) (*op.Deletion, error) {
	store := w.server.Store
	marked := store.Snapshot().Deletion(k)
	if marked == nil {
		return nil, nil
	}
	now := func() *op.Deletion {
		s := store.Snapshot()
		if d := s.Deletion(k); d != nil && d.UID == marked.UID {
			return deletionView(s, d)
		}
		return nil
	}
	if wait == 0 {
		return now(), nil
	}
	if err := w.server.waiting.enter(w.Caller); err != nil {
		return nil, err
	}
	defer w.server.waiting.exit(w.Caller)
	ctx, cancel := context.WithTimeout(w.ctx, wait)
	defer cancel()
	watch := store.Watch(state.OnJob(k))
	defer watch.Stop()
	for {
		if d := now(); d == nil || watch.Wait(ctx) != nil {
			return d, nil
		}
	}
}
