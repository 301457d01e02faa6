package consensus_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/consensus"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// comparing is a booted cluster of n servers that compare their states each
// minute, with some history.
func comparing(t *testing.T, n int) (c *cluster, leader *member) {
	c = newCluster(t, func(conf *consensus.Config) { conf.CompareEvery = time.Minute })
	c.boot(n)
	leader = c.leader()
	for range 20 {
		if err := c.propose(t.Context(), leader.leading().Log); err != nil {
			t.Fatal(err)
		}
	}
	c.converge()
	return c, leader
}

// gone waits until a server has ended because its state differs.
func (c *cluster) gone(m *member) {
	c.t.Helper()
	c.within(20*time.Minute, m.id+" has ended", func() bool { return len(m.ended) > 0 })
	if err := <-m.ended; !errors.Is(err, consensus.ErrDiffers) {
		c.t.Fatalf("%s ended: %v", m.id, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.servers, m.id)
}

// A leader whose state is wrong ends, and the two that agree go on without it;
// their data stays. Started again, it is refilled and does not lead before.
func TestALeaderWithAWrongStateEnds(t *testing.T) {
	for _, n := range []int{3, 5} {
		synctest.Test(t, func(t *testing.T) {
			c, wrong := comparing(t, n)
			defer c.close()
			c.part(wrong.id)
			c.gone(wrong)
			if got := len(c.running()); got != n-1 {
				t.Fatalf("%d servers run after the wrong one ended, want %d", got, n-1)
			}
			c.converge()
			m := c.start(wrong.id)
			c.within(5*time.Minute, "it is refilled", func() bool {
				if m.Leader() && m.store.Snapshot().Index < c.newestAnswer() {
					t.Fatal("it leads before it is refilled")
				}
				return m.store.Snapshot().Index >= c.newestAnswer()
			})
			c.converge()
			time.Sleep(10 * time.Minute)
			c.converge()
		})
	}
}

// Two of five servers with wrong states, the leader among them, leave one after
// the other or together; the majority keeps its data and goes on.
func TestTwoOfFiveStatesAreWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, wrong := comparing(t, 5)
		defer c.close()
		other := c.at(c.others(wrong.id)[0])
		c.part(wrong.id)
		c.part(other.id)
		c.gone(wrong)
		c.gone(other)
		c.converge()
	})
}

// What a leader with a wrong state proposes and the others cannot apply is void:
// the leader ends, the others keep their data, and also a restart from the log
// leads to the same state.
func TestTheMajorityCannotApplyAnEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, leader := comparing(t, 3)
		defer c.close()
		// The wrong leader has a node that the others lack, and changes it.
		node := statetest.Node(9999, 1, 1)
		wrong := c.at(c.others(leader.id)[0])
		c.part(wrong.id)
		c.transfer(wrong.id)
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		_, err := wrong.leading().Log.Propose(ctx, &state.SetNodeEligibility{ID: node.ID, Eligibility: "ineligible", Now: 1})
		t.Logf("the caller is told: %v", err)
		c.gone(wrong)
		if got := c.running(); len(got) != 2 {
			t.Fatalf("%v run, want the two that agree", got)
		}
		c.converge()
		c.start(wrong.id)
		c.converge()
		for _, id := range names(3) {
			c.halt(id)
		}
		for _, id := range names(3) {
			c.start(id)
		}
		c.converge()
	})
}

// A follower that cannot apply what a majority applied is the one that leaves.
func TestAServerCannotApplyAnEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, leader := comparing(t, 3)
		defer c.close()
		odd := c.at(c.others(leader.id)[0])
		node := statetest.Node(5, 4000, 4000)
		odd.store.Reset(&state.Snapshot{Index: odd.store.Snapshot().Index, LogVersion: 2, Term: odd.store.Snapshot().Term})
		if _, err := leader.leading().Log.Propose(t.Context(), &state.SetNodeEligibility{ID: node.ID, Eligibility: "ineligible", Now: 1}); err != nil {
			t.Fatal(err)
		}
		c.gone(odd)
		c.converge()
		c.start(odd.id)
		c.converge()
	})
}

// Two servers that differ: nobody knows which is right. Nothing is set aside,
// and nothing is written until an operator has decided.
func TestWithoutAMajorityNothingIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, leader := comparing(t, 2)
		defer c.close()
		other := c.at(c.others(leader.id)[0])
		c.part(other.id)
		c.within(10*time.Minute, "no term lasts", func() bool { return leader.Disagreement() != nil && leader.leading() == nil })
		t.Log(leader.Disagreement())
		time.Sleep(5 * time.Minute)
		if len(c.running()) != 2 || len(leader.ended)+len(other.ended) > 0 {
			t.Fatal("a server ended, though nobody knows which is wrong")
		}
		if leader.leading() != nil || other.leading() != nil {
			t.Error("a server leads")
		}
		// The operator decides that the follower is wrong.
		c.halt(other.id)
		if err := consensus.MarkForRefill(c.folder(other.id)); err != nil {
			t.Fatal(err)
		}
		c.start(other.id)
		c.converge()
		if err := leader.Disagreement(); err != nil {
			t.Error(err)
		}
	})
}

// Two of three servers differ while the third is down. When it comes back there
// is a majority, and the wrong one leaves by itself.
func TestTheThirdServerDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, leader := comparing(t, 3)
		defer c.close()
		rest := c.others(leader.id)
		c.halt(rest[1])
		c.part(leader.id)
		c.within(10*time.Minute, "no term lasts", func() bool { return leader.Disagreement() != nil && leader.leading() == nil })
		c.start(rest[1])
		c.gone(leader)
		c.converge()
	})
}
