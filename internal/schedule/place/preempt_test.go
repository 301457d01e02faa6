package place_test

import (
	"fmt"
	"math"
	"testing"

	"berth"
	"berth/internal/fit"
	"berth/internal/invariant"
	"berth/internal/schedule/place"
	"berth/internal/state"
	"berth/internal/state/statetest"

	"pgregory.net/rapid"
)

// crowd is a few nodes on which instances of jobs of several priorities run,
// and a job that may evict.
func crowd(t *testing.T, r *rapid.T) (*state.Store, *statetest.Log, *berth.Job) {
	store, log := statetest.New(t)
	for n := range rapid.IntRange(1, 3).Draw(r, "nodes") {
		log.Must(t, statetest.AddNode(n+1, 4000, 4000))
	}
	log.Must(t, &state.SetSchedulerConfig{Config: berth.SchedulerConfig{PreemptionConfig: berth.PreemptionConfig{ServiceSchedulerEnabled: true}}})
	text := `{"ID":%q,"Priority":%d,"TaskGroups":[{"Name":"g","Count":%d,"Resources":{"CPU":%d,"MemoryMB":%d}%s}]}`
	port := func() string {
		if rapid.IntRange(0, 2).Draw(r, "port") == 0 {
			return `,"Networks":[{"ReservedPorts":[{"Label":"a","Value":80}]}]`
		}
		return ""
	}
	size := func(name string) int { return rapid.IntRange(1, 8).Draw(r, name) * 400 }
	nodes := store.Snapshot().Count(state.Nodes)
	for i := range rapid.IntRange(1, 5).Draw(r, "jobs") {
		j := statetest.Job(t, fmt.Sprintf(text, fmt.Sprint("low", i), rapid.SampledFrom([]int{10, 20, 30, 41, 60}).Draw(r, "priority"), 4, size("cpu"), size("mem"), port()))
		log.Must(t, statetest.Register(j, i+1))
		p := &state.ApplyPlan{Eval: statetest.ID[berth.Eval](i + 1), Now: 1}
		for index := range 4 {
			p.Place = append(p.Place, berth.Placement{Index: uint32(index), NodeID: statetest.ID[berth.Node](rapid.IntRange(1, nodes).Draw(r, "node"))})
		}
		log.Must(t, p) // what does not fit is refused
	}
	web := statetest.Job(t, fmt.Sprintf(text, "web", 50, rapid.IntRange(1, 4).Draw(r, "count"), size("cpu"), size("mem"), port()))
	log.Must(t, statetest.Register(web, 100))
	return store, log, store.Snapshot().Job(web.Key())
}

// leastHighest tries every set of what may be evicted on every node, and
// returns the least of what the highest priority in it can be; 0 if nothing
// need go, and the largest number if nothing helps.
func leastHighest(s *state.Snapshot, job *berth.Job) int {
	least, w := math.MaxInt, fit.RequestOf(job.TaskGroups[0])
	for n := range s.Nodes() {
		var prey []*berth.Alloc
		for a := range s.AllocsOn(n.ID) {
			if s.CannotPreempt(a, job) == "" {
				prey = append(prey, a)
			}
		}
		for set := range 1 << len(prey) {
			var gone []*berth.Alloc
			highest := 0
			for i, a := range prey {
				if set>>i&1 != 0 {
					gone, highest = append(gone, a), max(highest, a.Job.Priority)
				}
			}
			if highest < least && w.Fits(&s.Usage(n.Number).Without(gone...).Usage) {
				least = highest
			}
		}
	}
	return least
}

// Of everything that could be evicted, the least urgent is; nothing of it could
// stay; and the planner accepts what was placed.
func TestEvictsTheLeastUrgentAndNoMore(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		store, log, job := crowd(t, r)
		w := fit.RequestOf(job.TaskGroups[0])
		for index := range uint32(job.TaskGroups[0].Count) {
			s := store.Snapshot()
			want := leastHighest(s, job)
			out := place.New(s, job, nil, uint64(index)).Group(0, []place.Instance{{Index: index}})
			if (out.Failed > 0) != (want == math.MaxInt) {
				r.Fatalf("%d failed, and evicting up to priority %d would help", out.Failed, want)
			}
			if out.Failed > 0 {
				return
			}
			p := out.Placed[0]
			highest := 0
			var gone []*berth.Alloc
			for _, id := range p.Evict {
				a := s.Alloc(id)
				gone, highest = append(gone, a), max(highest, a.Job.Priority)
			}
			if highest != want {
				r.Fatalf("priority %d was evicted, %d would do", highest, want)
			}
			u := s.Usage(s.Node(p.NodeID).Number)
			for i := range gone {
				rest := append(append([]*berth.Alloc{}, gone[:i]...), gone[i+1:]...)
				if w.Fits(&u.Without(rest...).Usage) {
					r.Fatalf("%s need not have gone", gone[i].Name())
				}
			}
			plan := &state.ApplyPlan{Eval: statetest.ID[berth.Eval](100), Place: out.Placed, Now: 2}
			log.Must(t, plan)
			if len(plan.Refused) > 0 {
				r.Fatalf("the plan was refused: %s", plan.Refused[0].Reason)
			}
			for _, v := range invariant.Check(store.Snapshot()) {
				r.Fatal(v)
			}
		}
	})
}

