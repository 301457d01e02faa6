package consensus_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/consensus"
	"berth/internal/state"
	"berth/internal/state/statetest"

	"github.com/hashicorp/raft"
)

// What an isolated leader staged never becomes its state: another server leads,
// and the old leader takes over that one's state. Callers that waited get an
// unknown outcome; later callers are told that nothing was done.
func TestDeposedLeaderTakesNothingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		defer c.close()
		c.boot(3)
		for range 10 {
			old := c.leader()
			term := old.leading()
			if err := c.propose(t.Context(), term.Log); err != nil {
				t.Fatal(err)
			}
			base := old.store.Snapshot()
			others := []string{}
			for _, id := range c.running() {
				if id != old.id {
					others = append(others, id)
				}
			}
			c.net.Split([]string{old.id}, others)
			var staged []*state.Pending
			for i := range 20 { // some are in an entry on its way, some wait behind it
				p, err := term.Log.Stage(statetest.AddNode(100_000+i, 1, 1))
				if err != nil {
					t.Fatal(err)
				}
				staged = append(staged, p)
				if i == 10 {
					synctest.Wait()
				}
			}
			began := time.Now()
			for i, p := range staged {
				err := p.Wait(t.Context())
				if !errors.Is(err, state.ErrLost) {
					t.Fatalf("staged on a leader that was cut off: %v", err)
				}
				if i == 0 && !errors.Is(err, state.ErrUnknown) {
					t.Errorf("of an entry that was proposed it is said: %v", err)
				}
			}
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("they were told after %s", took)
			}
			if _, err := old.ReadIndex(t.Context()); !errors.Is(err, state.ErrLost) {
				t.Errorf("a read index from a leader that was cut off: %v", err)
			}
			if err := old.Verify(t.Context()); !errors.Is(err, state.ErrLost) {
				t.Errorf("a leader that was cut off is one: %v", err)
			}
			if old.store.Snapshot() != base {
				t.Error("what was staged became the state")
			}
			next := c.leader(old.id)
			for range 5 {
				if err := c.propose(t.Context(), next.leading().Log); err != nil {
					t.Fatal(err)
				}
			}
			c.net.Heal()
			c.converge()
			if old.store.Snapshot().Node(statetest.Node(100_000, 1, 1).ID) != nil {
				t.Error("what was staged is there")
			}
		}
	})
}

// A follower has what the leader answered as soon as a message can arrive,
// entry by entry, and its store's watchers and commits work.
func TestFollowersHearOfCommitsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		defer c.close()
		c.boot(3)
		leader := c.leader()
		time.Sleep(time.Second)
		c.net.Delay(time.Millisecond)
		var total time.Duration
		for range 50 {
			time.Sleep(70 * time.Millisecond) // so that no next entry says it
			ends := map[string]*state.Commit{}
			for _, id := range c.running() {
				ends[id] = c.at(id).store.Commit()
			}
			if err := c.propose(t.Context(), leader.leading().Log); err != nil {
				t.Fatal(err)
			}
			index, began := leader.store.Snapshot().Index, time.Now()
			for id, from := range ends {
				next, err := from.Next(t.Context())
				if err != nil || next.Index != index || len(next.Changes) == 0 {
					t.Fatalf("%s: at %d, not %d, with %d changes: %v", id, next.Index, index, len(next.Changes), err)
				}
			}
			total += time.Since(began)
		}
		if mean := total / 50; mean > 3*time.Millisecond {
			t.Errorf("with a way of 1 ms followers are there %s after the answer", mean)
		} else {
			t.Logf("followers are there %s after the answer", mean)
		}
	})
}

// Leadership changes many times under load. No acknowledged write is lost, and
// readers at the read index see everything that was answered before.
func TestManyLeaders(t *testing.T) {
	changes := 200
	if os.Getenv("BERTH_LONG") != "" {
		changes = 5000
	}
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, func(conf *consensus.Config) { conf.Logger = quiet })
		defer c.close()
		c.boot(3)
		c.leader()
		ctx, stop := context.WithCancel(t.Context())
		var load sync.WaitGroup
		for range 3 {
			load.Go(func() { c.work(ctx) })
		}
		reads := 0
		load.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(7 * time.Millisecond) {
				answered := c.newestAnswer()
				for _, id := range c.running() {
					if index, err := c.at(id).ReadIndex(ctx); err == nil {
						reads++
						if index < answered {
							t.Errorf("index %d was answered, and the read index is %d", answered, index)
						}
					}
				}
			}
		})
		terms := map[uint64]bool{}
		for i := range changes {
			c.within(20*time.Second, "another term begins", func() bool {
				l := c.leader()
				term := l.leading()
				if term == nil {
					return false
				}
				if terms[term.Number] { // nobody took over yet; a transfer may fail, and is asked for again
					limit, cancel := context.WithTimeout(t.Context(), 3*time.Second)
					defer cancel()
					_ = l.Transfer(limit, "")
					return false
				}
				terms[term.Number] = true
				return true
			})
			if i%50 == 49 {
				time.Sleep(time.Second)
			}
		}
		stop()
		load.Wait()
		c.converge()
		t.Logf("%d leaders, %d answered, %d read indexes", len(terms), len(c.acked), reads)
		if reads == 0 {
			t.Error("no reads")
		}
	})
}

