package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"berth"
	_ "berth/internal/onethread"
	"berth/op"
)

// world is one node's directory, its servers, and an agent in virtual time.
type world struct {
	*cluster
	dir string
	cfg func(*Config)

	ahead time.Duration // by which the time of day was set ahead; changed while no agent runs
}

func newWorld(t *testing.T) *world {
	return &world{dir: t.TempDir(), cfg: func(*Config) {}}
}

// agent starts an agent; end ends it as a signal would.
func (w *world) agent(t *testing.T) (a *Agent, end func()) {
	t.Helper()
	if w.cluster == nil { // made here, as its channels belong to the test's bubble
		w.cluster = newCluster()
	}
	c := Config{Servers: w.cluster, DataDir: w.dir, MockDriver: true, LoopbackOnly: true, CgroupParent: "-", GC: GC{Disk: 100, Inodes: 100}, Log: quiet} // the machine may be full
	w.cfg(&c)
	a, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	a.contact.clock = func(at time.Time) (string, int64) { return "a run", at.Add(-w.ahead).UnixNano() }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	return a, func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	}
}

func TestAnAllocationIsRunAndReported(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		a, end := w.agent(t)
		pause(5 * time.Second)
		if !w.ready || w.node.SecretID == "" || w.node.ID != a.NodeID() {
			t.Fatalf("not registered: %+v", w.node)
		}
		batch := w.place(newAlloc(t, "batch", mockTask("main", `"run_for":"30s","stdout_string":"hello"`)))
		service := w.place(newAlloc(t, "service", mockTask("main", `"run_for":"100h"`)))
		failing := w.place(newAlloc(t, "batch", mockTask("main", `"run_for":"1s","exit_code":3`, quick)+","+mockTask("other", `"run_for":"100h"`)))
		pause(2 * time.Second)
		if w.status(batch) != "running" || w.status(service) != "running" {
			t.Errorf("%s, %s", w.status(batch), w.status(service))
		}
		pause(time.Minute)
		for id, want := range map[string]string{batch: "complete", service: "running", failing: "failed"} {
			if got := w.status(id); got != want {
				t.Errorf("%s, want %s: %s", got, want, w.events(id, "main"))
			}
		}
		if got := w.events(failing, "main"); !strings.HasSuffix(got, "Started, Terminated, Not Restarting") {
			t.Error(got)
		}
		if got := w.events(failing, "other"); !strings.HasSuffix(got, "Terminated, Killed") || !strings.Contains(got, "Sibling Task Failed, Killing") {
			t.Error(got)
		}
		for i := 1; i < len(w.batches); i++ {
			if d := w.batches[i].Sub(w.batches[i-1]); d < reportEvery {
				t.Errorf("two reports %v apart", d)
			}
		}
		if a.Alive() != nil || len(a.View().Allocs) != 3 || a.Stats()["running_allocations"] != "1" {
			t.Errorf("%v, %+v, %v", a.Alive(), a.View(), a.Stats())
		}
		var out strings.Builder
		err := a.Logs(t.Context(), &op.LogsQuery{AllocID: batch, Task: "main", Type: "stdout", Follow: true}, func(f *op.StreamFrame) error {
			out.Write(f.Data)
			return nil
		})
		if err != nil || out.String() != "hello" {
			t.Errorf("logs %q, %v", out.String(), err)
		}
		end()
	})
}

func TestHeartbeatsKeepTheirTime(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		a, end := w.agent(t)
		pause(10 * time.Minute)
		for i := 1; i < len(w.beats); i++ {
			if d := w.beats[i].Sub(w.beats[i-1]); d >= w.ttl || d < w.ttl/2 {
				t.Errorf("two heartbeats %v apart, the TTL is %v", d, w.ttl)
			}
		}
		if w.registry != 1 {
			t.Errorf("registered %d times", w.registry)
		}
		w.mu.Lock()
		w.node = nil // servers forgot it
		w.mu.Unlock()
		pause(w.ttl + 2*time.Second)
		if w.registry != 2 || !w.ready {
			t.Errorf("registered %d times, ready %v", w.registry, w.ready)
		}
		w.mu.Lock()
		w.fail = func(call string) error { return berth.Errorf(berth.Unavailable, "cut off") }
		w.mu.Unlock()
		pause(time.Minute)
		if a.Alive() == nil {
			t.Error("cut off for a minute, and still alive")
		}
		w.mu.Lock()
		w.fail = nil
		w.mu.Unlock()
		pause(40 * time.Second)
		if err := a.Alive(); err != nil {
			t.Errorf("back again: %v", err)
		}
		end()
	})
}

