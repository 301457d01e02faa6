package state_test

import (
	"fmt"
	"slices"
	"testing"

	"berth"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// A submission that was interrupted starts over: nothing of the old incarnation
// is left in the new one but that it was.
func TestRecovery(t *testing.T) {
	f := newFlow(t)
	f.must(f.registers(1, 100, ""))
	f.refused(f.recovers(state.RecoverInterrupted), "already-done: none") // there is no plan
	f.must(f.plans())
	f.ensureAll()
	f.run("src[0]", 1)
	f.must(&state.SetConnectivity{Alloc: f.of("src[0]")[0].ID, PE: f.pe("src[0]").UID, Launch: 1, State: berth.ConnectivityFull})
	first := f.job()
	f.must(f.recovers(state.RecoverTimeout))
	f.want("Submission 1.0 version 0, deleting to recover; 2 PEs of 9; src[0] 1 run/pending; work[0] 0")
	f.refused(f.recovers(state.RecoverTimeout), "already-done: none")
	f.refused(f.launches("work[0]"), "owner-deleting: job")
	f.refused(f.completes(), "owner-deleting: job")
	f.refused(f.ensures(berth.KindPE), "owner-deleting: job")
	f.refused(&state.FailSubmission{Key: flowKey, UID: first.UID, Error: "late"}, "owner-deleting: job")
	f.refused(finalizes(first), "not-empty: job")
	f.refused(&state.CollectResources{UIDs: []berth.UID{f.pe("src[0]").UID}}, "not-empty: flow.src[0]")
	late := f.places("work[0]", 1)
	f.must(&state.CreateEvals{Evals: []state.EvalFor{{EvalSeed: f.seed(), Key: flowKey}}})
	late.Eval = statetest.ID[berth.Eval](f.evals)
	f.refused(late, "owner-deleting: job")

	// Both a stopped allocation and a deleted processing element are allowed.
	f.must(&state.StopAlloc{ID: f.of("src[0]")[0].ID, Eval: f.seed()}, &state.DeleteResource{UID: f.pe("work[0]").UID, Propagation: berth.Background})
	f.want("Submission 1.0 version 0, deleting to recover; 1 PEs of 8; src[0] 1 run/pending")
	f.end()
	f.want("Submission 1.0 version 0, deleting to recover; 0 PEs of 0")
	f.must(finalizes(first))
	f.want("Submission 0.0 version 0; 0 PEs of 0; recovery 1 by timeout, retries 1")
	second := f.job()
	switch was := f.row().Recovery.Predecessors; {
	case second.UID == first.UID || second.CreateIndex != second.UID.Index || second.Stop:
		t.Errorf("the job that follows is %+v", second)
	case len(was) != 1 || was[0] != first.UID:
		t.Errorf("before it were %v", was)
	case f.store.Snapshot().Submission(flowKey, 0) == nil:
		t.Error("what it was made from is forgotten")
	}
	f.refused(finalizes(first), "already-done")
	f.refused(&state.DeleteJob{Key: flowKey, UID: first.UID, Policy: berth.Background, Intent: berth.IntentUser}, "uid-mismatch: job \"flow\" is "+second.UID.Text('j'))
	f.submit()
	f.want("Submitted 2.0 version 0; 2 PEs of 9; recovery 1 by timeout, retries 1; src[0] 1 run/pending; work[0] 1 run/pending")
	f.refused(&state.SetConnectivity{Alloc: f.of("src[0]")[0].ID, PE: f.pe("src[0]").UID, Launch: 1, State: berth.ConnectivityFull}, "stale-launch: allocation")
}

// What a user wants of a job while it is deleted to start over, R5 to R12.
func TestUsersDuringRecovery(t *testing.T) {
	begin := func(t *testing.T) *flow {
		f := newFlow(t)
		f.must(f.registers(1, 100, ""))
		f.must(f.plans())
		f.ensureAll()
		f.run("src[0]", 1)
		f.must(f.recovers(state.RecoverInterrupted))
		return f
	}
	t.Run("deletes it in the foreground", func(t *testing.T) {
		f := begin(t)
		j, since := f.job(), f.store.Snapshot().Deletion(flowKey).Deletion.RequestIndex
		f.must(f.deletes(berth.Foreground))
		if d := f.store.Snapshot().Deletion(flowKey).Deletion; d.Intent != berth.IntentUser || d.RequestIndex != since {
			t.Errorf("the mark is %+v", d)
		}
		f.refused(f.deletes(berth.Foreground), "already-done: job")
		f.refused(f.recovers(state.RecoverInterrupted), "already-done: none")
		f.refused(f.registers(1, 200, ""), "deleting: job")
		f.end()
		f.must(finalizes(j))
		f.want()
		if f.job() != nil {
			t.Error("it is there")
		}
	})
	t.Run("deletes it in the background", func(t *testing.T) {
		f := begin(t)
		f.refused(f.deletes(berth.Orphan), "deleting: job")
		f.must(f.deletes(berth.Background))
		f.want("Submission 1.0 gone; 2 PEs of 9; src[0] 1 run/pending; work[0] 0")
		f.must(f.registers(1, 100, "")) // R13
		f.submit()
		f.want("Submission 1.0 gone; 1 PEs of 1; src[0] 1 run/pending", "Submitted 2.0 version 0; 2 PEs of 9; src[0] 1 run/pending; work[0] 1 run/pending")
		f.end()
		f.want("Submitted 2.0 version 0; 2 PEs of 9; src[0] 1 run/complete; work[0] 1 run/complete")
	})
	t.Run("registers it", func(t *testing.T) {
		f := begin(t)
		j := f.job()
		stale := f.registers(1, 200, "")
		stale.Enforce, stale.Index = true, j.JobModifyIndex-1
		refusedAs(t, f.log, stale, berth.Conflict, "Enforcing job modify index")
		f.must(f.registers(2, 300, ""), f.registers(3, 200, ""))
		f.refused(f.recovers(state.RecoverInterrupted), "already-done: none")
		f.end()
		f.must(finalizes(j))
		f.want("Submission 0.0 version 1; 0 PEs of 0; recovery 1 by leader-change, retries 0")
		if n := f.job().TaskGroups[1].Count; n != 3 {
			t.Errorf("its width is %d", n)
		}
		for v := range uint64(2) {
			if s := f.store.Snapshot().Submission(flowKey, v); s == nil || f.store.Snapshot().JobVersion(flowKey, v).UID != f.job().UID {
				t.Errorf("version %d is not what it was made from", v)
			}
		}
		f.submit()
	})
	t.Run("stops it", func(t *testing.T) {
		f := begin(t)
		j := f.job()
		f.must(&state.StopJob{Key: flowKey, Eval: f.seed()})
		f.want("Stopped 1.0 version 0; 2 PEs of 9; src[0] 1 run/pending; work[0] 0")
		f.refused(finalizes(j), "already-done")
		f.end()
		f.want("Stopped 1.0 version 0; 0 PEs of 0")
	})
}

// A job that was stopped or given up is another incarnation when it is
// registered again; until the old one has gone with all it owns, there is no
// new one.
func TestStoppedAndGivenUp(t *testing.T) {
	for _, how := range []string{berth.PhaseStopped, berth.PhaseFailed} {
		f := newFlow(t)
		f.must(f.registers(1, 100, ""))
		f.must(f.plans())
		f.ensureAll()
		f.run("src[0]", 1)
		version := 0
		if how == berth.PhaseStopped {
			f.must(&state.StopJob{Key: flowKey, Eval: f.seed()})
			version = 1
		} else {
			f.refused(&state.FailSubmission{Key: flowKey, UID: f.row().UID}, "Error: must be 1 to 4096 bytes, got 0")
			f.must(&state.FailSubmission{Key: flowKey, UID: f.row().UID, Error: "no node is called n9"})
			if status, _ := f.store.Snapshot().Summary(flowKey).Status(f.job()); f.row().LastError == "" || status != berth.JobRunning {
				t.Errorf("it is %s, %+v", status, f.row())
			}
		}
		f.want(fmt.Sprintf("%s 1.0 version %d; 2 PEs of 9; src[0] 1 run/pending; work[0] 0", how, version))
		f.refused(f.launches("work[0]"), "owner-deleting: job")
		if how == berth.PhaseFailed {
			f.refused(&state.ScaleJob{Key: flowKey, Group: "work", Change: true, Count: 2}, "owner-deleting: job")
		}
		j := f.job()
		f.must(f.registers(1, 200, ""))
		f.want(fmt.Sprintf("%s 1.0 version %d, deleting to replace; 2 PEs of 9; src[0] 1 run/pending; work[0] 0", how, version))
		f.end()
		f.must(finalizes(j))
		f.want(fmt.Sprintf("Submission 0.0 version %d; 0 PEs of 0", version+1))
		f.submit()
		f.want(fmt.Sprintf("Submitted 2.0 version %d; 2 PEs of 9; src[0] 1 run/pending; work[0] 1 run/pending", version+1))
	}
}

// What a user deletes of a job that is alive is made again, with another UID; a
// processing element goes on counting and waits for what ran before.
func TestDeletedAndMadeAgain(t *testing.T) {
	f := newFlow(t)
	f.must(f.registers(1, 100, ""))
	f.submit()
	was := f.pe("src[0]")
	f.refused(&state.DeleteResource{UID: was.UID, Propagation: berth.Orphan}, "propagation \"orphan\"")
	f.must(&state.DeleteResource{UID: was.UID, Propagation: berth.Background})
	if d := f.row().Deleted; len(d) != 1 || d[0] != (berth.DeletedPE{Name: "flow.src[0]", UID: was.UID, Launch: 1}) {
		t.Errorf("what is to be made again is %+v", d)
	}
	f.refused(&state.SetConnectivity{Alloc: f.of("src[0]")[0].ID, PE: was.UID, Launch: 1, State: berth.ConnectivityFull}, "stale-launch")
	f.ensureAll()
	if is := f.pe("src[0]"); is.UID == was.UID || is.PE.Before != was.UID || is.PE.Launch != 1 || len(f.row().Deleted) != 0 {
		t.Errorf("it is %+v, %+v", is, is.PE)
	}
	f.must(f.launches("src[0]"))
	f.must(&state.CreateEvals{Evals: []state.EvalFor{{EvalSeed: f.seed(), Key: flowKey}}})
	c := f.places("src[0]", 2)
	f.must(c)
	if len(c.Refused) != 1 || c.Refused[0].Reason != "an earlier allocation of flow.src[0] has not ended" {
		t.Errorf("it is refused for %+v", c.Refused)
	}
	// Deleted once more before anything ran of it: the third waits for the first.
	f.must(&state.DeleteResource{UID: f.pe("src[0]").UID, Propagation: berth.Background})
	f.ensureAll()
	if is := f.pe("src[0]"); is.PE.Before != was.UID || is.PE.Launch != 2 {
		t.Errorf("it is %+v", is.PE)
	}
	f.must(report(f.store, 1, berth.ClientComplete))
	f.run("src[0]", 2)
	for _, kind := range []string{berth.KindConfig, berth.KindEndpoint, berth.KindExport, berth.KindRegion} {
		r := slices.Collect(f.store.Snapshot().ResourcesOf(f.row().UID, kind))[0]
		f.must(&state.DeleteResource{UID: r.UID, Propagation: berth.Foreground})
		refusedAs(t, f.log, &state.DeleteResource{UID: r.UID, Propagation: berth.Background}, berth.NotFound, "not found")
		f.ensureAll()
		if is := f.resource(kind, r.Name); is == nil || is.UID == r.UID {
			t.Errorf("%s was not made again", kind)
		}
	}
}

// The three ways to delete a stream job.
func TestDeletionOfStreams(t *testing.T) {
	f := newFlow(t)
	f.must(f.registers(1, 100, ""))
	f.submit()
	first := f.job()
	f.must(f.deletes(berth.Orphan))
	f.want()
	s := f.store.Snapshot()
	orphans := slices.Collect(s.OrphanedResources())
	if len(orphans) != 9 {
		t.Errorf("%d are left to themselves", len(orphans))
	}
	f.must(f.registers(1, 100, ""))
	f.submit()
	f.want("Submitted 2.0 version 0; 2 PEs of 9; src[0] 1 run/pending; work[0] 1 run/pending")
	i := slices.IndexFunc(orphans, func(r *berth.Object) bool { return r.Name == "flow.src[0]" && r.PE != nil })
	f.refused(&state.CollectResources{UIDs: []berth.UID{orphans[i].UID}}, "owner-missing: ProcessingElement")
	f.refused(&state.LaunchPE{PE: orphans[i].UID, Expect: 1}, "owner-missing: flow.src[0]")
	f.must(&state.DeleteResource{UID: orphans[i].UID, Propagation: berth.Background})
	if a := f.of("src[0]")[0]; a.Job.UID != first.UID || a.Desired != berth.DesiredStop {
		t.Errorf("the orphan is %s", a.Desired)
	}

	second := f.job()
	f.must(f.deletes(berth.Foreground))
	f.want("Submitted 2.0 version 1, deleting to user; 2 PEs of 9; src[0] 1 run/pending; work[0] 1 run/pending")
	f.refused(f.registers(1, 100, ""), "deleting: job")
	f.end()
	f.must(finalizes(second))
	f.want()
	f.must(f.registers(1, 100, ""), f.deletes(berth.Background)) // which has nothing yet
	f.want()
	if n := f.store.Snapshot().LastStreamID(); n != 2 {
		t.Errorf("the last number is %d", n)
	}
}

// What a leader decided is refused once another leads, whatever it is.
func TestStreamsOfADeposedLeader(t *testing.T) {
	f := newFlow(t, &state.BeginTerm{Term: 3, Cluster: [16]byte{1}})
	f.must(f.registers(1, 100, ""))
	plan := f.plans()
	f.must(f.plans())
	f.ensureAll()
	pe := f.pe("src[0]").UID
	for _, c := range []interface {
		state.Command
		Stamp(term uint64)
	}{
		plan, f.ensures(berth.KindPE), f.launches("src[0]"), f.completes(), f.recovers(state.RecoverTimeout),
		&state.FailSubmission{Key: flowKey, UID: f.row().UID, Error: "late"}, &state.CollectResources{UIDs: []berth.UID{pe}}, finalizes(f.job()),
	} {
		c.Stamp(2)
		f.refused(c, "stale-epoch: the command is of term 2")
	}
}
