package task

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/driver/mock"
	"berth/internal/agent/supervise"
	_ "berth/internal/onethread"
	"berth/internal/saferoot"
	"berth/op"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "supervise" {
		os.Exit(supervise.Main(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// bench is what a Runner needs around it: a directory, and a record of its
// state that outlives it.
type bench struct {
	t     *testing.T
	alloc *op.Alloc
	c     Config
	path  string

	mu        sync.Mutex
	record    []byte
	saveErr   error
	saves     atomic.Int32 // how often it was recorded, or that was tried
	contacted chan struct{}
}

func newBench(t *testing.T, task string) *bench {
	t.Helper()
	b := &bench{t: t, alloc: sampleAlloc(t, task), path: t.TempDir()}
	root, err := saferoot.Open(b.path)
	if err != nil {
		t.Fatal(err)
	}
	sup, err := supervise.OpenDir(root, b.alloc.ID.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(sup.Close(), root.Close()); err != nil {
			t.Error(err)
		}
	})
	place := samplePlace()
	place.AllocDir = b.path
	b.c = Config{
		Name: "app", Driver: mock.New(true), AllocDir: root, Supervisor: sup, Place: func() *Place { return place },
		Save: b.save, Changed: func() {}, Chance: func() float64 { return 0 }, Log: slog.New(slog.DiscardHandler),
	}
	return b
}

func (b *bench) save(state []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.saves.Add(1)
	if b.saveErr == nil {
		b.record = state
	}
	return b.saveErr
}

func (b *bench) failSaves(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.saveErr = err
}

// agent runs the task as an agent would; the result ends that agent.
func (b *bench) agent(t *testing.T) (r *Runner, end func() error) {
	b.mu.Lock()
	b.c.Restored = b.record
	b.mu.Unlock()
	b.c.Contacted = b.contacted
	r = New(b.c, b.alloc)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	return r, func() error { cancel(); return <-done }
}

func history(s State) string {
	var out []string
	for _, e := range s.Task.Events {
		out = append(out, e.Type)
	}
	return strings.Join(out, ", ")
}

func TestARunnerTakesATaskThroughItsLife(t *testing.T) {
	b := newBench(t, `{"Name":"app","Driver":"mock_driver","Config":{"run_for":"1m","exit_code":1},"RestartPolicy":{"Attempts":1,"Interval":"1h","Delay":"10s","Mode":"fail"}}`)
	synctest.Test(t, func(t *testing.T) {
		b.contacted = make(chan struct{})
		from := time.Now()
		r, end := b.agent(t)
		time.Sleep(30 * time.Second)
		if s := r.State(); s.Task.State != berth.TaskRunning || s.Launch != 1 {
			t.Errorf("%+v", s)
		}
		time.Sleep(35 * time.Second) // it has failed and waits
		if s := r.State(); s.Task.State != berth.TaskPending || s.Phase != Waiting {
			t.Errorf("%+v", s)
		}
		time.Sleep(time.Hour)
		if err := end(); err != nil {
			t.Errorf("a dead task: %v", err)
		}
		s := r.State()
		if !s.Task.Failed || s.Task.FinishedAt.Sub(from) != 130*time.Second || s.Task.Restarts != 1 || s.Launch != 2 {
			t.Errorf("%+v", s)
		}
		if got, want := history(s), "Received, Task Setup, Started, Terminated, Restarting, Started, Terminated, Not Restarting"; got != want {
			t.Errorf("%s", got)
		}
	})
}

func TestARunnerGoesOnWhereTheLastWasKilled(t *testing.T) {
	b := newBench(t, `{"Name":"app","Driver":"mock_driver","Config":{"run_for":"1m","exit_code":3},"RestartPolicy":{"Attempts":0,"Interval":"1h","Delay":"10s","Mode":"fail"}}`)
	synctest.Test(t, func(t *testing.T) {
		b.contacted = make(chan struct{})
		from := time.Now()
		_, end := b.agent(t)
		time.Sleep(20 * time.Second)
		if err := end(); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		r, end := b.agent(t)
		time.Sleep(20 * time.Second)
		if s := r.State(); s.Task.State != berth.TaskRunning || s.Launch != 1 || history(s) != "Received, Task Setup, Started" {
			t.Errorf("%+v", s)
		}
		_ = end()
		time.Sleep(time.Hour) // it ends meanwhile
		r, end = b.agent(t)
		time.Sleep(time.Second)
		if err := end(); err != nil {
			t.Errorf("%v", err)
		}
		s := r.State()
		if !s.Task.Failed || history(s) != "Received, Task Setup, Started, Terminated, Not Restarting" || s.Task.FinishedAt.Sub(from) < time.Hour {
			t.Errorf("%+v", s)
		}
	})
}

// Until servers were contacted a restored task is not started: it may be meant to
// be stopped. What runs is watched nevertheless.
func TestARestoredTaskWaitsForServersBeforeItStarts(t *testing.T) {
	b := newBench(t, `{"Name":"app","Driver":"mock_driver","Config":{"run_for":"1m"},"RestartPolicy":{"Attempts":5,"Interval":"1h","Delay":"1s","Mode":"fail"}}`)
	synctest.Test(t, func(t *testing.T) {
		b.contacted = make(chan struct{})
		_, end := b.agent(t)
		time.Sleep(20 * time.Second)
		_ = end()
		r, end := b.agent(t)
		time.Sleep(time.Hour)
		if s := r.State(); s.Phase != Preparing || s.Launch != 1 || s.Task.Restarts != 1 {
			t.Errorf("not contacted: %+v", s)
		}
		close(b.contacted)
		time.Sleep(2 * time.Second)
		if s := r.State(); s.Phase != Running || s.Launch != 2 {
			t.Errorf("contacted: %+v", s)
		}
		_ = end()
		b.contacted = make(chan struct{})
		r, end = b.agent(t)
		time.Sleep(2 * time.Minute) // it ends, and waits to be prepared
		r.Kill(Kill{Reason: "told so"})
		time.Sleep(time.Second)
		if s := r.State(); s.Phase != Dead || s.Task.Failed {
			t.Errorf("killed while it waits: %+v", s)
		}
		_ = end()
	})
}

func TestAKillDuringTheStartLeavesNothing(t *testing.T) {
	b := newBench(t, `{"Name":"app","Driver":"mock_driver","Config":{"run_for":"1h","start_block_for":"10m"}}`)
	synctest.Test(t, func(t *testing.T) {
		r, end := b.agent(t)
		time.Sleep(time.Minute)
		if s := r.State(); s.Phase != Starting {
			t.Errorf("%+v", s)
		}
		r.Kill(Kill{Reason: "changed my mind"})
		time.Sleep(time.Second)
		if s := r.State(); s.Phase != Dead || s.Task.Failed || history(s) != "Received, Task Setup, Killing, Killed" {
			t.Errorf("%+v", s)
		}
		if err := end(); err != nil {
			t.Error(err)
		}
	})
}

// A start that could not be recorded is not made: after a crash nobody would
// know of it.
func TestNothingStartsThatCannotBeRecorded(t *testing.T) {
	b := newBench(t, `{"Name":"app","Driver":"mock_driver","Config":{"run_for":"1h"},"RestartPolicy":{"Attempts":100,"Interval":"10h","Delay":"1m","Mode":"fail"}}`)
	synctest.Test(t, func(t *testing.T) {
		b.failSaves(errors.New("no space left on device"))
		r, end := b.agent(t)
		time.Sleep(10 * time.Minute)
		s := r.State()
		if s.Phase == Running || !strings.Contains(s.Task.Events[len(s.Task.Events)-1].DisplayMessage, "restarting") {
			t.Errorf("%+v", s)
		}
		b.failSaves(nil)
		time.Sleep(10 * time.Minute)
		if s := r.State(); s.Phase != Running {
			t.Errorf("%+v", s)
		}
		var recorded State
		if err := json.Unmarshal(b.record, &recorded); err != nil || recorded.Phase != Running {
			t.Errorf("%s, %v", b.record, err)
		}
		_ = end()
	})
}

// What changes nothing is neither recorded nor told.
func TestAnEventThatMeansNothingIsNotRecorded(t *testing.T) {
	b := newBench(t, `{"Name":"app","Driver":"mock_driver","Config":{"run_for":"10h"}}`)
	synctest.Test(t, func(t *testing.T) {
		var told atomic.Int32
		b.c.Changed = func() { told.Add(1) }
		r, end := b.agent(t)
		time.Sleep(time.Second)
		saves, before := b.saves.Load(), told.Load()
		r.Note(berth.EventWaiting, "it runs already")
		r.Schedule(berth.ScheduleFollow)
		r.RestartLaunch(7, "of another launch")
		time.Sleep(time.Second)
		if s, n := b.saves.Load()-saves, told.Load()-before; s != 0 || n != 0 {
			t.Errorf("it was recorded %d times and told %d times", s, n)
		}
		r.Signal("SIGHUP", "this one counts")
		time.Sleep(time.Second)
		if s, n := b.saves.Load()-saves, told.Load()-before; s != 1 || n != 1 {
			t.Errorf("a signal was recorded %d times and told %d times", s, n)
		}
		_ = end()
	})
}

func TestAnUpdateInPlaceWaitsForTheNextStart(t *testing.T) {
	task := func(text string) string {
		return `{"Name":"app","Driver":"mock_driver","Config":{"run_for":"1m","exit_code":1,"stdout_string":"${NOMAD_META_text};"},"Meta":{"text":"` + text + `"},"RestartPolicy":{"Attempts":5,"Interval":"1h","Delay":"1s","Mode":"fail"}}`
	}
	b := newBench(t, task("old"))
	newer := sampleAlloc(t, task("new"))
	synctest.Test(t, func(t *testing.T) {
		r, end := b.agent(t)
		time.Sleep(10 * time.Second)
		r.Update(newer)
		time.Sleep(10 * time.Second)
		if s := r.State(); s.Launch != 1 || s.Task.Restarts != 0 {
			t.Errorf("the update disturbed it: %+v", s)
		}
		r.Signal("SIGHUP", "for good measure")
		time.Sleep(time.Minute)
		r.Restart("asked for")
		time.Sleep(time.Second)
		if s := r.State(); s.Launch != 3 || s.Window.Count != 1 || !strings.Contains(history(s), "Signaling") {
			t.Errorf("%+v", s)
		}
		_ = end()
	})
	out, err := os.ReadFile(b.path + "/alloc/logs/app.stdout.0")
	if err != nil || string(out) != "old;new;new;" {
		t.Errorf("%q, %v", out, err)
	}
}

// lossy is a driver whose tasks get lost.
type lossy struct {
	*mock.Driver
	err  error
	lost atomic.Bool
}

func (d *lossy) Recover(ctx context.Context, t *driver.Task, state []byte) (driver.Handle, error) {
	if d.lost.Load() {
		return nil, d.err
	}
	return d.Driver.Recover(ctx, t, state)
}

// unclear is a driver that starts tasks and cannot tell that it did.
type unclear struct {
	*mock.Driver
	started driver.Handle
	asked   int // how often Recover had no answer
}

func (d *unclear) Start(ctx context.Context, t *driver.Task) (driver.Handle, error) {
	h, err := d.Driver.Start(ctx, t)
	if err != nil {
		return nil, err
	}
	d.started = h
	<-ctx.Done() // the order to end comes while nobody knows
	return nil, driver.ErrUnclear
}

func (d *unclear) Recover(context.Context, *driver.Task, []byte) (driver.Handle, error) {
	if d.asked++; d.asked < 3 {
		return nil, errors.New("the supervisor does not answer")
	}
	return d.started, nil
}

// A task whose start was not answered is not given up as long as it may run.
func TestAStartWithoutAnAnswerIsLookedFor(t *testing.T) {
	b := newBench(t, `{"Name":"app","Driver":"mock_driver","Config":{"run_for":"10h"}}`)
	synctest.Test(t, func(t *testing.T) {
		d := &unclear{Driver: mock.New(true)}
		b.c.Driver = d
		r, end := b.agent(t)
		time.Sleep(time.Minute)
		r.Kill(Kill{Reason: "changed my mind"})
		time.Sleep(time.Second)
		if s := r.State(); s.Phase != Starting {
			t.Errorf("given up while it may run: %+v", s)
		}
		time.Sleep(time.Minute)
		if s := r.State(); s.Phase != Dead || s.Task.Failed || history(s) != "Received, Task Setup, Killing, Started, Terminated, Killed" {
			t.Errorf("%s: %+v", history(s), s)
		}
		if err := end(); err != nil {
			t.Error(err)
		}
	})
}

// The record of a task is lost while the task runs, and servers want it stopped
// when the agent takes it up again.
func TestAnOrderToEndBeforeTheRunnerRunsEndsWhatRuns(t *testing.T) {
	b := newBench(t, `{"Name":"app","Driver":"mock_driver","Config":{"run_for":"10h"}}`)
	synctest.Test(t, func(t *testing.T) {
		d := &unclear{Driver: mock.New(true), asked: 2}
		b.c.Driver = d
		_, end := b.agent(t)
		time.Sleep(time.Minute)
		_ = end()
		b.c.Adopt = true
		r := New(b.c, b.alloc)
		r.Kill(Kill{Reason: "not wanted any more"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := r.Run(ctx); err != nil {
			t.Errorf("%v: %+v", err, r.State())
		}
		if s := r.State(); s.Phase != Dead || history(s) != "Received, Killing, Started, Terminated, Killed" {
			t.Errorf("%s: %+v", history(s), s)
		}
	})
}

func TestWhatIsLostIsToldOnceAndNotStartedAgain(t *testing.T) {
	for _, c := range []struct {
		err   error
		phase Phase
	}{{driver.ErrLost, Dead}, {driver.ErrUnknown, Dead}, {driver.ErrReboot, Running}} {
		b := newBench(t, `{"Name":"app","Driver":"mock_driver","Config":{"run_for":"10h"}}`)
		synctest.Test(t, func(t *testing.T) {
			b.contacted = make(chan struct{})
			close(b.contacted)
			d := &lossy{Driver: mock.New(true), err: c.err}
			b.c.Driver = d
			_, end := b.agent(t)
			time.Sleep(time.Second)
			_ = end()
			d.lost.Store(true)
			r, end := b.agent(t)
			time.Sleep(time.Second)
			s := r.State()
			if s.Phase != c.phase || s.Task.Failed != (c.phase == Dead) {
				t.Errorf("%v: %+v", c.err, s)
			}
			_ = end()
			d.lost.Store(false)
			r, end = b.agent(t)
			time.Sleep(time.Second)
			if again := r.State(); again.Phase != c.phase || history(again) != history(s) {
				t.Errorf("%v, later: %s", c.err, history(again))
			}
			_ = end()
		})
	}
}

func TestARecordOfAnotherReleaseIsNoObstacle(t *testing.T) {
	b := newBench(t, `{"Name":"app","Driver":"mock_driver","Config":{"run_for":"10h"}}`)
	b.record = []byte(`{"Phase":5}`)
	synctest.Test(t, func(t *testing.T) {
		b.contacted = make(chan struct{})
		close(b.contacted)
		r, end := b.agent(t)
		time.Sleep(time.Second)
		if s := r.State(); s.Phase != Running {
			t.Errorf("%+v", s)
		}
		_ = end()
	})
}