// A server from before there were peers has a name in place of its address in
// the log. With a transport it corrects that, and others can join; a removed
// server stays up and can come back.
func TestGrowsFromOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, func(conf *consensus.Config) {
			if conf.ID == "s1" && conf.Transport != nil {
				conf.Transport = named{conf.Transport, "s1-address"}
			}
		})
		dir := c.dir + "/s1"
		store := led(t, dir, func(_ *state.Store, _ *consensus.Server, term consensus.Term) {
			if _, err := term.Log.Propose(t.Context(), statetest.AddNode(1, 4000, 4000)); err != nil {
				t.Error(err)
			}
		})
		if store.Snapshot().Count(state.Nodes) != 1 {
			t.Fatal("no node")
		}
		c.next = 1
		defer c.close()
		began := time.Now()
		c.net.Alias("s1-address", "s1")
		first := c.start("s1")
		c.leader()
		if took := time.Since(began); took > 50*time.Millisecond {
			t.Errorf("a server that is alone leads after %s", took)
		}
		c.within(time.Second, "the address is corrected", func() bool {
			peers, err := first.Peers()
			return err == nil && len(peers) == 1 && peers[0].Address == "s1-address" && peers[0].Leader
		})
		for _, id := range []string{"s2", "s3"} {
			c.start(id)
			if err := first.AddNonvoter(t.Context(), consensus.Peer{ID: id, Address: id}); err != nil {
				t.Fatal(err)
			}
			if err := first.AddVoter(t.Context(), consensus.Peer{ID: id, Address: id}); err != nil {
				t.Fatal(err)
			}
		}
		c.converge()
		if err := c.leader().Remove(t.Context(), "s3"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if member, _ := c.at("s3").Member(); member {
			t.Error("a server that was removed does not know")
		}
		if l := c.leadersFor(10 * time.Second); l["s3"] || len(l) != 1 {
			t.Errorf("%v led", l)
		}
		if err := c.leader().AddVoter(t.Context(), consensus.Peer{ID: "s3", Address: "s3"}); err != nil {
			t.Fatal(err)
		}
		c.converge()
	})
}

// A snapshot that is damaged or truncated on its way to a follower changes
// nothing there, on disk or in memory; the next intact one is installed.
func TestDamagedInstall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := &damaging{}
		c := newCluster(t, func(conf *consensus.Config) {
			conf.Transport = damager{conf.Transport, bad}
		})
		defer c.close()
		c.boot(3)
		leader := c.leader()
		lag := "s1"
		if leader.id == lag {
			lag = "s2"
		}
		c.halt(lag)
		for range 30 {
			for range 20 {
				if err := c.propose(t.Context(), leader.leading().Log); err != nil {
					t.Fatal(err)
				}
			}
			if err := leader.Save(); err != nil {
				t.Fatal(err)
			}
		}
		bad.left = 12
		m := c.start(lag)
		c.within(10*time.Minute, "damaged snapshots were sent", func() bool {
			if n := m.store.Snapshot().Count(state.Nodes); n != 0 && bad.remain() > 0 {
				t.Fatalf("%d nodes came from a damaged snapshot", n)
			}
			return bad.remain() == 0
		})
		c.converge()
		c.halt(lag)
		c.start(lag)
		c.converge()
	})
}

// damaging is how many of the next snapshots are damaged on their way.
type damaging struct {
	mu   sync.Mutex
	left int
}

func (d *damaging) remain() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.left
}

func (d *damaging) take() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left = max(d.left-1, -1)
	return d.left + 1
}

// damager is a transport that damages snapshots.
type damager struct {
	raft.Transport
	*damaging
}

func (d damager) RequestPreVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return d.Transport.(raft.WithPreVote).RequestPreVote(id, to, args, resp)
}

func (d damager) Close() error { return d.Transport.(raft.WithClose).Close() }

func (d damager) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	n := d.take()
	if n <= 0 {
		return d.Transport.InstallSnapshot(id, to, args, resp, data)
	}
	b, err := io.ReadAll(data)
	if err != nil {
		return err
	}
	own := *args
	at := rand.IntN(len(b))
	if n%2 == 0 {
		b = b[:at] // cut, and the length says so
		own.Size = int64(len(b))
	} else {
		for state.Verify(bytes.NewReader(b)) == nil { // some bits mean nothing
			b[rand.IntN(len(b))] ^= 1 << rand.IntN(8)
		}
	}
	return d.Transport.InstallSnapshot(id, to, &own, resp, reader(b))
}
