package agent

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/agent/local"
	"berth/op"
)

// cut cuts the agent off from its servers, or ends that.
func (w *world) cut(off bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail = nil
	if off {
		w.fail = func(string) error { return berth.Errorf(berth.Unavailable, "cut off") }
	}
}

// lastBeat returns when servers last heard the node.
func (w *world) lastBeat() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.beats[len(w.beats)-1]
}

// finished returns when a task ended, as servers know it.
func (w *world) finished(id, task string) time.Time {
	if a := w.alloc(id); a != nil && a.TaskStates[task] != nil {
		return a.TaskStates[task].FinishedAt
	}
	return time.Time{}
}

const forLong = `"run_for":"100h"`

func TestTasksAreStoppedThatMayNotRunWithoutServers(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		_, end := w.agent(t)
		pause(time.Second)
		task := mockTask("main", forLong)
		stops := w.place(newAlloc(t, "service", task, `,"Disconnect":{"StopOnClientAfter":"90s"},"ShutdownDelay":"1h"`))
		old := w.place(newAlloc(t, "service", task, `,"StopAfterClientDisconnect":"5m"`))
		stays := w.place(newAlloc(t, "service", task))
		pause(time.Minute)
		w.cut(true)
		pause(70 * time.Second) // servers are met again within 90 s of the last heartbeat, whenever that was
		w.cut(false)
		pause(30 * time.Second)
		for _, id := range []string{stops, old, stays} {
			if w.status(id) != "running" || strings.Contains(w.events(id, "main"), "Killing") {
				t.Errorf("after a short time without servers: %s, %s", w.status(id), w.events(id, "main"))
			}
		}

		w.cut(true)
		last := w.lastBeat()
		pause(2 * time.Minute)
		w.cut(false)
		pause(time.Minute)
		if w.status(stops) != "complete" || w.alloc(stops).ClientDescription != "stopped: no server was reached for as long as stop_on_client_after lets it run" {
			t.Errorf("%s, %q", w.status(stops), w.alloc(stops).ClientDescription)
		}
		if got := w.events(stops, "main"); !strings.HasSuffix(got, "Started, Servers Unreachable, Killing, Terminated, Killed") {
			t.Error(got)
		}
		if d := w.finished(stops, "main").Sub(last); d < 90*time.Second || d > 91*time.Second {
			t.Errorf("stopped %v after servers last heard the node", d)
		}
		if w.status(old) != "running" || w.status(stays) != "running" {
			t.Errorf("%s, %s", w.status(old), w.status(stays))
		}
		end()
	})
}

// The time without servers counts on over a restart, also while no agent runs.
func TestTimeWithoutServersCountsOverARestart(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		_, end := w.agent(t)
		pause(time.Second)
		id := w.place(newAlloc(t, "service", mockTask("main", forLong), `,"Disconnect":{"StopOnClientAfter":"10m"}`))
		late := w.place(newAlloc(t, "service", mockTask("main", forLong), `,"Disconnect":{"StopOnClientAfter":"2h"}`))
		pause(time.Minute)
		w.cut(true)
		last := w.lastBeat()
		pause(4 * time.Minute)
		end()
		pause(4 * time.Minute)
		_, end = w.agent(t)
		pause(4 * time.Minute)
		end() // what was stopped meanwhile is told by the next
		_, end = w.agent(t)
		w.cut(false)
		pause(time.Minute)
		if w.status(id) != "complete" || w.status(late) != "running" {
			t.Errorf("%s, %s", w.status(id), w.status(late))
		}
		if d := w.finished(id, "main").Sub(last); d < 10*time.Minute || d > 10*time.Minute+time.Second {
			t.Errorf("stopped %v after servers last heard the node", d)
		}
		if w.alloc(id).ClientDescription != "stopped: no server was reached for as long as stop_on_client_after lets it run" {
			t.Error(w.alloc(id).ClientDescription)
		}
		end()
	})
}

