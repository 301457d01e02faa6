package heartbeat_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/leader/heartbeat"
	_ "berth/internal/onethread"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

const lostAfter = time.Hour

// runs registers a job that waits an hour for disconnected clients, or not at
// all, with an instance on the first of the given nodes.
func runs(t *testing.T, away string, nodes ...int) []state.Command {
	job := statetest.Job(t, `{"ID":"web","TaskGroups":[{"Name":"g","Count":2`+away+`}]}`)
	cmds := []state.Command{statetest.Register(job, 1)}
	plan := &state.ApplyPlan{Eval: statetest.ID[berth.Eval](1), End: &state.EvalEnd{Status: berth.EvalComplete}}
	for i, n := range nodes {
		cmds = append([]state.Command{statetest.AddNode(n, 4000, 4000)}, cmds...)
		plan.Place = append(plan.Place, berth.Placement{NodeID: statetest.ID[berth.Node](n), Index: uint32(i)})
	}
	return append(cmds, plan)
}

const waits = `,"Disconnect":{"LostAfter":3600000000000}`

// says lets the agent of a node report the status of its allocation.
func (m *term) says(n int, c berth.ClientStatus) {
	m.t.Helper()
	m.log.Must(m.t, &state.ReportAllocs{Node: statetest.ID[berth.Node](n), Updates: []state.AllocUpdate{{ID: m.alloc(n).ID, Client: c}}, Now: time.Now().UnixNano()})
}

func (m *term) alloc(n int) *berth.Alloc {
	m.t.Helper()
	all := slices.Collect(m.store.Snapshot().AllocsOn(statetest.ID[berth.Node](n)))
	if len(all) != 1 {
		m.t.Fatalf("%d allocations are on node %d", len(all), n)
	}
	return all[0]
}

// does lets the scheduler act on the allocation of a node.
func (m *term) does(n int, stop berth.AllocStop) {
	m.t.Helper()
	stop.ID = m.alloc(n).ID
	for e := range m.store.Snapshot().OpenEvals(berth.EvalPending) {
		m.log.Must(m.t, &state.ApplyPlan{Eval: e.ID, Stop: []berth.AllocStop{stop}, Now: time.Now().UnixNano(), End: &state.EvalEnd{Status: berth.EvalComplete}})
		return
	}
	m.t.Fatal("there is no evaluation")
}

var unknown = berth.AllocStop{StopReason: berth.UnknownAway, Client: berth.ClientUnknown}

// A silent node with an allocation that may come back is disconnected, and down
// when the time of all such allocations is over. Each time its jobs are
// evaluated.
func TestDisconnectedThenDown(t *testing.T) {
	inTerm(t, defaults, func(m *term) {
		m.says(1, berth.ClientRunning)
		m.pass(defaults.FailoverTTL - time.Nanosecond)
		m.wants(1, berth.NodeReady)
		m.pass(time.Nanosecond)
		m.wants(1, berth.NodeDisconnected)
		m.pass(3 * time.Second) // until a scheduler has seen it
		m.does(1, unknown)
		m.pass(lostAfter - time.Nanosecond)
		m.wants(1, berth.NodeDisconnected)
		m.pass(time.Nanosecond)
		m.wants(1, berth.NodeDown)
		if m.downs(1) != 2 {
			t.Errorf("the node tells %d times that it was not heard", m.downs(1))
		}
		m.does(1, berth.AllocStop{StopReason: berth.StopNodeLost, Client: berth.ClientLost})
		index := m.store.Snapshot().Index
		m.pass(100 * lostAfter)
		if now := m.store.Snapshot().Index; now != index {
			t.Errorf("%d commands more", now-index)
		}
	}, runs(t, waits, 1)...)
}

// A silent node without such an allocation is down at once.
func TestNothingToWaitFor(t *testing.T) {
	for name, tt := range map[string]struct {
		away string
		says berth.ClientStatus
	}{
		"no disconnect block": {"", berth.ClientRunning},
		"an empty one":        {`,"Disconnect":{}`, berth.ClientRunning},
		"it never ran":        {waits, berth.ClientPending},
		"it has ended":        {waits, berth.ClientFailed},
	} {
		t.Run(name, func(t *testing.T) {
			inTerm(t, defaults, func(m *term) {
				m.says(1, tt.says)
				m.pass(defaults.FailoverTTL)
				m.wants(1, berth.NodeDown)
			}, runs(t, tt.away, 1)...)
		})
	}
}

