package agent

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/op"
)

// movable is an ephemeral_disk that follows an allocation to another node.
const movable = `,"EphemeralDisk":{"Sticky":true,"Migrate":true,"SizeMB":300}`

// hungry has an agent look every five seconds at a disk that is always too full.
func hungry(c *Config) { c.GC = GC{Disk: 1e-9, Interval: 5 * time.Second} }

// An allocation has ended, and its replacement on another node copies its data for
// longer than such data is kept. Its directory stays until all is there, though its
// disk is too full, and goes later.
func TestDataThatIsBeingCopiedStays(t *testing.T) {
	from, to := newWorld(t), newWorld(t)
	from.cfg = hungry
	synctest.Test(t, func(t *testing.T) {
		a, endA := from.agent(t)
		defer endA()
		_, endB := to.agent(t)
		defer endB()
		pause(time.Second)
		old := newAlloc(t, "service", mockTask("main", `"run_for":"100h"`), movable)
		other := from.place(newAlloc(t, "batch", mockTask("main", ``)))
		id := from.place(old)
		pause(5 * time.Second)
		data := make([]byte, 100*op.MaxDiskBytes)
		for i := range data {
			data[i] = byte(rand.Uint32())
		}
		if err := os.WriteFile(filepath.Join(from.dir, "alloc", id, "alloc/data/db"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		to.disk = func(ctx context.Context, q *op.ReadDisk) (*op.DiskAnswer, error) {
			time.Sleep(10 * time.Second) // a slow network
			return op.Call(ctx, a, op.AgentReadDisk, &op.AgentDisk{AllocID: id, Part: q.Part})
		}
		from.stop(id)
		pause(time.Minute) // there is no node for the replacement yet
		next := newAlloc(t, "service", mockTask("main", `"run_for":"100h"`), movable)
		next.PreviousAllocation = old.ID
		taker := to.place(next)
		for to.status(taker) != "running" {
			pause(time.Minute)
			if s := to.status(taker); s != "pending" && s != "running" && s != "" {
				t.Fatalf("the replacement is %s: %s", s, to.events(taker, "main"))
			}
		}
		got, err := os.ReadFile(filepath.Join(to.dir, "alloc", taker, "alloc/data/db"))
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes of %d came, %v: %v", len(got), len(data), err, to.alloc(taker).TaskStates["main"].Events)
		}
		if got := from.kept(other); len(got) > 0 {
			t.Error("what nobody needs is kept")
		}
		pause(2 * dataKept)
		if got := from.kept(id); len(got) > 0 {
			t.Error("it is kept for ever")
		}
	})
}

// The data of an allocation that has ended stays for a replacement on the same node,
// too. What is left of its directory then goes at once.
func TestDataForTheSameNodeStays(t *testing.T) {
	w := newWorld(t)
	w.cfg = hungry
	synctest.Test(t, func(t *testing.T) {
		_, end := w.agent(t)
		defer end()
		pause(time.Second)
		task, sticky := mockTask("main", `"run_for":"100h"`), `,"EphemeralDisk":{"Sticky":true,"SizeMB":300}`
		old := newAlloc(t, "service", task, sticky)
		id := w.place(old)
		pause(5 * time.Second)
		if err := os.WriteFile(filepath.Join(w.dir, "alloc", id, "alloc/data/db"), []byte("rows"), 0o600); err != nil {
			t.Fatal(err)
		}
		w.stop(id)
		pause(4 * time.Minute)
		next := newAlloc(t, "service", task, sticky)
		next.PreviousAllocation = old.ID
		taker := w.place(next)
		pause(10 * time.Second)
		if b, err := os.ReadFile(filepath.Join(w.dir, "alloc", taker, "alloc/data/db")); err != nil || string(b) != "rows" {
			t.Errorf("%q, %v: %s", b, err, w.events(taker, "main"))
		}
		if got := w.kept(id, taker); len(got) != 1 || got[0] != taker {
			t.Errorf("kept: %v", got)
		}
	})
}

// An operator who clears a node leaves data that a replacement may take over. One who
// names an allocation means its data, too: who is copying it starts without.
func TestDataThatIsCollectedOnRequest(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		a, end := w.agent(t)
		defer end()
		pause(time.Second)
		id := w.place(newAlloc(t, "batch", mockTask("main", ``), movable))
		other := w.place(newAlloc(t, "batch", mockTask("main", ``)))
		pause(10 * time.Second)
		if _, err := asked(t, a, op.AgentCollectNode, &op.NodeTarget{}); err != nil {
			t.Error(err)
		}
		if got := w.kept(id, other); len(got) != 1 || got[0] != id {
			t.Errorf("kept: %v", got)
		}
		part := &op.AgentDisk{AllocID: id, Part: op.DiskPart{List: true, Path: "alloc/data"}}
		if got, err := asked(t, a, op.AgentReadDisk, part); err != nil || got.State != op.DiskReady {
			t.Errorf("%+v, %v", got, err)
		}
		// A copy gets nothing of a directory that somebody has begun to remove, even if
		// that failed half way.
		a.mu.Lock()
		h := a.allocs[id]
		a.claim([]string{id})
		a.mu.Unlock()
		if got, err := asked(t, a, op.AgentReadDisk, part); err != nil || got.State != op.DiskMissing {
			t.Errorf("of a directory that is being removed: %+v, %v", got, err)
		}
		if err := a.moveFrom(h, id, a.dirs, []string{"alloc/data"}); err != errDirGone {
			t.Errorf("moved from a directory that is being removed: %v", err)
		}
		a.mu.Lock()
		h.claimed = false
		a.mu.Unlock()
		if got, err := asked(t, a, op.AgentReadDisk, part); err != nil || got.State != op.DiskMissing {
			t.Errorf("of a directory that was partly removed: %+v, %v", got, err)
		}
		if _, err := asked(t, a, op.AgentCollectAlloc, &op.AllocTarget{AllocID: id}); err != nil {
			t.Error(err)
		}
		if got := w.kept(id); len(got) != 0 {
			t.Errorf("kept: %v", got)
		}
	})
}

