package state_test

import (
	"fmt"
	"slices"
	"testing"

	"berth"
	"berth/internal/invariant"
	"berth/internal/state"
	"berth/internal/state/statetest"

	"pgregory.net/rapid"
)

// evicting is a node of 4,000 MHz on which less urgent instances run.
type evicting struct {
	t     *testing.T
	store *state.Store
	log   *statetest.Log
	evals int
	jobs  map[string]*state.RegisterJob
}

func newEvicting(t *testing.T) *evicting {
	e := &evicting{t: t, jobs: map[string]*state.RegisterJob{}}
	e.store, e.log = statetest.New(t, statetest.AddNode(1, 4000, 4000))
	return e
}

// job registers a job of one group that asks for so much processor time and
// for static ports.
func (e *evicting) job(name string, priority, cpu, count int, ports ...int) {
	e.t.Helper()
	text := ""
	for i, p := range ports {
		text += fmt.Sprintf(`{"Label":"p%d","Value":%d},`, i, p)
	}
	if text != "" {
		text = `,"Networks":[{"ReservedPorts":[` + text[:len(text)-1] + `]}]`
	}
	e.evals++
	e.jobs[name] = statetest.Register(statetest.Job(e.t, fmt.Sprintf(
		`{"ID":%q,"Priority":%d,"TaskGroups":[{"Name":"g","Count":%d,"Resources":{"CPU":%d,"MemoryMB":100}%s}]}`, name, priority, count, cpu, text)), e.evals)
	e.log.Must(e.t, e.jobs[name])
}

// place places one instance; what it refuses it returns.
func (e *evicting) place(name string, index int, evict ...*berth.Alloc) (*berth.Alloc, string) {
	e.t.Helper()
	p := berth.Placement{Index: uint32(index), NodeID: statetest.ID[berth.Node](1)}
	for _, v := range evict {
		p.Evict = append(p.Evict, v.ID)
	}
	c := &state.ApplyPlan{Eval: e.jobs[name].Eval.ID, Now: 5, Place: []berth.Placement{p}}
	e.log.Must(e.t, c)
	e.sound()
	if len(c.Refused) > 0 {
		return nil, c.Refused[0].Reason
	}
	for a := range e.store.Snapshot().AllocsOf(e.jobs[name].Job.Key()) {
		if a.Live() && a.Index == uint32(index) {
			return a, ""
		}
	}
	e.t.Fatalf("%s is not there", name)
	return nil, ""
}

func (e *evicting) ends(a *berth.Alloc) {
	e.t.Helper()
	e.log.Must(e.t, &state.ReportAllocs{Node: a.NodeID, Updates: []state.AllocUpdate{{ID: a.ID, Client: berth.ClientComplete}}, Now: 6})
	e.sound()
}

func (e *evicting) used() int64 { return e.store.Snapshot().Usage(0).Used.CPU }

func (e *evicting) sound() {
	e.t.Helper()
	for _, v := range invariant.Check(e.store.Snapshot()) {
		e.t.Error(v)
	}
}

// What is evicted holds its room until it has ended, and what takes it holds
// only what it needs beyond that.
func TestEvictedHoldTheirRoomUntilTheyEnd(t *testing.T) {
	e := newEvicting(t)
	e.job("low", 20, 1000, 3)
	e.job("high", 50, 2500, 1)
	a, _ := e.place("low", 0)
	b, _ := e.place("low", 1)
	c, _ := e.place("low", 2)
	if _, why := e.place("high", 0); why != "cpu: 2500 asked, 1000 free" {
		t.Fatalf("without eviction: %q", why)
	}
	h, why := e.place("high", 0, a, b)
	if why != "" {
		t.Fatal(why)
	}
	if e.used() != 3500 { // 3000 of low, and 500 that high needs beyond what two of them hold
		t.Errorf("%d are used while both are there", e.used())
	}
	s := e.store.Snapshot()
	a, b, c = s.Alloc(a.ID), s.Alloc(b.ID), s.Alloc(c.ID)
	if a.Desired != berth.DesiredEvict || b.Desired != berth.DesiredEvict || c.Desired != berth.DesiredRun {
		t.Errorf("desired are %s, %s, %s", a.Desired, b.Desired, c.Desired)
	}
	if a.Rest().EvictedBy != h.ID || a.Rest().DesiredDescription != "Preempted by alloc ID "+h.ID.String() || !slices.Equal(h.Rest().Evicted, []berth.AllocID{a.ID, b.ID}) {
		t.Errorf("%+v, %+v", a.Rest(), h.Rest())
	}
	e.ends(a)
	if e.used() != 3500 { // 2500 of high, one of low that is being stopped is within it
		t.Errorf("%d are used after one ended", e.used())
	}
	e.ends(b)
	if e.used() != 3500 {
		t.Errorf("%d are used after both ended", e.used())
	}
	e.ends(h)
	if e.used() != 1000 {
		t.Errorf("%d are used after all that", e.used())
	}
}

