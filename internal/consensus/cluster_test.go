package consensus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/consensus"
	"berth/internal/consensus/consensustest"
	"berth/internal/invariant"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"

	"github.com/hashicorp/raft"
)

// cluster is some servers over a network in memory.
type cluster struct {
	t    testing.TB
	net  *consensustest.Network
	dir  string
	edit func(*consensus.Config)

	mu      sync.Mutex
	servers map[string]*member

	// What the workload was told, by number of the node it registered.
	acked, refused map[int]bool
	next           int
	newest         uint64
}

// member is one server, from its start to its stop.
type member struct {
	*consensus.Server
	id    string
	store *state.Store
	stop  context.CancelFunc
	ended chan error

	mu   sync.Mutex
	term *consensus.Term // nil while it does not lead
}

func newCluster(t testing.TB, edit func(*consensus.Config)) *cluster {
	return &cluster{
		t: t, net: consensustest.NewNetwork(), dir: t.TempDir(), edit: edit,
		servers: map[string]*member{}, acked: map[int]bool{}, refused: map[int]bool{},
	}
}

func names(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprint("s", i+1))
	}
	return out
}

// start starts a server on its folder.
func (c *cluster) start(id string) *member {
	c.t.Helper()
	m := &member{id: id, store: state.New(), ended: make(chan error, 1)}
	conf := consensus.Config{
		Dir: filepath.Join(c.dir, id), ID: id, Transport: c.net.Transport(id), SnapshotEvery: 100,
		Logger: slog.New(slog.DiscardHandler),
		Exchange: func(ctx context.Context, with consensus.Peer, own op.Ballot) (op.Ballot, error) {
			return c.exchange(ctx, id, with, own)
		},
	}
	if c.edit != nil {
		c.edit(&conf)
	}
	s, err := consensus.Open(conf, m.store)
	if err != nil {
		c.t.Fatal(err)
	}
	m.Server = s
	var ctx context.Context
	ctx, m.stop = context.WithCancel(context.Background())
	go func() {
		m.ended <- s.Run(ctx, func(ctx context.Context, term consensus.Term) error {
			m.lead(&term)
			defer m.lead(nil)
			<-ctx.Done()
			return context.Cause(ctx)
		})
	}()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.servers[id] = m
	return m
}

// exchange carries ballots between two servers over the network.
func (c *cluster) exchange(ctx context.Context, from string, with consensus.Peer, own op.Ballot) (op.Ballot, error) {
	if !c.net.Connected(from, with.ID) || !c.net.Connected(with.ID, from) {
		<-ctx.Done()
		return op.Ballot{}, ctx.Err()
	}
	c.mu.Lock()
	m := c.servers[with.ID]
	c.mu.Unlock()
	if m == nil {
		return op.Ballot{}, errors.New("the server is down")
	}
	return m.Exchange(own), nil
}

func (m *member) lead(t *consensus.Term) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.term = t
}

func (m *member) leading() *consensus.Term {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.term
}

// halt stops a server and waits for its end.
func (c *cluster) halt(id string) {
	c.t.Helper()
	c.mu.Lock()
	m := c.servers[id]
	delete(c.servers, id)
	c.mu.Unlock()
	m.stop()
	if err := <-m.ended; !errors.Is(err, context.Canceled) {
		c.t.Errorf("%s ended: %v", id, err)
	}
}

func (c *cluster) close() {
	for _, id := range c.running() {
		c.halt(id)
	}
}

func (c *cluster) running() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for id := range c.servers {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

// boot starts n servers as one cluster.
func (c *cluster) boot(n int) {
	c.t.Helper()
	var peers []consensus.Peer
	for _, id := range names(n) {
		peers = append(peers, consensus.Peer{ID: id, Address: id, Voter: true})
	}
	for _, id := range names(n) {
		if err := c.start(id).Bootstrap(peers); err != nil {
			c.t.Fatal(err)
		}
	}
}

// within waits until f says yes.
func (c *cluster) within(d time.Duration, what string, f func() bool) {
	c.t.Helper()
	for end := time.Now().Add(d); !f(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			for _, id := range c.running() {
				m := c.servers[id]
				c.t.Logf("%s: %s, %+v, state index %d", id, m.Raft().State(), m.Stats(), m.store.Snapshot().Index)
			}
			c.t.Fatalf("after %s: %s is not so", d, what)
		}
	}
}