// Directories that stay for a replacement count among the most that are kept, and
// are none of those that go.
func TestDataStaysAmongTooManyDirectories(t *testing.T) {
	w := newWorld(t)
	w.cfg = func(c *Config) { c.GC = GC{Disk: 100, Inodes: 100, Most: 2} }
	synctest.Test(t, func(t *testing.T) {
		_, end := w.agent(t)
		defer end()
		pause(time.Second)
		var ids []string
		for _, more := range []string{movable, movable, movable, "", ""} {
			ids = append(ids, w.place(newAlloc(t, "batch", mockTask("main", ``), more)))
			pause(10 * time.Second)
		}
		if got := w.kept(ids...); !slices.Equal(got, ids[:3]) {
			t.Errorf("kept at first: %v, of %v", got, ids)
		}
		pause(dataKept + time.Minute)
		if got := w.kept(ids...); !slices.Equal(got, ids[1:3]) {
			t.Errorf("kept at last: %v, of %v", got, ids)
		}
	})
}

// Which directories go, in which order: when there are too many, and when the disk is
// too full.
func TestTheOrderOfCollection(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	plain := newAlloc(t, "service", mockTask("main", ``))
	sticky := newAlloc(t, "service", mockTask("main", ``), movable)
	all := map[string]*held{
		"old":              {alloc: plain, ended: ago(time.Hour)},
		"new":              {alloc: plain, ended: ago(time.Second)},
		"asked, not left":  {alloc: plain, ended: ago(2 * time.Second), asked: ago(time.Second)},
		"removed":          {alloc: plain, ended: ago(time.Hour), removed: true},
		"claimed":          {alloc: plain, ended: ago(time.Hour), claimed: true},
		"no job":           {alloc: &op.Alloc{}, ended: ago(30 * time.Minute)},
		"left, new":        {alloc: sticky, ended: ago(dataKept - time.Second)},
		"left, old":        {alloc: sticky, ended: ago(dataKept)},
		"left, older":      {alloc: sticky, ended: ago(2 * time.Hour)},
		"left, is copied":  {alloc: sticky, ended: ago(3 * time.Hour), asked: ago(dataKept - time.Second)},
		"left, was copied": {alloc: sticky, ended: ago(20 * time.Minute), asked: ago(dataKept)},
		"left, was moved":  {alloc: sticky, ended: ago(3 * time.Second), asked: ago(2 * time.Second), moved: true},
	}
	a := &Agent{allocs: all}
	dead, kept := a.dead(now)
	if got, want := strings.Join(kept, "; "), "left, is copied; left, new"; got != want {
		t.Errorf("kept: %s\nwant: %s", got, want)
	}
	if got, want := strings.Join(dead, "; "), "left, older; old; no job; left, was copied; left, old; left, was moved; asked, not left; new"; got != want {
		t.Errorf("beyond the most that are kept: %s\nwant: %s", got, want)
	}
	if got, want := strings.Join(a.dataLast(dead), "; "), "old; no job; left, was copied; left, was moved; asked, not left; new; left, older; left, old"; got != want {
		t.Errorf("of a disk that is too full: %s\nwant: %s", got, want)
	}
}
