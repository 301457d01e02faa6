package agent

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/op"
)

// asked is what the agent answers to a server.
func asked[In, Out any](t *testing.T, a *Agent, o op.Op[In, Out], in *In) (*Out, error) {
	t.Helper()
	return op.Call(t.Context(), a, o, in)
}

// kept returns which allocations have their directories.
func (w *world) kept(ids ...string) (out []string) {
	for _, id := range ids {
		if _, err := os.Stat(filepath.Join(w.dir, "alloc", id)); err == nil {
			out = append(out, id)
		} else if !errors.Is(err, fs.ErrNotExist) {
			out = append(out, err.Error())
		}
	}
	return out
}

func TestEndedAllocationsAreCollectedOnRequest(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		a, end := w.agent(t)
		defer end()
		pause(time.Second)
		live := w.place(newAlloc(t, "service", mockTask("main", `"run_for":"100h"`)))
		one := w.place(newAlloc(t, "batch", mockTask("main", ``)))
		two := w.place(newAlloc(t, "batch", mockTask("main", ``)))
		pause(10 * time.Second)
		if got := w.kept(live, one, two); len(got) != 3 {
			t.Fatalf("kept at first: %v", got)
		}
		for _, c := range []struct {
			id   string
			kind berth.Kind
		}{{live, berth.Invalid}, {"a110c000-0000-4000-8000-999999999999", berth.NotFound}, {one, ""}, {one, ""}} { // again does nothing
			if _, err := asked(t, a, op.AgentCollectAlloc, &op.AllocTarget{AllocID: c.id}); berth.KindOf(err) != c.kind {
				t.Errorf("%s: %v", c.id, err)
			}
		}
		if got := strings.Join(w.kept(live, one, two), " "); got != live+" "+two {
			t.Errorf("kept: %s", got)
		}
		if _, err := asked(t, a, op.AgentCollectNode, &op.NodeTarget{NodeID: berth.NodeID{1}.String()}); berth.KindOf(err) != berth.NotFound {
			t.Errorf("another node: %v", err)
		}
		if _, err := asked(t, a, op.AgentCollectNode, &op.NodeTarget{}); err != nil {
			t.Error(err)
		}
		if got := strings.Join(w.kept(live, one, two), " "); got != live {
			t.Errorf("kept at last: %s", got)
		}
	})
}

func TestWhenTheDiskIsTooFull(t *testing.T) {
	var g GC
	g.complete()
	for _, c := range []struct {
		disk, inodes float64
		want         string
	}{
		{80, 70, ""},
		{80.1, 0, "80 % of the disk is in use, and gc_disk_usage_threshold is 80"},
		{0, 99, "99 % of the inodes are in use, and gc_inode_usage_threshold is 70"},
	} {
		if got := g.over(&op.HostDisk{UsedPercent: c.disk, InodesUsedPercent: c.inodes}); got != c.want {
			t.Errorf("%v and %v: %q, want %q", c.disk, c.inodes, got, c.want)
		}
	}
	// This machine's disk is in use, so all directories that can go do, the oldest
	// first, and what runs stays.
	w := newWorld(t)
	w.cfg = func(c *Config) { c.GC = GC{Disk: 1e-9, Parallel: 1, Interval: time.Hour} }
	synctest.Test(t, func(t *testing.T) {
		_, end := w.agent(t)
		defer end()
		pause(time.Second)
		live := w.place(newAlloc(t, "service", mockTask("main", `"run_for":"100h"`)))
		one := w.place(newAlloc(t, "batch", mockTask("main", ``)))
		two := w.place(newAlloc(t, "batch", mockTask("main", ``)))
		pause(10 * time.Second)
		if got := w.kept(live, one, two); len(got) != 3 {
			t.Fatalf("kept at first: %v", got)
		}
		pause(time.Hour)
		if got := strings.Join(w.kept(live, one, two), " "); got != live {
			t.Errorf("kept: %s", got)
		}
	})
}

