package api

import (
	"berth"
	"berth/internal/state"
	"berth/op"
)

// writeRegion gives a parallel region another width: a version of the job that
// is like the newest but for that. A job that is in a submission is brought to
// the newest version when that is over, so that of several changes the last
// counts; one that is to begin anew begins with it.
func writeRegion(w *Write, in *op.SetRegion) (out op.RegionSet, err error) {
	k := berth.JobKey{Namespace: w.Space(), ID: berth.JobID(in.JobID)}
	j := w.Job(k)
	if j == nil {
		return out, berth.Errorf(berth.NotFound, "job not found: %s", k)
	}
	if err := w.widens(j, in); err != nil {
		return out, err
	}
	wanted := wantedJob(w.Snapshot, j)
	if regionOf(wanted, in.Region) == nil {
		return out, noRegion(wanted, in.Region)
	}
	n := state.Widened(wanted, in.Region, in.Width)
	if err := n.Validate().Err(); err != nil {
		return out, err
	}
	// What was looked at is changed, and nothing else.
	index, err := w.Do(&state.RegisterJob{Job: n, Enforce: true, Index: j.JobModifyIndex, Now: w.Now.UnixNano()})
	if err != nil {
		return out, err
	}
	out = op.RegionSet{Width: in.Width, JobModifyIndex: index}
	now := w.server.Store.Snapshot()
	if j := now.Job(k); j != nil {
		out.JobVersion, out.JobModifyIndex = wantedJob(now, j).Version, j.JobModifyIndex
	}
	out.Meta = op.Meta{Index: index, KnownLeader: true}
	return out, nil
}

// widens refuses a job whose regions cannot have another width.
func (w *Write) widens(j *berth.Job, in *op.SetRegion) error {
	d, row := w.Deletion(j.Key()), w.StreamOf(j.Key())
	uid, err := uidOf("UID", in.UID, 'j')
	switch {
	case err != nil:
		return err
	case row == nil:
		return berth.Errorf(berth.Invalid, "job %q is of type %s; parallel regions are of jobs of type %s", j.ID, j.Type, berth.TypeStream)
	case !uid.IsZero() && uid != j.UID:
		return berth.Errorf(berth.Conflict, "uid-mismatch: job %q is %s now", j.ID, j.UID.Text('j'))
	case in.Width < 1 || in.Width > berth.MaxWidth:
		return berth.Errorf(berth.Invalid, "Width: %d is out of range; allowed are 1 to %d", in.Width, berth.MaxWidth)
	case in.JobModifyIndex != 0 && in.JobModifyIndex != j.JobModifyIndex:
		return berth.Errorf(berth.Conflict, "JobModifyIndex: job %q is at index %d, not %d", j.ID, j.JobModifyIndex, in.JobModifyIndex)
	case d != nil && d.Deletion.Intent == berth.IntentUser:
		return berth.Errorf(berth.Conflict, "%w: job %q, %s, is being deleted since index %d", berth.ErrDeleting, j.ID, j.UID.Text('j'), d.Deletion.RequestIndex)
	case d == nil && (row.Phase == berth.PhaseStopped || row.Phase == berth.PhaseFailed):
		return berth.Errorf(berth.Invalid, "job %q is %s; run it before its regions are changed", j.ID, row.Phase)
	}
	return nil
}

// object returns the resource that a request names.
func (w *Write) object(kind, text string, info *op.Info) (*berth.Resource, error) {
	r := &Read{Snapshot: w.Snapshot, Query: &op.Query{Namespace: w.Space()}, Caller: w.Caller, server: w.server}
	o, err := r.object(kind, text)
	if err != nil {
		return nil, err
	}
	return o, w.server.Authorize(w.Caller, info.Need, o.Job.Namespace)
}

// changed makes one change of an object.
func (w *Write) changed(c state.Command) (out op.Changed, err error) {
	index, err := w.Do(c)
	if err != nil {
		return out, err
	}
	return op.Changed{Index: index, Meta: op.Meta{Index: index, KnownLeader: true}}, nil
}

func writeProperties(w *Write, in *op.SetExport) (out op.Changed, err error) {
	o, err := w.object(berth.KindExport, in.Export, op.WriteProperties.Info)
	if err != nil {
		return out, err
	}
	return w.changed(&state.SetExport{UID: o.UID, Properties: in.Properties, Now: w.Now.UnixNano()})
}

func writeFilter(w *Write, in *op.SetFilter) (out op.Changed, err error) {
	if in.Filter == nil {
		return out, berth.Errorf(berth.Invalid, "Filter: is missing; \"\" is none, which lets everything through")
	}
	o, err := w.object(berth.KindImport, in.Import, op.WriteFilter.Info)
	if err != nil {
		return out, err
	}
	return w.changed(&state.SetImport{UID: o.UID, Filter: in.Filter, Now: w.Now.UnixNano()})
}

func writeSubscription(w *Write, in *op.SetSubscription) (out op.Changed, err error) {
	if in.Subscription == nil {
		return out, berth.Errorf(berth.Invalid, "Subscription: is missing; \"\" is none")
	}
	o, err := w.object(berth.KindImport, in.Import, op.WriteSubscribed.Info)
	if err != nil {
		return out, err
	}
	return w.changed(&state.SetImport{UID: o.UID, Subscription: in.Subscription, Now: w.Now.UnixNano()})
}
