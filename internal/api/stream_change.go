package api

import (
	"berth"
	"berth/internal/admit"
	"berth/internal/state"
	"berth/op"
)

// writeRegion gives a parallel region another width: a version of the job that
// differs from the newest in that alone. A job that is being submitted moves to
// the newest version once the submission is over, so the last of several changes
// wins; a job that is being replaced starts with it.
func writeRegion(w *Write, in *op.SetRegion) (ch Change[op.RegionSet], err error) {
	k := w.job(in.JobID)
	j := w.Job(k)
	if j == nil {
		return ch, berth.Errorf(berth.NotFound, "job not found: %s", k)
	}
	if err := w.widens(j, in); err != nil {
		return ch, err
	}
	// The width belongs to what the job will be, not to what it is at the
	// moment.
	wanted := wantedJob(w.Snapshot, j)
	if regionOf(wanted, in.Region) == nil {
		return ch, noRegion(wanted, in.Region)
	}
	n := state.Widened(wanted, in.Region, in.Width)
	if err := admit.Validate(n).Err(); err != nil {
		return ch, err
	}
	// Only the version that was looked at may be changed.
	c := &state.RegisterJob{Job: n, Enforce: true, Index: j.JobModifyIndex, Now: w.Now.UnixNano()}
	return propose(c, func(o *Outcome) op.RegionSet {
		out := op.RegionSet{Width: in.Width, JobModifyIndex: o.Index, Meta: o.Meta()}
		if j := o.After.Job(k); j != nil {
			out.JobVersion, out.JobModifyIndex = wantedJob(o.After, j).Version, j.JobModifyIndex
		}
		return out
	}), nil
}

// widens refuses a job whose regions cannot change their width.
func (w *Write) widens(j *berth.Job, in *op.SetRegion) error {
	d, row := w.Deletion(j.Key()), w.StreamOf(j.Key())
	uid, err := uidOf("UID", in.UID, 'j')
	switch {
	case err != nil:
		return err
	case row == nil:
		return berth.Errorf(berth.Invalid, "job %q is of type %s: only jobs of type %s have parallel regions", j.ID, j.Type, berth.TypeStream)
	case !uid.IsZero() && uid != j.UID:
		return berth.Refusef(berth.CodeUIDMismatch, "job %q is %s now", j.ID, j.UID.Text('j'))
	case in.Width < 1 || in.Width > berth.MaxWidth:
		return berth.Errorf(berth.Invalid, "Width: must be from 1 to %d, got %d", berth.MaxWidth, in.Width)
	case in.JobModifyIndex != 0 && in.JobModifyIndex != j.JobModifyIndex:
		return berth.Errorf(berth.Conflict, "JobModifyIndex: job %q is at index %d, not %d", j.ID, j.JobModifyIndex, in.JobModifyIndex)
	case d != nil && d.Deletion.Intent == berth.IntentUser:
		return berth.Refusef(berth.CodeDeleting, "job %q, %s, is being deleted since index %d", j.ID, j.UID.Text('j'), d.Deletion.RequestIndex)
	case d == nil && (row.Phase == berth.PhaseStopped || row.Phase == berth.PhaseFailed):
		return berth.Errorf(berth.Invalid, "job %q is %s: run it before changing its regions", j.ID, row.Phase)
	}
	return nil
}

// changeObject changes the object that a request names, if the caller has the
// right.
func changeObject(w *Write, kind, text string, info *op.Info, change func(uid berth.UID, now int64) state.Command) (ch Change[op.Changed], err error) {
	o, err := w.read().object(kind, text)
	if err != nil {
		return ch, err
	}
	if err := w.may(info.Need, o.Job.Namespace); err != nil {
		return ch, err
	}
	return propose(change(o.UID, w.Now.UnixNano()), func(o *Outcome) op.Changed {
		return op.Changed{Index: o.Index, Meta: o.Meta()}
	}), nil
}

// writeProperties decides the properties of an export, which subscriptions
// match.
func writeProperties(w *Write, in *op.SetExport) (Change[op.Changed], error) {
	return changeObject(w, berth.KindExport, in.Export, op.WriteProperties.Info, func(uid berth.UID, now int64) state.Command {
		return &state.SetExport{UID: uid, Properties: in.Properties, Now: now}
	})
}

// writeFilter decides what an import lets through of the streams that it is
// connected to.
func writeFilter(w *Write, in *op.SetFilter) (ch Change[op.Changed], err error) {
	if in.Filter == nil {
		return ch, berth.Errorf(berth.Invalid, "Filter: is missing: set \"\" to let everything through")
	}
	return changeObject(w, berth.KindImport, in.Import, op.WriteFilter.Info, func(uid berth.UID, now int64) state.Command {
		return &state.SetImport{UID: uid, Filter: in.Filter, Now: now}
	})
}

// writeSubscription decides which exports an import is connected to.
func writeSubscription(w *Write, in *op.SetSubscription) (ch Change[op.Changed], err error) {
	if in.Subscription == nil {
		return ch, berth.Errorf(berth.Invalid, "Subscription: is missing: set \"\" to subscribe to nothing")
	}
	return changeObject(w, berth.KindImport, in.Import, op.WriteSubscribed.Info, func(uid berth.UID, now int64) state.Command {
		return &state.SetImport{UID: uid, Subscription: in.Subscription, Now: now}
	})
}