func TestAStopIsObeyedAndARemovalTakesEverything(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		a, end := w.agent(t)
		pause(time.Second)
		id := w.place(newAlloc(t, "service", mockTask("lead", `"run_for":"100h"`, `,"Leader":true`)+","+mockTask("follow", `"run_for":"100h"`), `,"ShutdownDelay":"20s"`))
		pause(2 * time.Second)
		w.stop(id)
		pause(15 * time.Second)
		if w.status(id) != "running" {
			t.Errorf("within its shutdown delay: %s", w.status(id))
		}
		pause(10 * time.Second)
		if w.status(id) != "complete" {
			t.Errorf("stopped: %s; %s; %s", w.status(id), w.events(id, "lead"), w.events(id, "follow"))
		}
		if got := w.events(id, "follow"); !strings.Contains(got, "Leader Task Dead") {
			t.Error(got)
		}
		if _, err := os.Stat(filepath.Join(w.dir, "alloc", id)); err != nil {
			t.Errorf("the directory is for people to look into: %v", err)
		}
		w.forget(id)
		pause(2 * time.Second)
		if _, err := os.Stat(filepath.Join(w.dir, "alloc", id)); err == nil {
			t.Error("the directory is left")
		}
		if len(a.View().Allocs) != 0 {
			t.Errorf("%+v", a.View())
		}
		running := w.place(newAlloc(t, "service", mockTask("main", `"run_for":"100h"`)))
		pause(2 * time.Second)
		w.forget(running) // without being stopped first
		pause(10 * time.Second)
		if len(a.View().Allocs) != 0 {
			t.Errorf("%+v", a.View())
		}
		end()
		_, end = w.agent(t)
		pause(5 * time.Second)
		end()
	})
}

// N21, I-34.
func TestStaleAnswersStopAndStartNothing(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		a, end := w.agent(t)
		pause(time.Second)
		old := w.place(newAlloc(t, "service", mockTask("main", `"run_for":"100h"`)))
		pause(2 * time.Second)
		young := w.place(newAlloc(t, "service", mockTask("main", `"run_for":"100h"`)))
		pause(2 * time.Second)
		acted := a.View().Index
		w.step(func() { w.lag = 8 }) // the server that is asked next lags: it has not heard of the younger
		pause(3 * time.Second)
		for _, id := range []string{old, young} {
			if w.status(id) != "running" || len(a.View().Allocs) != 2 {
				t.Errorf("%s, %+v", w.status(id), a.View())
			}
		}
		if a.View().Index < acted {
			t.Errorf("the index fell from %d to %d", acted, a.View().Index)
		}
		w.step(func() { w.lag = 0 })
		pause(10 * time.Second)
		w.forget(old)
		pause(10 * time.Second)
		if w.status(young) != "running" || len(a.View().Allocs) != 1 {
			t.Errorf("%s, %+v", w.status(young), a.View())
		}
		end()
	})
}

// The servers were restored from an old backup, or started from nothing (F-35).
func TestAnOlderStateIsBelievedAfterAWhile(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		a, end := w.agent(t)
		pause(time.Second)
		kept := w.place(newAlloc(t, "service", mockTask("main", `"run_for":"100h"`)))
		gone := w.place(newAlloc(t, "service", mockTask("main", `"run_for":"100h"`)))
		pause(2 * time.Second)
		w.mu.Lock()
		delete(w.allocs, gone)
		b := *w.allocs[kept]
		b.CreateIndex, b.ModifyIndex, b.AllocModifyIndex = 2, 2, 2
		w.allocs[kept] = &b
		w.index = 3
		close(w.changed)
		w.changed = make(chan struct{})
		w.mu.Unlock()
		pause(5 * time.Second)
		if len(a.View().Allocs) != 2 {
			t.Errorf("acted too soon: %+v", a.View())
		}
		pause(watchTime + time.Minute)
		v := a.View()
		if len(v.Allocs) != 1 || v.Allocs[0].ID != kept || v.Allocs[0].Status != berth.ClientRunning || v.Index > 100 {
			t.Errorf("%+v", v)
		}
		if got := w.events(kept, "main"); strings.Contains(got, "Kill") {
			t.Error(got)
		}
		end()
	})
}

