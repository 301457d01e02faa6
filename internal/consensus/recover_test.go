package consensus_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/consensus"
	"berth/internal/consensus/logstore"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// Data that was set aside for a refill that no leader can do is used again.
func TestARefillIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := comparing(t, 3)
		defer c.close()
		for _, id := range names(3) {
			c.halt(id)
		}
		for _, id := range names(2) { // an operator's mistake, on two of three
			if err := consensus.MarkForRefill(c.folder(id)); err != nil {
				t.Fatal(err)
			}
		}
		for _, id := range names(3) {
			c.start(id)
		}
		if l := c.leadersFor(time.Minute); len(l) > 0 {
			t.Fatalf("%v leads without a majority that may vote", l)
		}
		if err := consensus.CancelRefill(c.folder("s3")); err == nil {
			t.Error("a refill was cancelled that there is not")
		}
		for _, id := range names(2) {
			c.halt(id)
			if err := consensus.CancelRefill(c.folder(id)); err != nil {
				t.Fatal(err)
			}
			c.start(id)
		}
		c.converge()
	})
}

// A refill that has begun is not cancelled: what the server acknowledged since
// would be lost.
func TestARefillThatHasBegunIsNotCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, leader := comparing(t, 3)
		defer c.close()
		id := c.others(leader.id)[0]
		c.halt(id)
		if err := consensus.MarkForRefill(c.folder(id)); err != nil {
			t.Fatal(err)
		}
		c.start(id)
		c.converge()
		c.halt(id)
		if err := consensus.CancelRefill(c.folder(id)); err == nil {
			t.Error("the refill is over, and was cancelled")
		}
		c.start(id)
		c.converge()
	})
}

// Two of three servers are lost for good. The third goes on alone with all that
// it has, and takes new servers.
func TestTheLastServerGoesOnAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, leader := comparing(t, 3)
		defer c.close()
		keep := c.others(leader.id)[0]
		for _, id := range names(3) {
			c.halt(id)
		}
		peers, err := consensus.PeersOf(c.folder(keep))
		if err != nil || len(peers) != 3 {
			t.Fatal(peers, err)
		}
		if err := consensus.WritePeers(c.folder(keep), []consensus.Peer{{ID: keep, Address: keep, Voter: true}}); err != nil {
			t.Fatal(err)
		}
		m := c.start(keep)
		c.converge()
		if got, err := m.Peers(); err != nil || len(got) != 1 {
			t.Errorf("its configuration is %v, %v", got, err)
		}
		if _, err := os.Stat(filepath.Join(c.folder(keep), "raft", "peers.json")); !os.IsNotExist(err) {
			t.Errorf("the file remains: %v", err)
		}
		for _, id := range c.lost(keep) {
			if err := os.RemoveAll(c.folder(id)); err != nil {
				t.Fatal(err)
			}
			c.start(id)
			if err := m.AddVoter(t.Context(), consensus.Peer{ID: id, Address: id, Voter: true}); err != nil {
				t.Fatal(err)
			}
		}
		c.converge()
		c.halt(keep)
		c.start(keep)
		c.converge()
	})
}

// lost are the servers but one.
func (c *cluster) lost(but string) (out []string) {
	for _, id := range names(3) {
		if id != but {
			out = append(out, id)
		}
	}
	return out
}

// A file that does not list the server itself is refused, and nothing changes.
func TestPeersWithoutThisServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := comparing(t, 1)
		c.halt("s1")
		defer c.close()
		if err := consensus.WritePeers(c.folder("s1"), []consensus.Peer{{ID: "s2", Address: "s2", Voter: true}}); err != nil {
			t.Fatal(err)
		}
		s, err := consensus.Open(consensus.Config{Dir: c.folder("s1"), ID: "s1", Transport: c.net.Transport("s1"), Logger: quiet}, nil)
		if err == nil {
			s.Raft().Shutdown()
			t.Fatal("it started")
		}
		t.Log(err)
		if err := os.Remove(filepath.Join(c.folder("s1"), "raft", "peers.json")); err != nil {
			t.Fatal(err)
		}
		c.start("s1")
		c.converge()
	})
}

// cutLog ends the newest file of a server's log where it was after the entries
// that were there when mark was called.
func cutLog(t *testing.T, dir string) (cut func()) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "log", "db", "*.log"))
	if err != nil || len(files) == 0 {
		t.Fatal("no log file", err)
	}
	name := slices.Max(files)
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Truncate(name, info.Size()); err != nil {
			t.Fatal(err)
		}
	}
}

// A lone server whose log was cut between two entries does not start without
// what it acknowledged, unless an operator accepts the loss.
func TestACutLogOfALoneServer(t *testing.T) {
	dir := t.TempDir()
	var cut func()
	ledAs(t, dir, "s1", func(_ *state.Store, _ *consensus.Server, term consensus.Term) {
		for n := range 20 {
			if n == 5 {
				cut = cutLog(t, dir)
			}
			if _, err := term.Log.Propose(t.Context(), statetest.AddNode(n+1, 1, 1)); err != nil {
				t.Fatal(err)
			}
		}
	})
	cut()
	_, err := consensus.Open(consensus.Config{Dir: dir, ID: "s1", Logger: quiet}, state.New())
	if !errors.Is(err, logstore.ErrDamaged) {
		t.Fatalf("opened with: %v", err)
	}
	t.Log(err)
	if lost, err := consensus.AcceptLoss(dir); err != nil || lost != 15 {
		t.Fatalf("%d entries are lost, %v", lost, err)
	}
	ledAs(t, dir, "s1", func(store *state.Store, _ *consensus.Server, _ consensus.Term) {
		if n := store.Snapshot().Count(state.Nodes); n != 5 {
			t.Errorf("%d nodes are left of 20, want 5", n)
		}
	})
	if _, err := consensus.AcceptLoss(dir); err == nil {
		t.Error("a loss was accepted that there is not")
	}
}

// A server of a cluster whose log was cut is refilled, and does not vote before
// it has all that it had acknowledged.
func TestACutLogInAClusterIsRefilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, leader := comparing(t, 3)
		defer c.close()
		id := c.others(leader.id)[0]
		cut := cutLog(t, c.folder(id))
		for range 10 {
			if err := c.propose(t.Context(), leader.leading().Log); err != nil {
				t.Fatal(err)
			}
		}
		c.converge()
		c.halt(id)
		cut()
		if _, err := consensus.AcceptLoss(c.folder(id)); err == nil {
			t.Error("the loss was accepted, though other servers have the entries")
		}
		if err := consensus.MarkForRefill(c.folder(id)); err != nil {
			t.Fatal(err)
		}
		c.start(id)
		c.converge()
		if n := c.at(id).store.Snapshot().Count(state.Nodes); n < 30 {
			t.Errorf("%d nodes after the refill", n)
		}
	})
}