// leader waits for a leader among those that are running and not excluded.
func (c *cluster) leader(except ...string) *member {
	c.t.Helper()
	var found *member
	c.within(20*time.Second, "a server leads", func() bool {
		for _, id := range c.running() {
			if m := c.servers[id]; !slices.Contains(except, id) && m.leading() != nil {
				found = m
				return true
			}
		}
		return false
	})
	return found
}

// propose registers a node and remembers what it was told.
func (c *cluster) propose(ctx context.Context, log state.Log) error {
	c.mu.Lock()
	c.next++
	n := c.next
	c.mu.Unlock()
	results, err := log.Propose(ctx, statetest.AddNode(n, 4000, 4000))
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.acked[n] = true
		c.newest = max(c.newest, results[0].Index)
	case errors.Is(err, state.ErrLost) && !errors.Is(err, state.ErrUnknown):
		c.refused[n] = true
	}
	return err
}

// write proposes until a write is acknowledged, as a client does: leadership may
// move meanwhile. It returns who acknowledged it.
func (c *cluster) write() (leader *member) {
	c.t.Helper()
	c.within(5*time.Minute, "a write is acknowledged", func() bool {
		leader = c.leader()
		term := leader.leading()
		if term == nil {
			return false
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err := c.propose(ctx, term.Log)
		if err != nil && !errors.Is(err, state.ErrLost) && !errors.Is(err, context.DeadlineExceeded) {
			c.t.Fatal(err)
		}
		return err == nil
	})
	return leader
}

// transfer hands leadership over to a server. A transfer can fail, so it is
// asked for until it has happened.
func (c *cluster) transfer(to string) {
	c.t.Helper()
	c.within(5*time.Minute, to+" leads", func() bool {
		if c.at(to).leading() != nil {
			return true
		}
		limit, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		_ = c.leader().Transfer(limit, to)
		return false
	})
}

// converge waits until all running servers are at the same index, and checks
// what they must agree on.
func (c *cluster) converge() {
	c.t.Helper()
	leader := c.write()
	var want *state.Snapshot
	snaps := map[string]*state.Snapshot{}
	c.within(5*time.Minute, "all servers are at the same index", func() bool {
		want = leader.store.Snapshot()
		for _, id := range c.running() {
			if snaps[id] = c.at(id).store.Snapshot(); snaps[id].Index != want.Index {
				return false
			}
		}
		return true
	})
	for _, v := range invariant.Check(want) {
		c.t.Error(v)
	}
	for id, snap := range snaps {
		if snap.Hash() != want.Hash() {
			c.t.Errorf("%s has %x at index %d, the leader %x", id, snap.Hash(), snap.Index, want.Hash())
		}
	}
	for n := range c.acked {
		if want.Node(statetest.Node(n, 4000, 4000).ID) == nil {
			c.t.Errorf("node %d was answered and is not there", n)
		}
	}
	for n := range c.refused {
		if want.Node(statetest.Node(n, 4000, 4000).ID) != nil {
			c.t.Errorf("node %d was refused and is there", n)
		}
	}
}

// Three servers elect one, agree, and go on when the leader is gone.
func TestThreeServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		defer c.close()
		c.boot(3)
		for range 5 {
			old := c.leader()
			for range 20 {
				if err := c.propose(t.Context(), old.leading().Log); err != nil {
					t.Fatal(err)
				}
			}
			c.converge()
			c.halt(old.id)
			c.leader()
			c.converge()
			c.start(old.id)
			c.converge()
		}
	})
}

var quiet = slog.New(slog.DiscardHandler)

func reader(b []byte) io.Reader { return bytes.NewReader(b) }

// newestAnswer returns the newest state index at which a write was answered.
func (c *cluster) newestAnswer() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.newest
}

// named is a transport of another address than it has in the network.
type named struct {
	raft.Transport
	address raft.ServerAddress
}

func (n named) LocalAddr() raft.ServerAddress { return n.address }

func (n named) RequestPreVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return n.Transport.(raft.WithPreVote).RequestPreVote(id, to, args, resp)
}

func (n named) Close() error { return n.Transport.(raft.WithClose).Close() }

// leadersFor returns who led at some moment within a while.
func (c *cluster) leadersFor(d time.Duration) map[string]bool {
	seen := map[string]bool{}
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		for _, id := range c.running() {
			if c.at(id).Leader() {
				seen[id] = true
			}
		}
	}
	return seen
}

func (c *cluster) others(id string) (out []string) {
	for _, x := range c.running() {
		if x != id {
			out = append(out, x)
		}
	}
	return out
}

// folder returns the data directory of a server.
func (c *cluster) folder(id string) string { return filepath.Join(c.dir, id) }
