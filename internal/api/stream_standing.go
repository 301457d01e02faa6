package api

import (
	"berth"
	"berth/internal/state"
	"berth/internal/streams/submit"
	"berth/op"
)

// readStreamJob returns how far the submission of a stream job has come.
func readStreamJob(r *Read, in *op.StreamJobRef) (out op.StreamStanding, err error) {
	j, row, err := r.streamJob(in.JobID)
	if err != nil {
		return out, err
	}
	r.ofStream(j.Key(), j.UID)
	return standingView(r.Snapshot, j, row), nil
}

// standingView compares what a stream job is to have with what exists. It is
// ready only after its submission, and not while it is deleted.
func standingView(s *state.Snapshot, j *berth.Job, row *berth.StreamJob) op.StreamStanding {
	p := submit.Position(s, row)
	v := op.StreamStanding{
		JobID: j.ID, Namespace: j.Namespace, UID: j.UID.Text('j'), StreamID: row.StreamID, Phase: row.Phase, State: p.State, Generation: row.Generation,
		Version: row.Version, Newest: wantedJob(s, j).Version, Expected: p.Expected, Observed: p.Observed, Missing: p.Missing, Stale: p.Stale,
		Deadline: row.Deadline, Retries: row.Retries, LastError: row.LastError, Recovery: recoveryView(row),
		Deletion: deletionView(s, s.Deletion(j.Key())),
	}
	v.Ready = p.Ready && row.Phase == berth.PhaseSubmitted && v.Deletion == nil
	return v
}

// readTree returns a stream job with all that it owns; the live allocations of
// a processing element stand below it.
func readTree(r *Read, in *op.StreamJobRef) (out op.ResourceTree, err error) {
	j, row, err := r.streamJob(in.JobID)
	if err != nil {
		return out, err
	}
	r.ofStream(j.Key(), j.UID)
	// Allocations are sorted by element once, not searched for each.
	allocs := map[berth.UID][]*resource{}
	for _, a := range byAge(r.AllocsOf(j.Key())) {
		if ref := a.Rest().PE; ref != nil && !a.Ended() {
			allocs[ref.UID] = append(allocs[ref.UID], &resource{alloc: a})
		}
	}
	// Everything goes with the job, so one answer holds for all.
	deleting := !r.AliveStream(row)
	node := func(o *resource) op.ResourceTree {
		return op.ResourceTree{Resource: r.resourceView(o), Deleting: deleting}
	}
	out = node(&resource{job: j})
	for _, kind := range berth.StreamKinds {
		for o := range r.ResourcesOf(j.UID, kind) {
			v := node(&resource{owned: o})
			for _, a := range allocs[o.UID] {
				v.Owns = append(v.Owns, node(a))
			}
			out.Owns = append(out.Owns, v)
		}
	}
	return out, nil
}