// An operator restored what was saved: indexes go on, rows are as they were.
// The agent says at once how those fare that it knows further.
func TestARestoredStateIsToldAnew(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		a, end := w.agent(t)
		pause(time.Second)
		kept := w.place(newAlloc(t, "service", mockTask("main", `"run_for":"100h"`)))
		ended := w.place(newAlloc(t, "service", mockTask("main", `"run_for":"100h"`)))
		pause(2 * time.Second)
		saved := map[string]*op.Alloc{kept: w.alloc(kept), ended: w.alloc(ended)}
		came := w.place(newAlloc(t, "service", mockTask("main", `"run_for":"100h"`)))
		w.stop(ended)
		pause(20 * time.Second)
		if w.status(ended) != "complete" || w.status(came) != "running" {
			t.Fatal(w.status(ended), w.status(came))
		}
		w.step(func() { w.allocs = saved })
		pause(20 * time.Second)
		if w.status(kept) != "running" || w.status(ended) != "complete" || len(a.View().Allocs) != 2 {
			t.Errorf("%s, %s, %+v", w.status(kept), w.status(ended), a.View())
		}
		if got := w.events(kept, "main"); strings.Contains(got, "Kill") {
			t.Error(got)
		}
		end()
	})
}

// What the agent knows and what servers say, in every constellation: nothing
// is removed by an answer that is not newer, nothing newer is missed.
func TestDecide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := []string{"a", "b", "c"}
		have := map[string]known{}
		ans := &op.NodeAllocIndexesAnswer{Allocs: map[string]uint64{}}
		ans.Index = rapid.Uint64Range(0, 12).Draw(t, "index")
		acted := rapid.Uint64Range(0, 12).Draw(t, "acted")
		for _, id := range ids {
			if rapid.Bool().Draw(t, "has "+id) {
				v := rapid.Uint64Range(1, 10).Draw(t, "version")
				have[id] = known{v, v + rapid.Uint64Range(0, 2).Draw(t, "changed"), rapid.Bool().Draw(t, "removed"), rapid.Bool().Draw(t, "unrecorded")}
			}
			if rapid.Bool().Draw(t, "listed "+id) {
				ans.Allocs[id] = rapid.Uint64Range(1, 10).Draw(t, "listed version")
			}
		}
		s := decide(have, acted, ans)
		if s.stale != (ans.Index < acted) || s.stale && len(s.fetch)+len(s.remove) > 0 {
			t.Fatalf("%+v", s)
		}
		for _, id := range ids {
			k, has := have[id]
			v, listed := ans.Allocs[id]
			fetch := !s.stale && listed && (!has || k.unrecorded && !k.removed || v > k.version || v < k.version && ans.Index > max(k.changed, k.version))
			remove := !s.stale && has && !listed && !k.removed && ans.Index > k.changed
			if fetch != contains(s.fetch, id) || remove != contains(s.remove, id) {
				t.Fatalf("%s: %+v", id, s)
			}
		}
	})
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

func TestReportsAreRepeatedUntilTheyAreTaken(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		a, end := w.agent(t)
		pause(time.Second)
		w.mu.Lock()
		w.fail = func(call string) error {
			if call == "report" {
				return berth.Errorf(berth.NoLeader, "No cluster leader")
			}
			return nil
		}
		w.mu.Unlock()
		var ids []string
		for range 5 {
			ids = append(ids, w.place(newAlloc(t, "batch", mockTask("main", `"run_for":"1s"`))))
		}
		pause(time.Minute)
		if n := a.View().Unreported; n != 5 {
			t.Errorf("%d are unreported", n)
		}
		end() // and the agent dies over it
		w.mu.Lock()
		w.fail = nil
		w.mu.Unlock()
		_, end = w.agent(t)
		pause(5 * time.Second)
		for _, id := range ids {
			if w.status(id) != "complete" || w.story(id) != "complete" {
				t.Errorf("%s: %s", w.status(id), w.story(id))
			}
		}
		sent := w.sent
		end()
		_, end = w.agent(t) // has nothing new to say
		pause(10 * time.Minute)
		if w.sent != sent {
			t.Errorf("%d reports more, and nothing has happened", w.sent-sent)
		}
		end()
	})
}

