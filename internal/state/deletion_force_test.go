package state_test

import (
	"fmt"
	"testing"

	"berth"
	"berth/internal/state"
	"berth/internal/state/codec"
	"berth/internal/state/statetest"
)

func forces(eval int) *state.DeleteJob {
	c := deletes(berth.Foreground, eval)
	c.Force = true
	return c
}

// A job that is deleted by force waits for nothing that it runs. That is lost at
// once, whatever its node is; its agent is told to stop it, and what that says of
// it changes nothing.
func TestForcedDeletion(t *testing.T) {
	for _, marked := range []bool{false, true} {
		store, log := running(t)
		log.Must(t, &state.RaiseLogVersion{To: codec.LogVersion})
		j := store.Snapshot().Job(webKey)
		for _, p := range []berth.Propagation{berth.Background, berth.Orphan} {
			c := forces(2)
			c.Policy = p
			refusedAs(t, log, c, berth.Invalid, "force: with propagation "+string(p)+" the job is gone at once")
		}
		if marked {
			log.Must(t, deletes(berth.Foreground, 2), report(store, 1, berth.ClientComplete))
			before := store.Snapshot().Deletion(webKey).Deletion
			log.Must(t, forces(3))
			before.Force = true
			if now := store.Snapshot().Deletion(webKey).Deletion; now != before {
				t.Errorf("the mark was %+v and is %+v", before, now)
			}
			wantTold(t, store, "deleting since 5, held by 0; run complete; stop lost")
		} else {
			log.Must(t, forces(3))
			wantTold(t, store, "deleting since 5, held by 0; stop lost; stop lost")
		}
		s := store.Snapshot()
		var last *berth.Alloc
		for a := range s.Allocs() {
			last = a
		}
		n := s.Node(last.NodeID)
		if m := last.Rest(); m.StopReason != berth.StopForced || m.ClientDescription != berth.StopForced.String() || last.AllocModifyIndex != s.Index || s.Usage(n.Number).Changed != s.Index {
			t.Errorf("it is lost like %+v, changed for its agent at %d, of node %s at %d", m, last.AllocModifyIndex, n.Status, s.Usage(n.Number).Changed)
		}
		was := told(s)
		log.Must(t, report(store, 2, berth.ClientRunning), report(store, 2, berth.ClientFailed))
		if now := told(store.Snapshot()); now != was {
			t.Errorf("after a report it is %q; before it was %q", now, was)
		}
		refusedAs(t, log, forces(4), berth.Conflict, "already-done: job")
		log.Must(t, finalizes(j), statetest.Register(sized(t, 2, ""), 5))
		if store.Snapshot().Job(webKey).UID == j.UID {
			t.Error("it is the same job")
		}
	}
}

// What a stream job runs is given up when the job is deleted by force, whatever
// it was to become; nothing is launched beside it, for nothing launches for a job
// that is being deleted.
func TestForcedDeletionOfStreams(t *testing.T) {
	for _, recovering := range []bool{false, true} {
		f := newFlow(t)
		f.must(f.registers(1, 100, ""))
		f.must(f.plans())
		f.ensureAll()
		f.run("src[0]", 1)
		j, pe, a := f.job(), f.pe("src[0]"), f.of("src[0]")[0]
		version := 1
		if recovering {
			f.must(f.recovers(state.RecoverInterrupted))
			version = 0
		}
		c := f.deletes(berth.Foreground)
		c.Force = true
		f.must(c)
		f.want(fmt.Sprintf("Submission 1.0 version %d, deleting to user; 2 PEs of 9; src[0] 1 stop/lost; work[0] 0", version))
		f.refused(f.launches("src[0]"), "owner-deleting: job")
		f.refused(&state.SetConnectivity{Alloc: a.ID, PE: pe.UID, Launch: 1, State: berth.ConnectivityFull}, "stale-launch: allocation")
		f.sweep()
		f.want(fmt.Sprintf("Submission 1.0 version %d, deleting to user; 0 PEs of 0", version))
		f.must(finalizes(j))
		f.want()
		f.must(f.registers(1, 100, ""))
		f.submit()
		if now := f.pe("src[0]"); now.UID == pe.UID || now.PE.Launch != 1 {
			t.Errorf("the one that follows is %+v", now)
		}
	}
}

