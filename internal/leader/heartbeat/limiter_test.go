package heartbeat_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/leader/heartbeat"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// many registers n nodes, which exist when the term begins.
func many(n int) (out []state.Command) {
	for i := range n {
		out = append(out, statetest.AddNode(i+1, 1000, 1000))
	}
	return out
}

// keep lets the nodes from first to last send heartbeats for a while.
func (m *term) keep(first, last int, d time.Duration) {
	for ; d > 0; d -= 5 * time.Second {
		for n := first; n <= last; n++ {
			m.Heartbeat(statetest.ID[berth.Node](n))
		}
		m.pass(min(d, 5*time.Second))
	}
}

func (m *term) down() (n int) {
	for x := range m.store.Snapshot().Nodes() {
		if x.Status == berth.NodeDown {
			n++
		}
	}
	return n
}

// Single nodes are given up as soon as their time is up, and so is a quarter of
// the nodes at once.
func TestAFewNodesAreGivenUpImmediately(t *testing.T) {
	for _, c := range []struct{ nodes, silent int }{{1, 1}, {2, 2}, {3, 2}, {8, 2}, {20, 5}, {100, 10}} {
		t.Run(fmt.Sprintf("%d of %d", c.silent, c.nodes), func(t *testing.T) {
			inTerm(t, defaults, func(m *term) {
				m.keep(c.silent+1, c.nodes, 2*time.Minute)
				if held, alarms := m.Silent(); m.down() != c.silent || held+alarms > 0 {
					t.Errorf("%d are down, %d held, %d alarms", m.down(), held, alarms)
				}
			}, many(c.nodes)...)
		})
	}
}

// More are given up in batches of a hundredth, at least one, every ten seconds,
// with one alarm. Those that come back stay as they are.
func TestManyNodesAreGivenUpInBatches(t *testing.T) {
	for _, c := range []struct{ nodes, silent, batch int }{{10, 4, 1}, {30, 9, 1}, {99, 12, 1}, {400, 12, 4}} {
		t.Run(fmt.Sprintf("%d of %d", c.silent, c.nodes), func(t *testing.T) {
			inTerm(t, defaults, func(m *term) {
				m.keep(c.silent+1, c.nodes, 59*time.Second) // all had a minute when the term began
				if m.down() != 0 {
					t.Fatalf("%d are down before their time", m.down())
				}
				m.keep(c.silent+1, c.nodes, 2*time.Second)
				for n := c.batch; ; n += c.batch {
					if held, alarms := m.Silent(); m.down() != n || held != c.silent-n || alarms != 1 {
						t.Fatalf("%d are down, %d held, %d alarms; want %d down, %d held", m.down(), held, alarms, n, c.silent-n)
					}
					if n == 2*c.batch { // all others come back
						m.keep(1, c.nodes, time.Minute)
						break
					}
					m.keep(c.silent+1, c.nodes, 10*time.Second)
				}
				if held, _ := m.Silent(); m.down() != 2*c.batch || held != 0 {
					t.Errorf("at the end %d are down, %d held", m.down(), held)
				}
				for n := 1; n <= c.silent; n++ {
					if m.node(n).Status == berth.NodeReady && m.downs(n) != 1 { // that it was held, once
						t.Errorf("node %d was told %d times", n, m.downs(n))
					}
				}
			}, many(c.nodes)...)
		})
	}
}

// Nodes that stay silent are all given up in the end, even long after they went
// silent, and faster with every minute. When one comes back it begins slowly
// again.
func TestTheLimiterGoesFasterWithTime(t *testing.T) {
	inTerm(t, defaults, func(m *term) {
		m.keep(31, 90, 61*time.Second)
		for i, want := range []int{1, 2, 3, 4, 5, 6, 8, 10, 12} {
			if m.down() != want {
				t.Fatalf("after %d batches %d are down, want %d", i+1, m.down(), want)
			}
			m.keep(31, 90, 10*time.Second)
		}
		first := m.down() + 1
		m.keep(30, 90, 10*time.Second) // number 30 is back
		if n := m.down(); n != first {
			t.Errorf("after one came back %d are down, want %d", n, first)
		}
		m.keep(30, 90, 3*time.Minute)
		if held, alarms := m.Silent(); held != 0 || alarms != 1 || m.down() != 29 {
			t.Errorf("%d are down, %d held, %d alarms", m.down(), held, alarms)
		}
	}, many(90)...)
}

// However large the cluster, a failed zone, a third of it, is given up within
// minutes. docs/heartbeats.md has the table.
func TestHowLongAZoneTakes(t *testing.T) {
	page, err := os.ReadFile("../../../docs/heartbeats.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, nodes := range []int{40, 1000, 10_000} {
		row := fmt.Sprintf("| %d |", nodes)
		for _, silent := range []int{11, nodes / 3, nodes / 2} {
			row += fmt.Sprintf(" %s |", heartbeat.UntilAllAreGivenUp(heartbeat.DefaultLimiter, nodes, silent))
		}
		t.Log(row)
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/heartbeats.md lacks the row %s", row)
		}
	}
}

// While all nodes are silent none is given up; when they come back nothing has
// happened to them.
func TestNoNodeIsGivenUpWhileAllAreSilent(t *testing.T) {
	inTerm(t, defaults, func(m *term) {
		m.pass(time.Hour)
		if held, alarms := m.Silent(); m.down() != 0 || held != 20 || alarms != 1 {
			t.Fatalf("%d are down, %d held, %d alarms", m.down(), held, alarms)
		}
		m.keep(1, 20, 10*time.Minute)
		if held, _ := m.Silent(); m.down() != 0 || held != 0 {
			t.Errorf("when they are back, %d are down, %d held", m.down(), held)
		}
		for e := range m.store.Snapshot().Evals() {
			t.Errorf("evaluation %s was raised", e.TriggeredBy)
		}
	}, many(20)...)
}

// Without a limiter all are given up at once.
func TestTheLimiterCanBeOff(t *testing.T) {
	o := defaults
	o.Limiter.Nodes, o.Limiter.Share = 0, 0
	inTerm(t, o, func(m *term) {
		m.pass(2 * time.Minute)
		if m.down() != 20 {
			t.Errorf("%d are down", m.down())
		}
	}, many(20)...)
}