func TestARefusedReportHoldsUpNoOther(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		_, end := w.agent(t)
		pause(time.Second)
		bad := newAlloc(t, "batch", mockTask("main", `"run_for":"1s"`))
		real := w.cluster
		refusing := &refuser{cluster: real, id: bad.ID.String()}
		end()
		w.cfg = func(c *Config) { c.Servers = refusing }
		_, end = w.agent(t)
		pause(time.Second)
		w.place(bad)
		good := w.place(newAlloc(t, "batch", mockTask("main", `"run_for":"1s"`)))
		pause(30 * time.Second)
		if w.status(good) != "complete" || w.status(bad.ID.String()) != "pending" {
			t.Errorf("good %s, bad %s", w.status(good), w.status(bad.ID.String()))
		}
		w.mu.Lock()
		refusing.off = true
		w.mu.Unlock()
		pause(2 * refusedWait)
		if w.status(bad.ID.String()) != "complete" {
			t.Errorf("bad %s", w.status(bad.ID.String()))
		}
		end()
	})
}

// refuser refuses every batch that has the allocation in it.
type refuser struct {
	*cluster
	id  string
	off bool
}

func (r *refuser) Call(ctx context.Context, method string, in, out any) error {
	report, ok := in.(*op.ReportAllocs)
	if !ok {
		return r.cluster.Call(ctx, method, in, out)
	}
	r.mu.Lock()
	off := r.off
	r.mu.Unlock()
	for _, n := range report.Alloc {
		if n.ID.String() == r.id && !off {
			return berth.Errorf(berth.Invalid, "the launch of allocation %s is not current", r.id)
		}
	}
	return r.cluster.Call(ctx, method, in, out)
}

// I-35, with tasks that need no process: what happened while no agent looked
// is told, once.
func TestAnotherAgentGoesOn(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		first, end := w.agent(t)
		pause(time.Second)
		runs := w.place(newAlloc(t, "service", mockTask("main", `"run_for":"100h"`)))
		ends := w.place(newAlloc(t, "batch", mockTask("main", `"run_for":"1m"`)))
		fails := w.place(newAlloc(t, "batch", mockTask("main", `"run_for":"1m","exit_code":4`, quick)))
		pause(10 * time.Second)
		end()
		pause(10 * time.Minute)
		second, end := w.agent(t)
		pause(10 * time.Second)
		if first.NodeID() != second.NodeID() {
			t.Error("it is another node")
		}
		for id, want := range map[string]string{runs: "running", ends: "running complete", fails: "running failed"} {
			story := w.story(id)
			if !strings.HasSuffix(story, want) || strings.Count(story, "complete")+strings.Count(story, "failed") > 1 {
				t.Errorf("%s, want %s", story, want)
			}
		}
		if n := w.alloc(runs).TaskStates["main"].Restarts; n != 0 {
			t.Errorf("%d restarts", n)
		}
		if got := w.events(fails, "main"); strings.Count(got, "Terminated") != 1 {
			t.Error(got)
		}
		end()
	})
}

// An agent whose secret is another than the one that servers know says how to
// mend that. Its tasks run on, and with the right file all is as before.
func TestAnAgentWithAnotherSecretSaysHowToMendIt(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		first, end := w.agent(t)
		pause(time.Second)
		runs := w.place(newAlloc(t, "service", mockTask("main", `"run_for":"100h"`)))
		pause(10 * time.Second)
		end()
		path := filepath.Join(first.c.StateDir, "secret-id")
		right, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("11111111-2222-4333-8444-555555555555"), 0o600); err != nil {
			t.Fatal(err)
		}
		w.cluster.mu.Lock()
		w.cluster.fail = func(call string) error {
			return &berth.Error{Kind: berth.Denied, Code: berth.CodeWrongSecret, Err: errors.New("Permission denied")}
		}
		w.cluster.mu.Unlock()
		var told strings.Builder
		log := slog.New(slog.NewTextHandler(&told, nil))
		w.cfg = func(c *Config) { c.Log = log }
		_, end = w.agent(t)
		pause(time.Minute)
		end()
		w.cfg = func(*Config) {}
		if text := told.String(); !strings.Contains(text, "put secret-id back from a backup") || !strings.Contains(text, path) {
			t.Errorf("it does not say how to mend it:\n%s", text)
		}
		w.cluster.mu.Lock()
		w.cluster.fail = nil
		w.cluster.mu.Unlock()
		if err := os.WriteFile(path, right, 0o600); err != nil {
			t.Fatal(err)
		}
		_, end = w.agent(t)
		pause(10 * time.Second)
		if story := w.story(runs); !strings.HasSuffix(story, "running") {
			t.Errorf("the task's story is %q", story)
		}
		end()
	})
}