// If such an allocation is stopped, its node is down soon after.
func TestStoppedWhileDisconnected(t *testing.T) {
	inTerm(t, defaults, func(m *term) {
		m.says(1, berth.ClientRunning)
		m.pass(defaults.FailoverTTL)
		m.does(1, unknown)
		m.pass(10 * time.Minute)
		m.wants(1, berth.NodeDisconnected)
		m.log.Must(m.t, &state.StopJob{Key: berth.JobKey{Namespace: berth.DefaultNamespace, ID: "web"}, Eval: state.EvalSeed{
			ID: statetest.ID[berth.Eval](9), TriggeredBy: berth.TriggerJobDeregister, Cause: berth.Cause{Kind: berth.CauseUser},
		}, Now: 1})
		m.does(1, berth.AllocStop{StopReason: berth.StopJobEnded})
		m.pass(time.Minute)
		m.wants(1, berth.NodeDown)
	}, runs(t, waits, 1)...)
}

// A disconnected node that sends a heartbeat is ready, and its time starts again.
func TestDisconnectedAndBack(t *testing.T) {
	inTerm(t, defaults, func(m *term) {
		m.says(1, berth.ClientRunning)
		m.pass(defaults.FailoverTTL)
		m.wants(1, berth.NodeDisconnected)
		m.does(1, unknown)
		for range 3 {
			m.pass(lostAfter / 2)
			m.log.Must(m.t, &state.SetNodeStatus{ID: statetest.ID[berth.Node](1), Status: berth.NodeReady, Now: time.Now().UnixNano()})
			m.says(1, berth.ClientRunning)
			ttl := m.Heartbeat(statetest.ID[berth.Node](1))
			m.pass(ttl + defaults.Grace - time.Nanosecond)
			m.wants(1, berth.NodeReady)
			m.pass(time.Nanosecond)
			m.wants(1, berth.NodeDisconnected)
			m.does(1, unknown)
		}
		// It registers and is silent after that: it is given up at the time
		// that it had.
		ttl := m.Heartbeat(statetest.ID[berth.Node](1))
		m.pass(ttl + defaults.Grace)
		m.wants(1, berth.NodeDisconnected)
		m.pass(lostAfter)
		m.wants(1, berth.NodeDown)
	}, runs(t, waits, 1)...)
}

// A new leader takes the times from the state: it neither restarts nor forgets
// them.
func TestNewTermKeepsTheTime(t *testing.T) {
	inTerm(t, defaults, func(m *term) {
		m.says(1, berth.ClientRunning)
		m.says(2, berth.ClientRunning)
		m.pass(defaults.FailoverTTL)
		m.wants(2, berth.NodeDisconnected)
		m.does(1, unknown)
		m.log.Must(m.t, &state.BeginTerm{Term: 2})
		m.pass(lostAfter / 2)
		ctx, stop := context.WithCancel(m.t.Context())
		defer stop()
		next := heartbeat.New(2, m.store, m.log, defaults)
		next.Logger = m.Logger
		go next.Run(ctx)
		synctest.Wait()
		m.pass(lostAfter/2 - time.Nanosecond)
		m.wants(1, berth.NodeDisconnected)
		m.pass(time.Nanosecond)
		m.wants(1, berth.NodeDown)
		m.wants(2, berth.NodeDisconnected) // nobody has noted yet that what it runs is unknown
		m.pass(time.Second)
		m.wants(2, berth.NodeDown)
		stop()
		synctest.Wait()
	}, runs(t, waits, 1, 2)...)
}

// An allocation without a time limit keeps its node disconnected.
func TestWithoutEnd(t *testing.T) {
	inTerm(t, defaults, func(m *term) {
		m.says(1, berth.ClientRunning)
		m.pass(defaults.FailoverTTL)
		m.does(1, unknown)
		m.pass(30 * 24 * time.Hour)
		m.wants(1, berth.NodeDisconnected)
	}, runs(t, `,"Disconnect":{"Replace":false}`, 1)...)
}