func TestMetadataIsChangedWhileTheAgentRuns(t *testing.T) {
	w := newWorld(t)
	w.cfg = func(c *Config) { c.Meta = map[string]string{"rack": "r1", "old": "x"} }
	synctest.Test(t, func(t *testing.T) {
		a, end := w.agent(t)
		pause(time.Second)
		// know is what servers were told.
		know := func(want map[string]string) {
			t.Helper()
			pause(time.Second)
			w.mu.Lock()
			defer w.mu.Unlock()
			if !maps.Equal(w.node.Meta, want) {
				t.Errorf("servers know %v, want %v", w.node.Meta, want)
			}
		}
		know(map[string]string{"rack": "r1", "old": "x"})
		registered := w.registrations()
		got, err := asked(t, a, op.AgentApplyMeta, &op.ChangeMeta{NodeID: a.NodeID().String(), Meta: map[string]string{"rack": "r2", "new": ""}, Unset: []string{"old", "never"}})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"rack": "r2", "new": ""}
		if !maps.Equal(got.Meta, want) || len(got.Dynamic) != 3 || got.Dynamic["old"] != nil || *got.Dynamic["rack"] != "r2" || got.Static["rack"] != "r1" || got.Static["old"] != "x" {
			t.Errorf("answered %+v", got)
		}
		know(want)
		// What changes nothing is no news.
		if _, err := asked(t, a, op.AgentApplyMeta, &op.ChangeMeta{Meta: map[string]string{"rack": "r2"}}); err != nil {
			t.Error(err)
		}
		know(want)
		if n := w.registrations() - registered; n != 1 {
			t.Errorf("registered %d times", n)
		}
		for name, bad := range map[string]*op.ChangeMeta{
			"empty": {}, "key": {Meta: map[string]string{"a b": ""}}, "long": {Meta: map[string]string{"a": strings.Repeat("x", op.MaxMetaValue+1)}}, "no key": {Unset: []string{""}},
		} {
			if _, err := asked(t, a, op.AgentApplyMeta, bad); berth.KindOf(err) != berth.Invalid {
				t.Errorf("%s: %v", name, err)
			}
		}
		end()

		// The next agent has the changes, above another configuration.
		w.cfg = func(c *Config) { c.Meta = map[string]string{"old": "y", "more": "z"} }
		a, end = w.agent(t)
		know(map[string]string{"rack": "r2", "new": "", "more": "z"})
		if got, err = asked(t, a, op.AgentReadMeta, &op.NodeTarget{}); err != nil || got.Static["more"] != "z" || len(got.Dynamic) != 3 {
			t.Errorf("read %+v, %v", got, err)
		}
		end()

		// A damaged record keeps no agent from starting.
		file := filepath.Join(w.dir, "client", "dynamic-meta")
		if err := os.WriteFile(file, []byte("nonsense"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, end = w.agent(t)
		know(map[string]string{"old": "y", "more": "z"})
		end()
		if _, err := os.Stat(file + ".damaged"); err != nil {
			t.Error(err)
		}
	})
}

func TestWhatIsAskedOfTheHost(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		a, end := w.agent(t)
		defer end()
		pause(time.Second)
		id := w.place(newAlloc(t, "service", mockTask("main", `"run_for":"100h"`)+","+mockTask("side", `"run_for":"100h"`)))
		pause(5 * time.Second)
		if s, err := asked(t, a, op.AgentReadHost, &op.NodeTarget{NodeID: a.NodeID().String()}); err != nil || s.Memory.Total == 0 {
			t.Errorf("%+v, %v", s, err)
		}
		for _, c := range []struct {
			q    op.AllocStatsQuery
			want int
			kind berth.Kind
		}{
			{op.AllocStatsQuery{AllocID: id}, 2, ""},
			{op.AllocStatsQuery{AllocID: id, Task: "side"}, 1, ""},
			{op.AllocStatsQuery{AllocID: id, Task: "none"}, 0, berth.NotFound},
			{op.AllocStatsQuery{AllocID: "none"}, 0, berth.NotFound},
		} {
			u, err := asked(t, a, op.AgentReadUsage, &c.q)
			if berth.KindOf(err) != c.kind || err == nil && len(u.Tasks) != c.want {
				t.Errorf("%+v: %+v, %v", c.q, u, err)
			}
		}
		if _, err := op.Call(context.Background(), a, op.AgentReadHost, &op.NodeTarget{NodeID: "x"}); berth.KindOf(err) != berth.NotFound {
			t.Errorf("another node: %v", err)
		}
	})
}