func TestStopTasksOnExit(t *testing.T) {
	w := newWorld(t)
	w.cfg = func(c *Config) { c.StopTasksOnExit = true }
	synctest.Test(t, func(t *testing.T) {
		a, end := w.agent(t)
		pause(time.Second)
		w.place(newAlloc(t, "service", mockTask("main", `"run_for":"100h","kill_after":"3s"`), `,"ShutdownDelay":"1h"`))
		pause(time.Second)
		from := time.Now()
		end()
		if d := time.Since(from); d < 3*time.Second || d > 5*time.Second {
			t.Errorf("it took %v", d)
		}
		if s := a.View().Allocs[0].Status; s != berth.ClientComplete {
			t.Errorf("%v", s)
		}
	})
}

// S-04, S-14, C42: the agent does not take the servers' word for what would
// hurt its machine.
func TestWhatServersSendIsChecked(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		a, end := w.agent(t)
		pause(time.Second)
		raw := newAlloc(t, "batch", `{"Name":"main","Driver":"raw_exec","Config":{"command":"/bin/true"}`+quick+`}`)
		name := newAlloc(t, "batch", mockTask("main", ``))
		name.Job.TaskGroups[0].Tasks[0].Name = "../../escape"
		bare := newAlloc(t, "batch", mockTask("main", ``))
		bare.Job.TaskGroups[0].Tasks[0].Resources = nil
		foreign := newAlloc(t, "batch", mockTask("main", ``))
		foreign.NodeID[0] = 77
		over := newAlloc(t, "batch", mockTask("main", ``))
		over.ClientStatus = berth.ClientLost
		for _, al := range []*op.Alloc{raw, name, bare, foreign, over} {
			w.place(al)
		}
		pause(20 * time.Second)
		for al, want := range map[*op.Alloc]string{raw: "failed", name: "failed", bare: "failed", foreign: "pending", over: "lost"} {
			if got := w.status(al.ID.String()); got != want {
				t.Errorf("%s %+v: %s, want %s", al.Name, *al, got, want)
			}
		}
		states := w.alloc(raw.ID.String()).TaskStates["main"]
		if e := states.Events[len(states.Events)-2]; e.Type != berth.EventDriverFailure || !strings.Contains(e.DisplayMessage, "not enabled in this agent's configuration") {
			t.Errorf("%+v", states.Events)
		}
		for _, al := range []*op.Alloc{foreign, over} {
			if _, err := os.Stat(filepath.Join(w.dir, "alloc", al.ID.String())); err == nil {
				t.Errorf("%s has a directory", al.Name)
			}
		}
		if entries, _ := os.ReadDir(filepath.Dir(w.dir)); len(entries) != 1 {
			t.Errorf("made outside: %v", entries)
		}
		if a.Alive() != nil {
			t.Error(a.Alive())
		}
		end()
	})
}

func TestADriverThatChangesIsToldOf(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		a, end := w.agent(t)
		pause(time.Second)
		a.mu.Lock()
		n := *a.node // as if it had been found otherwise
		n.Drivers = map[string]*berth.DriverInfo{"mock_driver": {HealthDescription: "away"}}
		a.node = &n
		a.mu.Unlock()
		pause(watchEvery + 2*time.Second)
		if w.registry != 2 || !w.node.Drivers["mock_driver"].Healthy || w.node.Attributes["driver.mock_driver"] != "1" {
			t.Errorf("registered %d times: %+v", w.registry, w.node.Drivers)
		}
		end()
	})
}

