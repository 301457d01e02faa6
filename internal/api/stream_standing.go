package api

import (
	"berth"
	"berth/internal/state"
	"berth/internal/streams/submit"
	"berth/op"
)

func readStreamJob(r *Read, in *op.StreamJobRef) (out op.StreamStanding, err error) {
	j, row, err := r.streamJob(in.JobID)
	if err != nil {
		return out, err
	}
	r.ofStream(j.Key(), j.UID)
	return standingView(r.Snapshot, j, row), nil
}

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

func readTree(r *Read, in *op.StreamJobRef) (out op.ResourceTree, err error) {
	j, row, err := r.streamJob(in.JobID)
	if err != nil {
		return out, err
	}
	r.ofStream(j.Key(), j.UID)
	allocs := map[berth.UID][]*resource{}
	for _, a := range byAge(r.AllocsOf(j.Key())) {
		if ref := a.Rest().PE; ref != nil && !a.Ended() {
			allocs[ref.UID] = append(allocs[ref.UID], &resource{alloc: a})
		}
	}
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