// If what evicted ends first, what is evicted holds its room still.
func TestTheEvictorEndsFirst(t *testing.T) {
	e := newEvicting(t)
	e.job("low", 20, 3000, 1, 80)
	e.job("high", 50, 1000, 1, 80)
	low, _ := e.place("low", 0)
	high, why := e.place("high", 0, low)
	if why != "" || e.used() != 3000 {
		t.Fatalf("%q, %d used", why, e.used())
	}
	e.ends(high)
	if u := e.store.Snapshot().Usage(0); u.Used.CPU != 3000 || !u.Ports.Has(80) {
		t.Errorf("%d used, port held: %v", u.Used.CPU, u.Ports.Has(80))
	}
	e.ends(low)
	if u := e.store.Snapshot().Usage(0); u.Used.CPU != 0 || u.Ports.Has(80) || u.Allocs != 0 {
		t.Errorf("%d used, port held: %v, %d allocations", u.Used.CPU, u.Ports.Has(80), u.Allocs)
	}
}

// Every job that loses something has an evaluation for it in the same entry.
func TestEveryVictimsJobIsLookedAt(t *testing.T) {
	e := newEvicting(t)
	e.job("one", 20, 1500, 1)
	e.job("two", 30, 1500, 1)
	e.job("high", 60, 4000, 1)
	a, _ := e.place("one", 0)
	b, _ := e.place("two", 0)
	h, why := e.place("high", 0, a, b)
	if why != "" {
		t.Fatal(why)
	}
	for _, name := range []string{"one", "two"} {
		var found *berth.Eval
		for x := range e.store.Snapshot().EvalsOf(e.jobs[name].Job.Key()) {
			if x.TriggeredBy == berth.TriggerPreemption {
				found = x
			}
		}
		if found == nil || found.Cause != (berth.Cause{Kind: berth.CauseAlloc, ID: h.ID.String()}) || found.CreateIndex != h.CreateIndex ||
			found.Status != berth.EvalPending || !found.PreviousEval.IsZero() {
			t.Errorf("of %s: %+v", name, found)
		}
	}
}

// What may not be evicted refuses the placement, and nothing is stopped.
func TestWhatMayNotBePreempted(t *testing.T) {
	e := newEvicting(t)
	e.job("near", 41, 2000, 1)
	e.job("high", 50, 3000, 2)
	e.job("top", 100, 3000, 1)
	near, _ := e.place("near", 0)
	if _, why := e.place("high", 0, near); why != "allocation "+near.ID.String()+" cannot be preempted: its job has priority 41; it may be at most 40" {
		t.Errorf("%q", why)
	}
	e.ends(near)
	high, _ := e.place("high", 0)
	if _, why := e.place("high", 1, high); why != "allocation "+high.ID.String()+" cannot be preempted: its job has priority 50; it may be at most 40" {
		t.Errorf("%q", why)
	}
	if _, why := e.place("top", 0, high, high); why != "allocation "+high.ID.String()+" is named twice as a victim" {
		t.Errorf("%q", why)
	}
	if high = e.store.Snapshot().Alloc(high.ID); !high.Live() {
		t.Error("it was stopped all the same")
	}
	if _, why := e.place("top", 0, high, near); why != "" { // one that has ended is in nobody's way
		t.Errorf("%q", why)
	}
	// The one that waits for others to end cannot make room itself.
	e.job("one", 80, 1000, 1)
	for a := range e.store.Snapshot().AllocsOf(e.jobs["top"].Job.Key()) {
		if why := e.store.Snapshot().CannotPreempt(a, &berth.Job{ID: "x", Priority: 110}); why != "it waits for its own victims to end" {
			t.Errorf("%q", why)
		}
	}
}

// Room that came free by itself costs nobody anything.
func TestNobodyIsEvictedForNothing(t *testing.T) {
	e := newEvicting(t)
	e.job("low", 20, 1000, 2)
	e.job("high", 50, 3000, 1)
	a, _ := e.place("low", 0)
	high, why := e.place("high", 0, a)
	if why != "" || len(high.Rest().Evicted) > 0 || !e.store.Snapshot().Alloc(a.ID).Live() {
		t.Errorf("%q: %+v", why, high.Rest())
	}
}

// However members of families come and go, a recount finds what the columns
// say, a saved state too, and no node is over its room.
func TestFamiliesAreCountedRight(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		e := newEvicting(t)
		for i := range 4 {
			var ports []int
			if rapid.Bool().Draw(r, "port") {
				ports = []int{80}
			}
			e.job(fmt.Sprint("job", i), 10+i*20, rapid.IntRange(1, 8).Draw(r, "cpu")*500, 3, ports...)
		}
		for range rapid.IntRange(5, 30).Draw(r, "steps") {
			s := e.store.Snapshot()
			var there []*berth.Alloc
			for a := range s.AllocsOn(statetest.ID[berth.Node](1)) {
				if a.Occupies() {
					there = append(there, a)
				}
			}
			if len(there) > 0 && rapid.IntRange(0, 2).Draw(r, "ends") == 0 {
				e.ends(rapid.SampledFrom(there).Draw(r, "which"))
				continue
			}
			name := fmt.Sprint("job", rapid.IntRange(0, 3).Draw(r, "job"))
			var evict []*berth.Alloc
			for _, a := range there {
				if s.CannotPreempt(a, e.jobs[name].Job) == "" && rapid.Bool().Draw(r, "evict") {
					evict = append(evict, a)
				}
			}
			e.place(name, rapid.IntRange(0, 2).Draw(r, "index"), evict...)
			if u := e.store.Snapshot().Usage(0); u.Used.CPU > u.Capacity.CPU {
				r.Fatalf("%d used of %d", u.Used.CPU, u.Capacity.CPU)
			}
		}
	})
}
