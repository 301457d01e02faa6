package submit_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"berth"
	"berth/internal/invariant"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/internal/streams/submit"

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

// Whatever pools jobs ask for, and in whatever order they come and go: no command
// of the controller is refused, so two jobs never get the same node in one step,
// and no node is in an exclusive pool and in another job's that was given nodes.
// When all but one job are gone that has what it wants.
func TestPoolsDoNotMeet(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := &checked{world: newWorld(t, 4, ssd)}
		names := []string{"one", "two", "three"}
		pools := []string{
			`"Hosts": ["n1", "n2"]`, `"Hosts": ["n2"], "Mode": "exclusive"`, `"Hosts": ["n4", "n1"], "Mode": "exclusive"`,
			`"Tags": ["ssd"]`, `"Tags": ["ssd"], "Size": 2`, `"Tags": ["ssd"], "Size": 1, "Mode": "exclusive"`, `"Tags": ["ssd"], "Size": 3, "Mode": "exclusive"`,
		}
		remove := func(name string) {
			k := berth.JobKey{Namespace: berth.DefaultNamespace, ID: berth.JobID(name)}
			w.log.Propose(w.Context(), &state.DeleteJob{Key: k, Policy: berth.Foreground, Intent: berth.IntentUser, Eval: w.seed(berth.TriggerJobDeregister), Now: w.now.UnixNano()})
		}
		for range rapid.IntRange(3, 25).Draw(r, "deeds") {
			name := rapid.SampledFrom(names).Draw(r, "job")
			switch rapid.IntRange(0, 7).Draw(r, "deed") {
			case 0:
				remove(name)
			case 1:
				w.term()
			case 2:
				w.settle()
				w.now = w.now.Add(10 * time.Second)
			case 3:
				w.agents()
				w.schedule()
			case 4, 5:
				w.step()
			default:
				text := fmt.Sprintf(`{"ID": %q, "Type": "stream", "Datacenters": ["dc1"], "Stream": {"Submission": {"Timeout": "1h"}, "HostPools": [{"Name": "p", %s}]},
					"TaskGroups": [{"Name": "g", "Stream": {"Placement": {"Pool": "p"}}}]}`, name, rapid.SampledFrom(pools).Draw(r, "pool"))
				w.log.Propose(w.Context(), &state.RegisterJob{Job: statetest.Job(w.TB, text), Eval: w.seed(berth.TriggerJobRegister), Now: w.now.UnixNano()}) // refused while it is deleted
			}
			w.look(r, "a deed")
		}
		for _, name := range names[1:] {
			remove(name)
		}
		for range 4 {
			w.settle()
			w.unblock()
			w.now = w.now.Add(10 * time.Second)
		}
		w.look(r, "all")
		for row := range w.tip().StreamJobs() {
			if s := submit.Position(w.tip(), row); string(row.Key.ID) != names[0] || s.State != submit.StateSubmitted {
				r.Fatalf("%s is left, in state %s: %s\n%s", row.Key, s.State, row.LastError, w.dump())
			}
		}
	})
}