// The time without servers counts on, however the time of day is set while no
// agent runs.
func TestTimeWithoutServersDoesNotDependOnTheTimeOfDay(t *testing.T) {
	for what, c := range map[string]struct{ passes, ahead time.Duration }{ // until the next agent starts
		"as it was":          {5 * time.Minute, 0},
		"set ahead":          {5 * time.Minute, time.Hour},
		"put back":           {8 * time.Minute, -7 * time.Minute},
		"put back, and over": {11 * time.Minute, -7 * time.Minute},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			synctest.Test(t, func(t *testing.T) {
				_, end := w.agent(t)
				pause(time.Second)
				id := w.place(newAlloc(t, "service", mockTask("main", forLong), `,"Disconnect":{"StopOnClientAfter":"10m"}`))
				pause(time.Minute)
				w.cut(true)
				end()
				last := w.lastBeat()
				w.ahead = c.ahead
				time.Sleep(time.Until(last.Add(c.passes + c.ahead)))
				_, end = w.agent(t)
				pause(10 * time.Minute)
				w.cut(false)
				pause(time.Minute)
				end()
				want := max(c.passes, 10*time.Minute)
				if d := w.finished(id, "main").Sub(last) - c.ahead; d < want || d > want+time.Second {
					t.Errorf("stopped %v after servers last heard the node, want %v: %s, %s", d, want, w.status(id), w.events(id, "main"))
				}
			})
		})
	}
}

// After a restart of the machine, and of a record of an older release, only the time of
// day tells when the last contact was. One that would be later than now is not known.
func TestWhenAnEarlierAgentReachedServers(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	x := contact{clock: func(time.Time) (string, int64) { return "this run", int64(time.Hour) }}
	for what, c := range map[string]struct {
		ago    time.Duration
		boot   string
		passed time.Duration // by the clock of the machine
		want   string
	}{
		"as it was":         {time.Minute, "this run", time.Minute, "1m0s"},
		"set ahead":         {time.Hour, "this run", time.Minute, "1m0s"},
		"put back":          {-time.Hour, "this run", time.Minute, "1m0s"},
		"started again":     {time.Minute, "another run", time.Second, "1m0s"},
		"and put back":      {-time.Hour, "another run", time.Second, "not known"},
		"older release":     {time.Minute, "", time.Second, "1m0s"},
		"and put back, too": {-time.Hour, "", time.Second, "not known"},
		"recorded later":    {time.Minute, "this run", -time.Second, "1m0s"},
	} {
		got := "not known"
		if at, ok := x.earlier(&local.Contact{At: now.Add(-c.ago), Boot: c.boot, BootTime: int64(time.Hour - c.passed)}, now); ok {
			got = now.Sub(at).String()
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
	}
	if at, ok := x.earlier(&local.Contact{}, now); ok {
		t.Errorf("of nothing: %v", at)
	}
}

func TestAnAllocationRunsForAsLongAsItMay(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		_, end := w.agent(t)
		pause(time.Second)
		limited := `,"MaxRunDuration":"10m"`
		long := w.place(newAlloc(t, "batch", mockTask("main", forLong)+","+mockTask("side", forLong), limited))
		short := w.place(newAlloc(t, "batch", mockTask("main", `"run_for":"1m"`), limited))
		again := w.place(newAlloc(t, "batch", mockTask("main", `"run_for":"90s","exit_code":1`, `,"RestartPolicy":{"Attempts":1000,"Interval":"24h","Delay":"15s","Mode":"delay"}`), limited))
		raised := newAlloc(t, "batch", mockTask("main", forLong), limited)
		w.place(raised)
		began := time.Now()
		pause(5 * time.Minute)
		end() // the time goes on while no agent runs
		pause(time.Minute)
		_, end = w.agent(t)
		pause(2 * time.Minute)
		w.want(raised.ID.String(), func(a *op.Alloc) { // a longer time, in place
			job, group := *a.Job, *a.Job.TaskGroups[0]
			group.MaxRunDuration = time.Hour
			job.TaskGroups = []*berth.TaskGroup{&group}
			a.Job = &job
		})
		pause(5 * time.Minute)
		for id, want := range map[string]string{
			long: "complete: allocation exceeded max_run_duration", again: "complete: allocation exceeded max_run_duration",
			short: "complete: All tasks have completed", raised.ID.String(): "running: Tasks are running",
		} {
			if got := w.status(id) + ": " + w.alloc(id).ClientDescription; got != want {
				t.Errorf("%s, want %s; %s", got, want, w.events(id, "main"))
			}
		}
		for _, task := range []string{"main", "side"} {
			if d := w.finished(long, task).Sub(began); d < 10*time.Minute || d > 10*time.Minute+5*time.Second {
				t.Errorf("%s ended after %v", task, d)
			}
			if got := w.events(long, task); !strings.Contains(got, "Max Run Duration Exceeded, Killing, Terminated, Killed") {
				t.Error(got)
			}
		}
		pause(time.Hour)
		if w.status(raised.ID.String()) != "complete" {
			t.Error("the longer time has no end")
		}
		end()
		_, end = w.agent(t) // which knows why it ended
		pause(time.Minute)
		if got := w.alloc(long).ClientDescription; got != "allocation exceeded max_run_duration" {
			t.Error(got)
		}
		end()
	})
}

