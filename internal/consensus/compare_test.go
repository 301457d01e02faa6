package consensus_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/consensus"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// part makes the state of a server differ from that of the others, as a bug
// would: the server loads a state that lacks a node.
func (c *cluster) part(id string) {
	c.t.Helper()
	m := c.at(id)
	tx := state.Begin(m.store.Snapshot())
	if r := tx.Apply(statetest.AddNode(9999, 1, 1)); r.Err != nil {
		c.t.Fatal(r.Err)
	}
	other := *tx.Seal()
	other.Index-- // as if nothing had been
	m.store.Reset(&other)
}

// A follower whose state differs notices it, stops with one clear error, and is
// refilled at its next start. Until the refill is complete it does not vote.
func TestStateThatDiffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, func(conf *consensus.Config) { conf.CompareEvery = time.Minute })
		defer c.close()
		c.boot(3)
		leader := c.leader()
		for range 150 {
			if err := c.propose(t.Context(), leader.leading().Log); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Minute) // agreement is no news
		c.converge()
		id := "s1"
		if leader.id == id {
			id = "s2"
		}
		other := c.at(id)
		c.part(id)
		began := time.Now()
		err := <-other.ended
		if !errors.Is(err, consensus.ErrDiffers) {
			t.Fatal(err)
		}
		t.Logf("after %s: %v", time.Since(began), err)
		c.mu.Lock()
		delete(c.servers, id)
		c.mu.Unlock()
		c.converge()

		// With only one other server running it must not help elect it, because
		// it forgot what it had acknowledged.
		c.halt(leader.id)
		third := c.running()[0]
		c.net.Split([]string{third}, []string{id})
		m := c.start(id)
		if !m.Bootstrapped() {
			t.Error("a server that must be refilled could bootstrap a cluster")
		}
		c.net.Heal()
		if l := c.leadersFor(5 * time.Minute); len(l) > 0 {
			t.Errorf("%v leads with the vote of a server that forgot", l)
		}
		if m.store.Snapshot().Count(state.Nodes) != 0 {
			t.Error("it starts with the state that differs")
		}
		c.start(leader.id)
		c.converge()
		time.Sleep(time.Second)
		if _, err := os.Stat(filepath.Join(c.dir, id, "refill.json")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("it still waits to be refilled: %v", err)
		}
		c.halt(c.leader().id) // now its vote counts
		c.leader()
		c.converge()
	})
}

// An operator's snapshot replaces the state on all servers, indexes continue,
// and watchers are notified.
func TestRestoreFrom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		defer c.close()
		c.boot(3)
		leader := c.leader()
		for range 10 {
			c.propose(t.Context(), leader.leading().Log)
		}
		var saved bytes.Buffer
		was, err := leader.SaveTo(&saved)
		if err != nil || was.Rows["nodes"] != 10 || was.Index != leader.store.Snapshot().Index {
			t.Fatal(was, err)
		}
		for range 30 {
			c.propose(t.Context(), leader.leading().Log)
		}
		c.converge()
		for _, id := range c.running() {
			m := c.at(id)
			if m == leader {
				continue
			}
			if _, err := m.RestoreFrom(t.Context(), bytes.NewReader(saved.Bytes())); !errors.Is(err, state.ErrLost) {
				t.Errorf("a follower restores: %v", err)
			}
		}
		before, hash := leader.store.Snapshot().Index, leader.store.Snapshot().Hash()
		_, whole, err := consensus.ReadBackup(bytes.NewReader(saved.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		for cut := 0; cut < saved.Len(); cut += 1 + saved.Len()/40 {
			flipped := bytes.Clone(saved.Bytes())
			flipped[cut] ^= 4
			damaged := [][]byte{saved.Bytes()[:cut], flipped}
			if _, same, err := consensus.ReadBackup(bytes.NewReader(flipped)); err == nil && same.Hash() == whole.Hash() {
				damaged = damaged[:1] // a bit that means nothing to the decompression: what it says is the same
			}
			for _, bad := range damaged {
				if _, err := leader.RestoreFrom(t.Context(), bytes.NewReader(bad)); berth.KindOf(err) != berth.Invalid {
					if bytes.Equal(bad, flipped) && err == nil {
						t.Fatalf("damage at byte %d is not noticed", cut)
					}
					t.Fatalf("cut or damaged at byte %d: %v", cut, err)
				}
			}
		}
		if leader.store.Snapshot().Hash() != hash || !leader.Leader() || leader.leading() == nil {
			t.Fatal("damaged snapshots changed something")
		}

		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); c.work(ctx) }() // whose writes are lost or on the new state
		if _, err := leader.RestoreFrom(t.Context(), bytes.NewReader(saved.Bytes())); err != nil {
			t.Fatal(err)
		}
		stop()
		<-done
		clear(c.acked) // of before
		c.converge()
		for _, id := range c.running() {
			snap := c.at(id).store.Snapshot()
			if snap.Index <= before || snap.LastChange(state.Jobs) <= before {
				t.Errorf("%s: the index fell from %d to %d, that of jobs to %d", id, before, snap.Index, snap.LastChange(state.Jobs))
			}
			if snap.Node(statetest.Node(5, 4000, 4000).ID) == nil || snap.Node(statetest.Node(25, 4000, 4000).ID) != nil {
				t.Errorf("%s: the state is not that of the snapshot", id)
			}
		}
		for _, id := range c.running() { // and after a start from disk
			c.halt(id)
			c.leader()
			c.start(id)
		}
		c.converge()
	})
}
