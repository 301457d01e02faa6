package submit_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"berth"
	"berth/invariant"
	"berth/leader/submit"
	"berth/state"
	"berth/state/statetest"

	"pgregory.net/rapid"
)

// checked applies nothing: it asks what must hold now, and of the way here.
type checked struct {
	*world
	last *state.Snapshot
}

func (c *checked) look(t *rapid.T, what string) {
	now := c.tip()
	for _, v := range invariant.Check(now) {
		t.Fatalf("after %s: %v", what, v)
	}
	if c.last != nil {
		for _, v := range invariant.Between(c.last, now) {
			t.Fatalf("after %s: %v", what, v)
		}
	}
	c.last = now
}

// Whatever users do, agents say and leaders are lost in the middle of: what the
// controllers want is never refused when it is proposed at once, there is an end
// to it, and then every job that was not given up is whole.
func TestSubmissionsComeToAnEnd(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := &checked{world: newWorld(t, 4, ssd)}
		names := []string{"one", "two"}
		for n := range rapid.IntRange(1, 40).Draw(r, "deeds") {
			what := w.deed(r, names, n)
			w.look(r, what)
		}
		for range 12 { // what waits for others, or for a time, gets it
			w.settle()
			w.unblock()
			w.now = w.now.Add(time.Minute)
		}
		w.settle()
		w.look(r, "all")
		for row := range w.tip().StreamJobs() {
			j := w.tip().Job(row.Key)
			if j == nil || j.UID != row.UID {
				r.Fatalf("job %s is gone, and its submission is not: %+v\n%s", row.Key, row, w.dump())
			}
			s := submit.Position(w.tip(), row)
			switch row.Phase {
			case berth.PhaseSubmitted:
				if row.Version != j.Version {
					r.Fatalf("%s is submitted at version %d, and the job is at %d", row.Key, row.Version, j.Version)
				}
				if len(s.Stale) > 0 || slices.ContainsFunc(s.Missing, func(m string) bool { return m[:5] != "Alloc" }) {
					r.Fatalf("%s: %+v", row.Key, s)
				}
			case berth.PhaseFailed, berth.PhaseStopped:
				if w.tip().Dependents(row.UID) > 0 || w.tip().Summary(row.Key).Live > 0 {
					r.Fatalf("%s is %s and has something left", row.Key, row.Phase)
				}
			default:
				r.Fatalf("%s is in phase %s, %+v, after\n%s", row.Key, row.Phase, s, w.history())
			}
		}
	})
}

// deed is one thing that happens.
func (w *checked) deed(r *rapid.T, names []string, n int) string {
	k := berth.JobKey{Namespace: berth.DefaultNamespace, ID: berth.JobID(rapid.SampledFrom(names).Draw(r, "job"))}
	var allocs []*berth.Alloc
	for a := range w.tip().Allocs() {
		if !a.Ended() {
			allocs = append(allocs, a)
		}
	}
	slices.SortFunc(allocs, func(a, b *berth.Alloc) int { return slices.Compare(a.ID[:], b.ID[:]) })
	resources := slices.Collect(w.tip().Resources())
	propose := func(c state.Command) { w.log.Propose(w.Context(), c) } // may be refused
	switch what := rapid.SampledFrom([]string{
		"step", "step", "step", "step", "schedule", "schedule", "agents", "term", "register", "register", "delete", "stop", "stop alloc", "end alloc", "delete resource", "node",
	}).Draw(r, "deed"); what {
	case "step":
		w.step()
	case "schedule":
		w.schedule()
	case "agents":
		w.agents()
	case "term":
		w.term()
	case "register":
		width := rapid.IntRange(1, 3).Draw(r, "width")
		change := []string{`"ID": "telemetry"`, fmt.Sprintf("%q: %q", "ID", k.ID), `"Width": 3`, fmt.Sprint(`"Width": `, width)}
		if rapid.Bool().Draw(r, "recreate") {
			change = append(change, `"Timeout": "5m"`, `"Timeout": "5m", "InterruptedUpdate": "recreate"`)
		}
		propose(&state.RegisterJob{Job: statetest.Job(w.TB, telemetry(change...)), Eval: w.seed(berth.TriggerJobRegister), Now: w.now.UnixNano()})
	case "delete":
		policy := rapid.SampledFrom(berth.Propagations).Draw(r, "policy")
		force := policy == berth.Foreground && rapid.Bool().Draw(r, "force")
		propose(&state.DeleteJob{Key: k, Policy: policy, Force: force, Intent: berth.IntentUser, Eval: w.seed(berth.TriggerJobDeregister), Now: w.now.UnixNano()})
	case "stop":
		propose(&state.StopJob{Key: k, Eval: w.seed(berth.TriggerJobDeregister), Now: w.now.UnixNano()})
	case "stop alloc", "end alloc":
		if len(allocs) == 0 {
			return what
		}
		a := rapid.SampledFrom(allocs).Draw(r, "alloc")
		if what == "stop alloc" {
			propose(&state.StopAlloc{ID: a.ID, Eval: w.seed(berth.TriggerAllocStop), Now: w.now.UnixNano()})
			return what
		}
		status := rapid.SampledFrom([]berth.ClientStatus{berth.ClientFailed, berth.ClientComplete}).Draw(r, "status")
		propose(&state.ReportAllocs{Node: a.NodeID, Now: w.now.UnixNano(), Updates: []state.AllocUpdate{{ID: a.ID, Client: status}}})
	case "delete resource":
		if len(resources) > 0 {
			propose(&state.DeleteResource{UID: rapid.SampledFrom(resources).Draw(r, "resource").UID, Propagation: berth.Background, Now: w.now.UnixNano()})
		}
	case "node":
		id := statetest.ID[berth.Node](rapid.IntRange(2, 4).Draw(r, "node"))
		if node := w.tip().Node(id); node.Status == berth.NodeReady {
			propose(&state.SetNodeStatus{ID: id, Status: berth.NodeDown, Now: w.now.UnixNano(), Seed: [16]byte{7, byte(n)}})
		}
		propose(&state.SetNodeStatus{ID: id, Status: berth.NodeReady, Now: w.now.UnixNano(), Seed: [16]byte{8, byte(n)}})
	}
	return "a deed"
}