// evicting makes an allocation that was given the room of others.
func evicting(t *testing.T, evicted ...*op.Alloc) *op.Alloc {
	a := newAlloc(t, "service", mockTask("main", forLong))
	for _, e := range evicted {
		a.PreemptedAllocations = append(a.PreemptedAllocations, e.ID)
	}
	return a
}

// slow is a task that takes its time to end.
func slow(t *testing.T) *op.Alloc {
	return newAlloc(t, "batch", mockTask("main", forLong+`,"kill_after":"5m"`, `,"KillTimeout":"10m"`))
}

func (c *cluster) evict(id string) {
	c.want(id, func(a *op.Alloc) { a.DesiredStatus, a.DesiredDescription = berth.DesiredEvict, "evicted" })
}

func TestAnAllocationWaitsForWhatWasPreemptedForIt(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		a, end := w.agent(t)
		pause(time.Second)
		one, two, unknown := slow(t), newAlloc(t, "batch", mockTask("main", forLong)), newAlloc(t, "batch", mockTask("main", forLong))
		w.place(one)
		w.place(two)
		pause(5 * time.Second)
		urgent := evicting(t, one, two, unknown)
		id := w.place(urgent)
		pause(5 * time.Second) // it is there first: servers say it in whatever order
		if w.status(id) != "pending" || !strings.HasSuffix(w.events(id, "main"), "Received, Task Setup, Waiting") {
			t.Errorf("%s: %s", w.status(id), w.events(id, "main"))
		}
		w.evict(one.ID.String())
		w.evict(two.ID.String())
		pause(time.Minute)
		if w.status(two.ID.String()) != "complete" || w.status(one.ID.String()) != "running" {
			t.Errorf("evicted: %s, %s", w.status(two.ID.String()), w.status(one.ID.String()))
		}
		if got := w.status(id) + ": " + w.alloc(id).ClientDescription; got != "pending: waiting for preempted allocations to stop" {
			t.Error(got)
		}
		events := w.alloc(id).TaskStates["main"].Events
		if e := events[len(events)-1]; e.Type != "Waiting" || !strings.HasPrefix(e.DisplayMessage, "Waiting for preempted allocations to stop: "+one.ID.Short()) {
			t.Errorf("%+v", e)
		}
		pause(5 * time.Minute)
		if w.status(one.ID.String()) != "complete" || w.status(id) != "running" {
			t.Errorf("%s, %s", w.status(one.ID.String()), w.status(id))
		}
		if began, ended := w.alloc(id).TaskStates["main"].StartedAt, w.finished(one.ID.String(), "main"); began.Before(ended) {
			t.Errorf("began at %v, and what was evicted ended at %v", began, ended)
		}
		if n := strings.Count(w.events(id, "main"), "Waiting"); n != 1 {
			t.Errorf("%d times: %s", n, w.events(id, "main"))
		}
		if len(a.waiting) != 0 {
			t.Errorf("still waiting: %v", a.waiting)
		}
		end()
	})
}