// A group placed at once evicts on each node what all its instances need
// there, and the state accepts it as a whole.
func TestEvictingForAGroupIsAccepted(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		store, log, job := crowd(t, r)
		var list []place.Instance
		for i := range uint32(job.TaskGroups[0].Count) {
			list = append(list, place.Instance{Index: i})
		}
		out := place.New(store.Snapshot(), job, nil, 7).Group(0, list)
		plan := &state.ApplyPlan{Eval: statetest.ID[berth.Eval](100), Place: out.Placed, Now: 2}
		log.Must(t, plan)
		if len(plan.Refused) > 0 {
			r.Fatalf("the plan was refused: %+v", plan.Refused)
		}
		for _, v := range invariant.Check(store.Snapshot()) {
			r.Fatal(v)
		}
	})
}

// What is left of a job that was purged is about to be stopped, so nobody evicts
// it: not before a job of its name is registered again, and not after.
func TestWhatIsLeftOfAPurgedJobIsNotEvicted(t *testing.T) {
	store, log := statetest.New(t, statetest.AddNode(1, 1000, 1000),
		&state.SetSchedulerConfig{Config: berth.SchedulerConfig{PreemptionConfig: berth.PreemptionConfig{ServiceSchedulerEnabled: true}}})
	text := `{"ID":%q,"Priority":%d,"TaskGroups":[{"Name":"g","Count":1,"Resources":{"CPU":800,"MemoryMB":100}}]}`
	low := statetest.Job(t, fmt.Sprintf(text, "low", 10))
	log.Must(t, statetest.Register(low, 1), &state.ApplyPlan{
		Eval: statetest.ID[berth.Eval](1), Now: 1, Place: []berth.Placement{{NodeID: statetest.ID[berth.Node](1)}},
	})
	log.Must(t, statetest.Register(statetest.Job(t, fmt.Sprintf(text, "web", 50)), 2))
	evicts := func() int {
		s := store.Snapshot()
		return len(place.New(s, s.Job(berth.JobKey{Namespace: berth.DefaultNamespace, ID: "web"}), nil, 1).Group(0, []place.Instance{{}}).Placed)
	}
	if evicts() != 1 {
		t.Error("nothing is evicted")
	}
	log.Must(t, &state.StopJob{Key: low.Key(), Purge: true, Now: 2, Eval: state.EvalSeed{
		ID: statetest.ID[berth.Eval](3), TriggeredBy: berth.TriggerJobDeregister, Cause: berth.Cause{Kind: berth.CauseUser},
	}})
	if evicts() != 0 {
		t.Error("what is left of the purged job is evicted")
	}
	log.Must(t, statetest.Register(statetest.Job(t, fmt.Sprintf(text, "low", 10)), 4))
	if evicts() != 0 {
		t.Error("what is left of the purged job is evicted when there is a job of its name again")
	}
}

// An instance of an older version, which a deployment wants again, evicts what
// that version may, not what the newest may: the state would refuse it.
func TestAnOlderVersionEvictsByItsOwnPriority(t *testing.T) {
	store, log := statetest.New(t, statetest.AddNode(1, 1000, 1000),
		&state.SetSchedulerConfig{Config: berth.SchedulerConfig{PreemptionConfig: berth.PreemptionConfig{ServiceSchedulerEnabled: true}}})
	text := `{"ID":%q,"Priority":%d,"TaskGroups":[{"Name":"g","Count":1,"Resources":{"CPU":800,"MemoryMB":100}}]}`
	log.Must(t, statetest.Register(statetest.Job(t, fmt.Sprintf(text, "low", 40)), 1), &state.ApplyPlan{
		Eval: statetest.ID[berth.Eval](1), Now: 1, Place: []berth.Placement{{NodeID: statetest.ID[berth.Node](1)}},
	})
	for _, c := range []struct{ old, newest, evicts int }{{30, 90, 0}, {90, 30, 1}, {90, 95, 1}} {
		web := berth.JobKey{Namespace: berth.DefaultNamespace, ID: "web"}
		log.Must(t, statetest.Register(statetest.Job(t, fmt.Sprintf(text, "web", c.old)), c.newest+100))
		old := store.Snapshot().Job(web)
		log.Must(t, statetest.Register(statetest.Job(t, fmt.Sprintf(text, "web", c.newest)), c.newest+200))
		s := store.Snapshot()
		p := place.New(s, s.Job(web), nil, 1)
		p.Group(0, []place.Instance{{}}) // what the newest may evict is known by then
		if c.newest > 50 {
			p = place.New(s, s.Job(web), nil, 1)
		}
		if n := len(p.GroupOfVersion(old, 0, []place.Instance{{}}).Placed); n != c.evicts {
			t.Errorf("of priority %d, the newest of %d: %d are placed", c.old, c.newest, n)
		}
	}
}
