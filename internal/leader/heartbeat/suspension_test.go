package heartbeat_test

import (
	"testing"
	"time"

	"berth"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// The machine of a server and its node stands still for a time in which the
// node's time would have run out. When it goes on, the node has what was left,
// and nothing has happened to its allocations, whichever clock shows it.
func TestTimeInWhichNobodyCouldBeHeardDoesNotCount(t *testing.T) {
	for name, stand := range map[string]func(*clock, time.Duration){
		"the process is stopped": func(c *clock, d time.Duration) { c.stopped.Add(int64(d)) },
		"the machine sleeps":     func(c *clock, d time.Duration) { c.asleep.Add(int64(d)) },
	} {
		for _, d := range []time.Duration{3 * time.Second, 25 * time.Second, 12 * time.Hour} {
			t.Run(name+" "+d.String(), func(t *testing.T) {
				inTerm(t, defaults, func(m *term) {
					ttl := m.Heartbeat(statetest.ID[berth.Node](1))
					left := 2500 * time.Millisecond
					m.pass(ttl + defaults.Grace - left)
					stand(m.clock, d)
					m.pass(left - time.Second)
					m.wants(1, berth.NodeReady)
					ttl = m.Heartbeat(statetest.ID[berth.Node](1))
					m.pass(ttl + defaults.Grace - time.Second)
					m.wants(1, berth.NodeReady)
					m.pass(time.Second + d) // what it may be given in addition
					m.pass(time.Minute)
					m.wants(1, berth.NodeDown)
				}, statetest.AddNode(1, 4000, 4000))
			})
		}
	}
}

// After a long time the connections of the other nodes are broken. They have as
// much time to come back as when a term begins, and no more.
func TestNodesHaveTimeToComeBackAfterALongSuspension(t *testing.T) {
	inTerm(t, defaults, func(m *term) {
		m.Heartbeat(statetest.ID[berth.Node](1))
		m.pass(5 * time.Second)
		m.clock.asleep.Add(int64(12 * time.Hour))
		m.pass(defaults.FailoverTTL)
		m.wants(1, berth.NodeReady)
		m.pass(2 * time.Second)
		m.wants(1, berth.NodeDown)
	}, statetest.AddNode(1, 4000, 4000))
}

// A process that is a little late, as on a busy machine, or whose disk is slow
// while it gives up a node, was not suspended: a silent node has no more time
// for that.
func TestABusyServerWasNotSuspended(t *testing.T) {
	inTerm(t, defaults, func(m *term) {
		ttl := m.Heartbeat(statetest.ID[berth.Node](1))
		for d := ttl + defaults.Grace; d > 0; d -= 1500 * time.Millisecond {
			m.clock.stopped.Add(int64(500 * time.Millisecond))
			m.pass(time.Second)
		}
		m.pass(time.Second)
		m.wants(1, berth.NodeDown)
	}, statetest.AddNode(1, 4000, 4000))

	inTerm(t, defaults, func(m *term) {
		m.log.Hold()
		m.pass(defaults.FailoverTTL - time.Second)
		ttl := m.Heartbeat(statetest.ID[berth.Node](2))
		m.pass(time.Second) // node 1 is given up, and that takes long
		m.pass(ttl + defaults.Grace)
		m.log.Release()
		m.pass(time.Second)
		m.wants(1, berth.NodeDown)
		m.wants(2, berth.NodeDown)
	}, statetest.AddNode(1, 4000, 4000), statetest.AddNode(2, 4000, 4000))
}

// A node whose end is being committed is not answered as if nothing were wrong:
// it is answered when its new status is in the state.
func TestAHeartbeatAfterANodeWasGivenUp(t *testing.T) {
	inTerm(t, defaults, func(m *term) {
		m.log.Hold()
		m.pass(defaults.FailoverTTL)
		m.wants(1, berth.NodeReady) // not committed yet
		answered := make(chan string, 1)
		go func() {
			m.Heartbeat(statetest.ID[berth.Node](1))
			answered <- m.node(1).Status
		}()
		m.pass(time.Second)
		select {
		case <-answered:
			t.Fatal("the heartbeat is answered before the node's status is known")
		default:
		}
		m.Heartbeat(statetest.ID[berth.Node](2)) // another node does not wait
		m.log.Release()
		m.pass(0)
		if s := <-answered; s != berth.NodeDown {
			t.Errorf("when the heartbeat is answered the node is %s", s)
		}
	}, statetest.AddNode(1, 4000, 4000), statetest.AddNode(2, 4000, 4000), &state.SetNodeStatus{ID: statetest.ID[berth.Node](2), Status: berth.NodeDown})
}