// What a user stopped, or what was given up, is about to go: it is not left to
// itself when the job is deleted so.
func TestWhatEndsIsNoOrphan(t *testing.T) {
	store, log := running(t)
	log.Must(t, &state.StopJob{Key: webKey, Eval: byUser(8, berth.TriggerJobDeregister), Now: 3}, deletes(berth.Orphan, 2))
	wantTold(t, store, "gone; stop running; stop running")

	for _, how := range []string{berth.PhaseStopped, berth.PhaseFailed} {
		f := newFlow(t)
		f.must(f.registers(1, 100, ""))
		f.must(f.plans())
		f.ensureAll()
		f.run("src[0]", 1)
		if how == berth.PhaseStopped {
			f.must(&state.StopJob{Key: flowKey, Eval: f.seed()})
		} else {
			f.must(&state.FailSubmission{Key: flowKey, UID: f.row().UID, Error: "drawn"})
		}
		f.must(f.deletes(berth.Orphan))
		f.want(how + " 1.0 gone; 2 PEs of 9; src[0] 1 stop/pending; work[0] 0")
		f.end()
		f.want()
		for range f.store.Snapshot().OrphanedResources() {
			t.Fatal("something is left to itself")
		}
	}
}

// A parent that is deleted in the foreground goes after its children. To delete it
// otherwise leaves them as they are, and so did every deletion before log version
// 10.
func TestChildrenOutliveTheirParent(t *testing.T) {
	for _, p := range berth.Propagations {
		store, log := statetest.New(t, statetest.AddNode(1, 1000, 1000), &state.RaiseLogVersion{To: 9}, registerParent(parent(t, "web", `"Periodic": {"Spec": "* * * * *"}`), 1))
		log.Must(t, launch("web", 60, 60, 1))
		child := func() (j *berth.Job) {
			for j = range store.Snapshot().ChildrenOf(webKey) {
			}
			return j
		}
		was := child()
		log.Must(t, &state.ApplyPlan{Eval: statetest.ID[berth.Eval](1), Place: []berth.Placement{{NodeID: statetest.ID[berth.Node](1)}}, End: &state.EvalEnd{Status: berth.EvalComplete}})
		c := deletes(p, 0)
		c.Eval, c.Force = state.EvalSeed{}, p == berth.Foreground
		log.Must(t, c)
		if p == berth.Foreground {
			log.Must(t, finalizes(store.Snapshot().Job(webKey)))
		}
		now := child()
		if store.Snapshot().Job(webKey) != nil || now == nil || now.UID != was.UID || now.Stop || now.ParentID != "web" {
			t.Fatalf("%s: the child is %+v", p, now)
		}
		for a := range store.Snapshot().Allocs() {
			if a.Orphaned || !a.Wanted() || a.Client != berth.ClientPending || a.Owners()[0].UID != was.UID.Text('j') {
				t.Errorf("%s: the child's allocation is %s, %s, owned by %+v", p, a.Desired, a.Client, a.Owners())
			}
		}
	}
}

// A job that is being deleted in the foreground is held by its children, also by
// force; then its mark says that they are to go by force as well.
func TestChildrenHoldTheirParent(t *testing.T) {
	store, log := statetest.New(t, statetest.AddNode(1, 1000, 1000), &state.RaiseLogVersion{To: codec.LogVersion}, registerParent(parent(t, "web", `"Periodic": {"Spec": "* * * * *"}`), 1))
	log.Must(t, launch("web", 60, 60, 1))
	c := deletes(berth.Foreground, 0)
	c.Eval = state.EvalSeed{}
	log.Must(t, c)
	web := store.Snapshot().Job(webKey)
	refusedAs(t, log, finalizes(web), berth.Conflict, "is held by its children: 1")
	if store.Snapshot().Deletion(webKey).Deletion.Force {
		t.Error("the mark says that it is deleted by force")
	}
	c.Force = true
	log.Must(t, c)
	if !store.Snapshot().Deletion(webKey).Deletion.Force {
		t.Error("the mark does not say that it is deleted by force")
	}
	refusedAs(t, log, c, berth.Conflict, "already-done: job")
	refusedAs(t, log, finalizes(web), berth.Conflict, "is held by its children: 1")
	for j := range store.Snapshot().ChildrenOf(webKey) {
		log.Must(t, &state.DeleteJob{Key: j.Key(), Policy: berth.Background, Intent: berth.IntentUser, Now: 9})
	}
	log.Must(t, finalizes(web))
	if store.Snapshot().Job(webKey) != nil {
		t.Error("it is still there")
	}
}
