package state_test

import (
	"bytes"
	"testing"

	"berth"
	"berth/internal/invariant"
	"berth/internal/state"
	"berth/internal/state/codec"
	"berth/internal/state/statetest"
)

// A saved state has the submissions and what they own, also of a job that is
// gone; a damaged one is refused, and one of the version before has none.
func TestStreamsAreSaved(t *testing.T) {
	f := newFlow(t)
	f.must(f.registers(2, 100, ""))
	plain := f.store.Snapshot()
	f.submit()
	f.must(f.deletes(berth.Background), f.registers(1, 100, `{"Name": "p", "Hosts": ["n1"], "Mode": "exclusive"}`))
	f.must(f.plans())
	f.ensureAll()
	f.must(f.recovers(state.RecoverTimeout), f.registers(1, 200, ""))
	s := f.store.Snapshot()
	saved, recs := records(t, s)
	loaded, err := state.Load(bytes.NewReader(saved))
	if err != nil {
		t.Fatal(err)
	}
	if loaded.Hash() != s.Hash() || loaded.LastStreamID() != 2 || loaded.LastChange(state.Resources) != s.LastChange(state.Resources) {
		t.Errorf("loaded it is another state\n%s", diff(s, loaded))
	}
	for _, v := range invariant.Check(loaded) {
		t.Error(v)
	}
	for _, kind := range []byte{22, 23} { // resources without owners, and owners with nothing
		if _, err := state.Load(bytes.NewReader(before(t, recs, codec.SnapshotVersion, 0, kind))); (err == nil) != (kind == 23) {
			t.Errorf("without records of kind %d: %v", kind, err)
		}
	}
	if got := loaded.Raised(plain).LastStreamID(); got != 2 {
		t.Errorf("restored, the last number is %d", got)
	}
	if got := plain.Raised(loaded).LastStreamID(); got != 2 {
		t.Errorf("an older state was restored, and the last number is %d", got)
	}

	store, _ := statetest.New(t, statetest.AddNode(1, 1000, 1000), statetest.Register(sized(t, 2, ""), 1))
	_, recs = records(t, store.Snapshot())
	old, err := state.Load(bytes.NewReader(before(t, recs, 3, 17)))
	if err != nil || old.Hash() != store.Snapshot().Hash() || old.LastChange(state.Services) != store.Snapshot().LastChange(state.Services) {
		t.Errorf("a snapshot of version 3 is read as another state: %v", err)
	}
	if n := old.Count(state.Streams) + old.Count(state.Resources); n != 0 {
		t.Errorf("it has %d rows of streams", n)
	}
}

// Who watches a stream job sees what changes of it.
func TestStreamsAreWatched(t *testing.T) {
	f := newFlow(t)
	w := f.store.Watch(state.OnStreamOf(flowKey))
	defer w.Stop()
	r := f.store.Watch(state.OnResourcesOf(flowKey))
	defer r.Stop()
	woken := func(w *state.Watch) bool {
		select {
		case <-w.C():
			return true
		default:
			return false
		}
	}
	f.must(f.registers(1, 100, ""))
	f.must(f.plans())
	if !woken(w) || woken(r) {
		t.Error("a plan wakes who waits for what the job has, or does not wake who waits for its submission")
	}
	f.ensureAll()
	if !woken(r) || woken(w) {
		t.Error("what is made does not wake who waits for it, or wakes another")
	}
	one, other := f.store.Watch(state.OnResource(f.pe("src[0]").UID)), f.store.Watch(state.OnResource(f.pe("work[0]").UID))
	defer one.Stop()
	defer other.Stop()
	f.must(f.launches("src[0]"))
	if !woken(one) || woken(other) {
		t.Error("a launch does not wake who waits for the processing element, or wakes who waits for another of the same command")
	}
	its, others := f.store.Watch(state.OnAllocsOfPE(f.pe("src[0]").UID)), f.store.Watch(state.OnAllocsOfPE(f.pe("work[0]").UID))
	defer its.Stop()
	defer others.Stop()
	f.must(f.places("src[0]", 1))
	if !woken(its) || woken(others) {
		t.Error("an allocation does not wake who waits for those of its processing element, or wakes who waits for another's")
	}
}

// Of a name, it is told when something last happened to what it names, also to
// what is gone; other names do not matter. A server that begins with a saved
// state tells no earlier index.
func TestLastOfStreams(t *testing.T) {
	f := newFlow(t)
	none := berth.JobKey{Namespace: berth.DefaultNamespace, ID: "none"}
	last := func() uint64 { return f.store.Snapshot().LastOfStreams(flowKey) }
	routes := func() uint64 { return f.store.Snapshot().LastOfRoutes(flowKey.Namespace) }
	index := func() uint64 { return f.store.Snapshot().Index }
	step := func(what string, own, joins bool, do func()) {
		t.Helper()
		wasOwn, wasJoins := last(), routes()
		do()
		if own != (last() == index()) || !own && last() != wasOwn {
			t.Errorf("%s at index %d: the last of the job is %d, and was %d", what, index(), last(), wasOwn)
		}
		if !joins && routes() != wasJoins || joins && routes() == wasJoins {
			t.Errorf("%s at index %d: the last of the routes is %d, and was %d", what, index(), routes(), wasJoins)
		}
	}
	step("a registration", true, false, func() { f.must(f.registers(1, 100, "")) })
	step("a plan", true, false, func() { f.must(f.plans()) })
	step("a node", false, false, func() { f.must(statetest.AddNode(9, 1, 1)) })
	step("all of it", true, true, f.ensureAll)
	step("a launch", true, false, func() { f.must(f.launches("src[0]")) })
	step("a placement", true, false, func() { f.must(f.places("src[0]", 1)) })
	step("a deletion in the background", true, true, func() { f.must(f.deletes(berth.Background)) })
	if n := f.store.Snapshot().LastOfStreams(none); n != 1 {
		t.Errorf("of a name that nothing has, the last is %d", n)
	}
	var saved bytes.Buffer
	if err := f.store.Snapshot().Save(&saved); err != nil {
		t.Fatal(err)
	}
	loaded, err := state.Load(&saved)
	if err != nil {
		t.Fatal(err)
	}
	if loaded.LastOfStreams(flowKey) < last() || loaded.LastOfRoutes(flowKey.Namespace) < routes() {
		t.Errorf("loaded, the last are %d and %d; they were %d and %d", loaded.LastOfStreams(flowKey), loaded.LastOfRoutes(flowKey.Namespace), last(), routes())
	}
}
