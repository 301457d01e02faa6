package heartbeat_test

import (
	"testing"
	"time"

	"berth"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// A node that was lost together with the last leader is given up as soon as one
// that is lost at any other time, once half of the nodes have found the new
// leader.
func TestANodeLostWithTheLeaderIsGivenUpInTheNormalTime(t *testing.T) {
	three := []state.Command{statetest.AddNode(1, 4000, 4000), statetest.AddNode(2, 4000, 4000), statetest.AddNode(3, 4000, 4000)}
	normal := 2*defaults.MinTTL + defaults.Grace
	beat := func(m *term, nodes ...int) {
		for _, n := range nodes {
			m.Heartbeat(statetest.ID[berth.Node](n))
		}
	}
	t.Run("most are heard", func(t *testing.T) {
		inTerm(t, defaults, func(m *term) {
			for range 3 {
				beat(m, 1, 2)
				m.pass((normal - time.Nanosecond) / 3)
			}
			m.wants(3, berth.NodeReady)
			m.pass(time.Second)
			m.wants(3, berth.NodeDown)
			m.wants(1, berth.NodeReady)
			m.wants(2, berth.NodeReady)
		}, three...)
	})
	t.Run("few are heard", func(t *testing.T) {
		inTerm(t, defaults, func(m *term) {
			for at := time.Duration(0); at+10*time.Second < defaults.FailoverTTL; at += 10 * time.Second {
				beat(m, 1)
				m.pass(10 * time.Second)
			}
			m.wants(2, berth.NodeReady) // the full time of a new term
			m.wants(3, berth.NodeReady)
			beat(m, 1, 2) // now most are
			m.pass(time.Nanosecond)
			m.wants(3, berth.NodeDown)
			m.wants(2, berth.NodeReady)
		}, three...)
	})
	t.Run("it is heard late", func(t *testing.T) {
		inTerm(t, defaults, func(m *term) {
			m.pass(15 * time.Second)
			beat(m, 1, 2)
			m.pass(normal - 15*time.Second - time.Nanosecond)
			beat(m, 3)
			m.pass(time.Second)
			m.wants(3, berth.NodeReady)
		}, three...)
	})
}