func TestWaitingForThePreemptedSurvivesARestart(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		_, end := w.agent(t)
		pause(time.Second)
		var evicted, urgent []*op.Alloc
		for range 4 { // the records come back in order of ID, so some of each before the other
			e := slow(t)
			evicted = append(evicted, e)
			w.place(e)
		}
		slices.Reverse(evicted)
		pause(5 * time.Second)
		for _, e := range evicted {
			u := evicting(t, e)
			urgent = append(urgent, u)
			w.place(u)
			w.evict(e.ID.String())
		}
		pause(time.Minute)
		for range 3 {
			end()
			pause(time.Second)
			w.cut(true)
			_, end = w.agent(t)
			pause(10 * time.Second) // while it has heard no server
			w.cut(false)
			pause(20 * time.Second)
			for _, u := range urgent {
				if id := u.ID.String(); w.status(id) != "pending" || strings.Contains(w.events(id, "main"), "Started") {
					t.Errorf("%s: %s", w.status(id), w.events(id, "main"))
				}
			}
		}
		gone := urgent[0].ID.String()
		w.stop(gone)
		pause(10 * time.Second)
		if w.status(gone) != "complete" || strings.Contains(w.events(gone, "main"), "Started") {
			t.Errorf("stopped as it waited: %s, %s", w.status(gone), w.events(gone, "main"))
		}
		pause(5 * time.Minute)
		for i, u := range urgent[1:] {
			id := u.ID.String()
			if w.status(id) != "running" || w.alloc(id).TaskStates["main"].StartedAt.Before(w.finished(evicted[i+1].ID.String(), "main")) {
				t.Errorf("%s, %s", w.status(id), w.events(id, "main"))
			}
		}
		end()
	})
}

// Servers that missed heartbeats do not know how allocations fare any more.
func TestServersThatMissedTheNodeAreToldOfAllThatLives(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		_, end := w.agent(t)
		pause(time.Second)
		var ids []string
		for range 3 {
			ids = append(ids, w.place(newAlloc(t, "service", mockTask("main", forLong))))
		}
		done := w.place(newAlloc(t, "batch", mockTask("main", `"run_for":"1s"`)))
		pause(10 * time.Second)
		lose := func() { // nobody tells the agent
			w.step(func() {
				for _, id := range ids {
					b := *w.allocs[id]
					b.ClientStatus = berth.ClientUnknown
					w.allocs[id] = &b
				}
			})
		}
		check := func(when string) {
			t.Helper()
			for _, id := range ids {
				if w.status(id) != "running" || strings.Count(w.events(id, "main"), "Started") != 1 {
					t.Errorf("%s: %s, %s", when, w.status(id), w.events(id, "main"))
				}
			}
			if w.status(done) != "complete" {
				t.Errorf("%s: what had ended is %s", when, w.status(done))
			}
		}
		sent := w.sent
		w.cut(true)
		pause(400 * time.Millisecond)
		w.cut(false)
		pause(time.Minute)
		if w.sent != sent {
			t.Errorf("%d reports after a gap within the heartbeat's time", w.sent-sent)
		}

		w.cut(true)
		pause(time.Minute)
		lose()
		w.cut(false)
		pause(time.Minute)
		check("back again")

		end()
		lose()
		pause(time.Minute)
		_, end = w.agent(t)
		pause(time.Minute)
		check("a new agent, late")

		w.step(func() { w.node = nil })
		lose()
		pause(time.Minute)
		check("forgotten")

		lose()
		for _, id := range ids { // told by the allocation itself
			w.want(id, func(*op.Alloc) {})
		}
		pause(10 * time.Second)
		check("taken for unknown")
		end()
	})
}

func TestATaskWithDevicesFailsCleanly(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		_, end := w.agent(t)
		pause(time.Second)
		id := w.place(newAlloc(t, "batch", mockTask("main", forLong, `,"Resources":{"Devices":[{"Name":"nvidia/gpu","Count":1}]}`)))
		pause(5 * time.Second)
		if w.status(id) != "failed" {
			t.Fatal(w.status(id))
		}
		for _, e := range w.alloc(id).TaskStates["main"].Events {
			if e.Type == berth.EventSetupFailure && strings.Contains(e.DisplayMessage, `task[main].resources.device: the task needs 1, and servers gave it 0`) {
				end()
				return
			}
		}
		t.Errorf("%+v", w.alloc(id).TaskStates["main"].Events)
		end()
	})
}
