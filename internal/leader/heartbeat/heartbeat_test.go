package heartbeat_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/leader/heartbeat"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// term is a monitor that runs on a store.
type term struct {
	*heartbeat.Monitor
	t     *testing.T
	store *state.Store
	log   *statetest.Log
	clock *clock
}

// clock is a clock of a machine that can stand still.
type clock struct{ stopped, asleep atomic.Int64 }

func (c *clock) Now() time.Time        { return time.Now().Add(time.Duration(c.stopped.Load())) }
func (c *clock) Asleep() time.Duration { return time.Duration(c.asleep.Load()) }

// inTerm runs f beside a monitor, in virtual time.
func inTerm(t *testing.T, o heartbeat.Options, f func(m *term), before ...state.Command) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store, log := statetest.New(t, append([]state.Command{&state.BeginTerm{Term: 1}}, before...)...)
		ctx, stop := context.WithCancel(t.Context())
		clock := &clock{}
		m := &term{heartbeat.NewOn(clock, 1, store, log, o), t, store, log, clock}
		m.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
		ended := make(chan error)
		go func() { ended <- m.Run(ctx) }()
		defer func() {
			stop()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}()
		synctest.Wait()
		f(m)
	})
}

// Heartbeat sends a heartbeat of a node.
func (m *term) Heartbeat(id berth.NodeID) time.Duration {
	m.t.Helper()
	return beat(m.t, m.Monitor, id)
}

