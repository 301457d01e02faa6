package schedule_test

import (
	"slices"
	"testing"
	"time"

	"berth"
	"berth/internal/invariant"
	"berth/internal/schedule"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// What a stream job left to itself is collected when the last of its orphaned
// allocations is, and not while one of them runs. A new job of its name is left
// alone.
func TestObjectsThatAJobLeftAreCollected(t *testing.T) {
	w := newStreamWorld(t, 3)
	pool := `{"Name": "p", "Size": 1, "Mode": "exclusive", "Hosts": ["n1"]}`
	k := w.submit("job", pool, [][]berth.NodeID{ids(1)}, "a", `"Pool": "p"`, "b/2", ``)
	w.decide(k)
	w.log.Must(t, &state.DeleteJob{Key: k, Policy: berth.Orphan, Intent: berth.IntentUser, Now: 5})
	left := len(slices.Collect(w.log.Tip().OrphanedResources()))
	if left < 8 { // three elements with config and endpoint, a region and a pool
		t.Fatalf("the job left %d objects", left)
	}
	now := time.Unix(100, 0)
	gc := func(force bool) schedule.Collected {
		t.Helper()
		c := schedule.Collect(w.log.Tip(), schedule.DefaultAges, force, now, 1000)
		before := w.log.Tip()
		for _, d := range c.Delete {
			w.log.Must(t, d)
		}
		for _, d := range c.Orphans {
			w.log.Must(t, d)
		}
		if bad := append(invariant.Check(w.log.Tip()), invariant.Between(before, w.log.Tip())...); len(bad) > 0 {
			t.Fatalf("%v", bad)
		}
		return c
	}
	end := func(n int) {
		t.Helper()
		for a := range w.log.Tip().AllocsOf(k) {
			if a.Live() && n > 0 {
				n--
				w.log.Must(t, &state.ReportAllocs{Node: a.NodeID, Now: now.UnixNano(), Updates: []state.AllocUpdate{{ID: a.ID, Client: berth.ClientComplete}}})
			}
		}
	}
	if c := gc(true); len(c.Orphans) != 0 || schedule.Collectable(w.log.Tip(), schedule.DefaultAges, now) {
		t.Errorf("%d objects go while their allocations run", len(c.Orphans))
	}
	end(2)
	if c := gc(true); len(c.Orphans) != 0 {
		t.Errorf("%d objects go while an allocation runs", len(c.Orphans))
	}
	other := w.submit("job", "", nil, "c", ``) // the name is used again
	w.decide(other)
	end(3)
	for a := range w.log.Tip().AllocsOf(k) { // the new job runs on
		if a.Ended() && !a.Orphaned {
			w.decide(other)
		}
	}
	if c := gc(false); len(c.Orphans) != 0 {
		t.Errorf("%d objects go before the allocation that they belonged to is old enough", len(c.Orphans))
	}
	now = now.Add(2 * time.Hour)
	if !schedule.Collectable(w.log.Tip(), schedule.DefaultAges, now) {
		t.Error("nothing is to be collected")
	}
	if c := gc(false); len(c.Orphans) != left {
		t.Errorf("%d objects go, want %d", len(c.Orphans), left)
	}
	snap := w.log.Tip()
	for r := range snap.Resources() {
		if r.Owner.IsZero() {
			t.Errorf("%s %s is left", r.Kind, r.Name)
		}
	}
	if n := snap.Dependents(snap.Job(other).UID); n == 0 {
		t.Error("the new job has lost its objects")
	}
	if snap.Holder(statetest.ID[berth.Node](1)) != nil {
		t.Error("the node of the exclusive pool is not free")
	}
	if c := gc(true); len(c.Orphans) != 0 {
		t.Errorf("%d objects go again", len(c.Orphans))
	}
}
