package consensus_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/consensus"
	_ "berth/internal/onethread"
)

// histories returns the number of runs, their length, and the first seed.
func histories() (first uint64, n, rounds int) {
	if os.Getenv("BERTH_LONG") != "" {
		return uint64(time.Now().UnixNano()), 200, 8
	}
	return 1, 2, 2
}

// Whatever is cut, killed, handed over, delayed, saved or removed, in any
// order: every acknowledged write exists at the end, no refused one does, and
// all servers have the same state at the same index.
func TestChaos(t *testing.T) {
	first, n, rounds := histories()
	for i := range n {
		seed := first + uint64(i)
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { chaos(t, seed, rounds) })
		})
	}
}

func chaos(t *testing.T, seed uint64, rounds int) {
	r := rand.New(rand.NewPCG(seed, 0))
	size := 3 + 2*int(seed%2)
	c := newCluster(t, nil)
	defer c.close()
	c.boot(size)
	c.leader()
	for round := range rounds {
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan struct{})
		for range 4 {
			go func() {
				defer func() { done <- struct{}{} }()
				c.work(ctx)
			}()
		}
		for range 25 {
			c.fault(r, size)
			time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
		}
		c.net.Heal()
		c.net.Delay(0)
		for _, id := range names(size) {
			if !c.runs(id) {
				c.start(id)
			}
		}
		stop()
		for range 4 {
			<-done
		}
		c.within(5*time.Minute, "all are members again", c.allVote(names(size)))
		c.converge()
		t.Logf("round %d: term %d, %d answered, %d refused of %d", round,
			c.leader().store.Snapshot().Term, len(c.acked), len(c.refused), c.next)
	}
}

// work proposes to the current leader until ctx ends.
func (c *cluster) work(ctx context.Context) {
	for ctx.Err() == nil {
		for _, id := range c.running() {
			c.mu.Lock()
			m := c.servers[id]
			c.mu.Unlock()
			if m == nil {
				continue
			}
			if term := m.leading(); term != nil {
				one, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				c.propose(one, term.Log)
				cancel()
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (c *cluster) runs(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.servers[id] != nil
}

func (c *cluster) at(id string) *member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.servers[id]
}

// allVote reports whether the leader's configuration has all servers as voters,
// and adds those that are missing.
func (c *cluster) allVote(ids []string) func() bool {
	return func() bool {
		leader := c.leader()
		peers, err := leader.Peers()
		if err != nil {
			return false
		}
		voters := map[string]bool{}
		for _, p := range peers {
			voters[p.ID] = p.Voter
		}
		for _, id := range ids {
			if !voters[id] {
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				defer cancel()
				leader.AddVoter(ctx, consensus.Peer{ID: id, Address: id})
				return false
			}
		}
		return true
	}
}

// fault applies one fault to the cluster.
func (c *cluster) fault(r *rand.Rand, size int) {
	ids := names(size)
	pick := func() string { return ids[r.IntN(size)] }
	leader := func() string {
		for _, id := range c.running() {
			if m := c.at(id); m != nil && m.leading() != nil {
				return id
			}
		}
		return pick()
	}
	short, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	switch r.IntN(12) {
	case 0:
		c.net.Heal()
	case 1:
		c.net.Cut(pick(), pick())
	case 2: // the leader hears nobody, or nobody hears it
		l := leader()
		inward := r.IntN(2) == 0
		for _, id := range ids {
			if inward {
				c.net.Cut(id, l)
			} else {
				c.net.Cut(l, id)
			}
		}
	case 3:
		r.Shuffle(size, func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		n := 1 + r.IntN(size-1)
		c.net.Split(ids[:n], ids[n:])
	case 4, 5:
		if l := leader(); c.runs(l) {
			c.halt(l)
		}
	case 6:
		if id := pick(); c.runs(id) {
			c.halt(id)
		}
	case 7, 8:
		for _, id := range ids {
			if !c.runs(id) {
				c.start(id)
			}
		}
	case 9:
		if m := c.at(leader()); m != nil {
			m.Transfer(short, "")
		}
	case 10:
		if m := c.at(pick()); m != nil {
			m.Save()
		}
		c.net.Delay(time.Duration(r.IntN(200)) * time.Millisecond)
	case 11:
		m, id := c.at(leader()), pick()
		if m == nil {
			return
		}
		switch r.IntN(3) {
		case 0:
			m.Demote(short, id)
		case 1:
			m.Remove(short, id)
		case 2:
			m.AddVoter(short, consensus.Peer{ID: id, Address: id})
		}
	}
}