func beat(t *testing.T, m *heartbeat.Monitor, id berth.NodeID) time.Duration {
	t.Helper()
	ttl, err := m.Heartbeat(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return ttl
}

func (m *term) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (m *term) node(n int) *berth.Node { return m.store.Snapshot().Node(statetest.ID[berth.Node](n)) }

func (m *term) wants(n int, status string) {
	m.t.Helper()
	if got := m.node(n).Status; got != status {
		m.t.Fatalf("node %d is %s, not %s", n, got, status)
	}
}

// downs counts how often the node was marked as down.
func (m *term) downs(n int) (count int) {
	for _, e := range m.node(n).Events {
		if e.Subsystem == berth.NodeEventHeartbeat {
			count++
		}
	}
	return count
}

var defaults = heartbeat.DefaultOptions

// A silent node is down when its TTL and the grace are over, not before, and is
// marked once.
func TestSilentNodeIsDownOnce(t *testing.T) {
	inTerm(t, defaults, func(m *term) {
		ttl := m.Heartbeat(statetest.ID[berth.Node](1))
		if ttl < defaults.MinTTL || ttl >= 2*defaults.MinTTL {
			t.Errorf("the TTL is %v", ttl)
		}
		m.pass(ttl + defaults.Grace - time.Nanosecond)
		m.wants(1, berth.NodeReady)
		m.pass(time.Nanosecond)
		m.wants(1, berth.NodeDown)
		index := m.store.Snapshot().Index
		m.pass(time.Hour)
		if m.downs(1) != 1 || m.store.Snapshot().Index != index {
			t.Errorf("it was set down %d times, by %d commands more", m.downs(1), m.store.Snapshot().Index-index)
		}
		// It comes back, and goes again.
		m.log.Must(t, &state.SetNodeStatus{ID: statetest.ID[berth.Node](1), Status: berth.NodeReady})
		ttl = m.Heartbeat(statetest.ID[berth.Node](1))
		m.pass(ttl + defaults.Grace)
		m.wants(1, berth.NodeDown)
		if m.downs(1) != 2 {
			t.Errorf("it went twice and was set down %d times", m.downs(1))
		}
	}, statetest.AddNode(1, 4000, 4000))
}

// A node that goes down leaves an evaluation for each job on it.
func TestDownRaisesEvaluations(t *testing.T) {
	job := statetest.Job(t, `{"ID":"web","TaskGroups":[{"Name":"g"}]}`)
	inTerm(t, defaults, func(m *term) {
		m.pass(defaults.FailoverTTL)
		m.wants(1, berth.NodeDown)
		for e := range m.store.Snapshot().OpenEvals(berth.EvalPending) {
			if e.JobID == "web" && e.TriggeredBy == berth.TriggerNodeUpdate && e.NodeID == statetest.ID[berth.Node](1) {
				return
			}
		}
		t.Error("nobody looks after the job")
	}, statetest.AddNode(1, 4000, 4000), statetest.Register(job, 1), &state.ApplyPlan{
		Eval: statetest.ID[berth.Eval](1), Place: []berth.Placement{{NodeID: statetest.ID[berth.Node](1)}},
		End: &state.EvalEnd{Status: berth.EvalComplete},
	})
}

func TestHeartbeatsKeepANodeUp(t *testing.T) {
	inTerm(t, defaults, func(m *term) {
		for range 100 {
			ttl := m.Heartbeat(statetest.ID[berth.Node](1))
			m.Heartbeat(statetest.ID[berth.Node](9)) // of whom nobody knows
			m.pass(ttl + defaults.Grace - time.Nanosecond)
			m.wants(1, berth.NodeReady)
		}
		m.wants(2, berth.NodeDown) // which nobody heard
		if m.downs(1) != 0 || m.downs(2) != 1 {
			t.Errorf("set down: %d and %d times", m.downs(1), m.downs(2))
		}
	}, statetest.AddNode(1, 4000, 4000), statetest.AddNode(2, 4000, 4000))
}

// When a term begins, nodes have the time to find the new leader; those that
// are down stay so.
func TestNewTermIsPatient(t *testing.T) {
	inTerm(t, defaults, func(m *term) {
		m.pass(defaults.FailoverTTL - time.Nanosecond)
		m.wants(1, berth.NodeReady)
		m.pass(time.Nanosecond)
		m.wants(1, berth.NodeDown)
		if m.downs(1) != 1 || m.downs(2) != 0 {
			t.Errorf("set down: %d and %d times", m.downs(1), m.downs(2))
		}
	}, statetest.AddNode(1, 4000, 4000), statetest.AddNode(2, 4000, 4000),
		&state.SetNodeStatus{ID: statetest.ID[berth.Node](2), Status: berth.NodeDown})
}

// A node has all of the time that the previous leader gave it, however long
// that is (invariant I-30).
func TestNewTermKeepsWhatWasGiven(t *testing.T) {
	busy := defaults
	busy.MaxPerSec = 0.2 // the TTL of 20 nodes is 100 s and more
	nodes := make([]state.Command, 20)
	for i := range nodes {
		nodes[i] = statetest.AddNode(i+1, 4000, 4000)
	}
	for range 20 {
		inTerm(t, busy, func(m *term) {
			before := m.Heartbeat(statetest.ID[berth.Node](1))
			ctx, stop := context.WithCancel(m.t.Context())
			defer stop()
			next := heartbeat.New(1, m.store, m.log, busy)
			next.Logger = m.Logger
			go next.Run(ctx)
			synctest.Wait()
			m.pass(before - time.Second)
			m.wants(1, berth.NodeReady)
			m.Heartbeat(statetest.ID[berth.Node](1))
			if ttl := beat(t, next, statetest.ID[berth.Node](1)); ttl < 100*time.Second {
				t.Errorf("twenty nodes at one beat in five seconds are given %v", ttl)
			}
			stop()
			synctest.Wait()
		}, nodes...)
	}
}

// Heartbeats are spread: nodes that registered together do not send them
// together.
func TestHeartbeatsAreSpread(t *testing.T) {
	inTerm(t, defaults, func(m *term) {
		given := map[time.Duration]int{}
		for n := range 100 {
			given[m.Heartbeat(statetest.ID[berth.Node](n)).Truncate(time.Second)]++
		}
		for at, n := range given {
			if n > 40 {
				t.Errorf("%d of 100 nodes beat again within the second after %v", n, at)
			}
		}
	})
}

// A monitor of an earlier term changes nothing, and its Run returns the error
// when the log is lost.
func TestEndOfTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, log := statetest.New(t, &state.BeginTerm{Term: 1}, statetest.AddNode(1, 4000, 4000))
		m := heartbeat.New(1, store, log, defaults)
		var told bytes.Buffer
		m.Logger = slog.New(slog.NewTextHandler(&told, nil))
		ended := make(chan error)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { ended <- m.Run(ctx) }()
		synctest.Wait()
		log.Must(t, &state.BeginTerm{Term: 2})
		time.Sleep(time.Hour)
		if s := store.Snapshot().Node(statetest.ID[berth.Node](1)).Status; s != berth.NodeReady {
			t.Errorf("a leader of an older term set the node %s", s)
		}
		beat(t, m, statetest.ID[berth.Node](1))
		log.Lose()
		if err := <-ended; err == nil || berth.KindOf(err) != "" {
			t.Errorf("the log is lost: %v", err)
		}
		if !strings.Contains(told.String(), "a node is not heard") {
			t.Errorf("its log says: %s", told.String())
		}
	})
}