func TestOnlySoManyDeadDirectoriesAreKept(t *testing.T) {
	w := newWorld(t)
	w.cfg = func(c *Config) { c.GC.Most = 3 }
	synctest.Test(t, func(t *testing.T) {
		a, end := w.agent(t)
		pause(time.Second)
		var ids []string
		for range 6 {
			ids = append(ids, w.place(newAlloc(t, "batch", mockTask("main", `"stdout_string":"x"`))))
			pause(time.Second)
		}
		live := w.place(newAlloc(t, "service", mockTask("main", `"run_for":"100h"`)))
		pause(30 * time.Second)
		for i, id := range append(ids, live) {
			_, err := os.Stat(filepath.Join(w.dir, "alloc", id))
			if (err == nil) != (i >= 3) {
				t.Errorf("%d: %v", i, err)
			}
		}
		err := a.Logs(t.Context(), &op.LogsQuery{AllocID: ids[0], Task: "main"}, nil)
		if berth.KindOf(err) != berth.NotFound {
			t.Errorf("logs of what is cleared away: %v", err)
		}
		end()
	})
}

func TestLogsThatCannotBe(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		a, end := w.agent(t)
		pause(time.Second)
		id := w.place(newAlloc(t, "batch", mockTask("main", ``)+","+mockTask("mute", ``, `,"LogConfig":{"Disabled":true}`)))
		pause(5 * time.Second)
		for _, q := range []*op.LogsQuery{
			{AllocID: "no-such", Task: "main"}, {AllocID: id, Task: "nobody"}, {AllocID: id, Task: "mute"}, {AllocID: id + "/../x", Task: "main"},
			{AllocID: id, Task: "../main"},
		} {
			if err := a.Logs(t.Context(), q, nil); berth.KindOf(err) != berth.NotFound {
				t.Errorf("%+v: %v", q, err)
			}
		}
		if _, err := a.AsAgents().Open(t.Context(), berth.NodeID{1}, op.AgentLogs.RPC, &op.LogsQuery{AllocID: id, Task: "main"}); berth.KindOf(err) != berth.NotFound {
			t.Errorf("another node: %v", err)
		}
		end()
	})
}

func TestConfigurationsThatCannotBe(t *testing.T) {
	ok := func() Config { return Config{Servers: newCluster(), DataDir: t.TempDir(), Log: quiet} }
	for name, f := range map[string]func(*Config){
		"no servers": func(c *Config) { c.Servers = nil }, "no directory": func(c *Config) { c.DataDir = "" },
		"relative": func(c *Config) { c.DataDir = "x" }, "ports": func(c *Config) { c.MinDynamicPort = 40000 },
		"port": func(c *Config) { c.MaxDynamicPort = 70000 }, "cgroup": func(c *Config) { c.CgroupParent = "../.." },
		"interface": func(c *Config) { c.NetworkInterface = "eth99" },
	} {
		c := ok()
		f(&c)
		if _, err := New(c); berth.KindOf(err) != berth.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(ok()); err != nil {
		t.Error(err)
	}
}

func TestAnEpochIsDoubtedFirst(t *testing.T) {
	var e epoch
	now := time.Unix(0, 0)
	ans := func(v uint64) *op.NodeAllocIndexesAnswer {
		return &op.NodeAllocIndexesAnswer{Allocs: map[string]uint64{"a": v}}
	}
	for i, c := range []struct {
		after  time.Duration
		v      uint64
		leader bool
		want   bool
	}{
		{0, 1, false, false}, {0, 1, true, false}, {9 * time.Second, 1, true, false}, {0, 2, true, false},
		{9 * time.Second, 2, true, false}, {2 * time.Second, 2, false, false}, {0, 2, true, true},
	} {
		now = now.Add(c.after)
		if got := e.over(ans(c.v), c.leader, now); got != c.want || !e.suspected() {
			t.Errorf("%d: %v", i, got)
		}
	}
}

func TestBackoffGrowsAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for n := range 40 {
			from := time.Now()
			if err := backoff(t.Context(), n, time.Second, 30*time.Second); err != nil {
				t.Fatal(err)
			}
			full := 30 * time.Second
			if n < 5 {
				full = time.Second << n
			}
			if d := time.Since(from); d < full/2 || d > full {
				t.Errorf("try %d waits %v", n, d)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := backoff(ctx, 3, time.Hour, time.Hour); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	if s := fmt.Sprint(interval(0)); !strings.HasSuffix(s, "ms") {
		t.Error(s)
	}
}

// pause lets virtual time pass and everybody come to rest.
func pause(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
