//go:build faults

package consensus_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/consensus"
	"berth/internal/failpoint"
	"berth/internal/state"
	"berth/internal/state/statetest"

	"github.com/hashicorp/raft"
)

const mib = 1 << 20

// disks are the room that the servers of a cluster have, by folder.
type disks map[string]*atomic.Uint64

func (d disks) room(dir string) (free, size uint64, err error) {
	return d[filepath.Base(dir)].Load(), 1024 * mib, nil
}

func newDisks(n int) disks {
	d := disks{}
	for _, id := range names(n) {
		d[id] = &atomic.Uint64{}
		d[id].Store(500 * mib)
	}
	return d
}

// A leader that runs low on disk space hands over at once and does not lead
// again until there is space, even if the others are gone.
func TestLowDiskSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisks(3)
		c := newCluster(t, func(conf *consensus.Config) { conf.DiskSpace = d.room })
		defer c.close()
		c.boot(3)
		full := c.leader()
		d[full.id].Store(40 * mib) // below the reserve of 64, above the floor of 32
		began := time.Now()
		c.within(time.Minute, "the full server has handed over", func() bool { return !full.Leader() })
		next := c.leader()
		t.Logf("handed over within %s", time.Since(began))
		if next.id == full.id {
			t.Fatal("it leads again")
		}
		c.converge()  // it follows
		for range 3 { // whoever leads hands over, but not to the one that is full
			c.leader().Transfer(t.Context(), full.id)
			c.leader().Transfer(t.Context(), "")
			if c.leadersFor(10 * time.Second)[full.id] {
				t.Fatal("a server with low disk space leads")
			}
		}
		c.halt(c.leader().id) // two are left, and one of them must not
		if c.leadersFor(30 * time.Second)[full.id] {
			t.Fatal("a server with low disk space leads")
		}
		c.converge()
		d[full.id].Store(500 * mib)
		time.Sleep(time.Second)
		c.transfer(full.id) // with room again it leads
		c.converge()
	})
}

// A follower without disk space takes no entries and disturbs no other server.
// With space it catches up by itself.
func TestFullFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisks(3)
		c := newCluster(t, func(conf *consensus.Config) { conf.DiskSpace = d.room })
		defer c.close()
		c.boot(3)
		leader := c.leader()
		full := "s1"
		if leader.id == full {
			full = "s2"
		}
		d[full].Store(mib)
		for range 300 { // beyond a snapshot and its trail
			if err := c.propose(t.Context(), leader.leading().Log); err != nil {
				t.Fatal(err)
			}
		}
		if !leader.Leader() {
			t.Error("the leader is another")
		}
		if at := c.at(full).store.Snapshot().Index; at >= leader.store.Snapshot().Index {
			t.Errorf("the server without room is at %d", at)
		}
		d[full].Store(500 * mib)
		began := time.Now()
		c.converge()
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("it took %s to catch up", took)
		}
	})
}

// When all disks are full there is no leader: nothing is written, the state can
// be read, and no server stops. With space again one leads.
func TestAllFull(t *testing.T) {
	for n := range 4 {
		if n == 2 {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			n := max(n, 1)
			d := newDisks(n)
			c := newCluster(t, func(conf *consensus.Config) { conf.DiskSpace = d.room })
			defer c.close()
			c.boot(n)
			old := c.leader()
			if err := c.propose(t.Context(), old.leading().Log); err != nil {
				t.Fatal(err)
			}
			log := old.leading().Log
			for _, free := range d {
				free.Store(mib)
			}
			time.Sleep(watched)
			if err := c.propose(t.Context(), log); !errors.Is(err, state.ErrLost) {
				t.Errorf("a write is answered with %v", err)
			}
			c.within(5*time.Second, "nobody leads", func() bool { return old.leading() == nil })
			term := old.Stats().Term
			time.Sleep(time.Second)
			if l := c.leadersFor(time.Hour); len(l) > 0 {
				t.Errorf("%v led without room", l)
			}
			if grown := old.Stats().Term - term; grown > 2 {
				t.Errorf("in an hour without room the term grew by %d", grown)
			}
			for _, free := range d {
				free.Store(500 * mib)
			}
			began := time.Now()
			c.leader()
			c.converge()
			t.Logf("%d servers: writes again after %s", n, time.Since(began))
		})
	}
}

const watched = time.Second

// A write that hangs on the leader silences it, and another server leads. When
// the disk works again, the old leader follows.
func TestLeaderWhoseDiskHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer failpoint.Reset()
		c := newCluster(t, nil)
		defer c.close()
		c.boot(3)
		hung := c.leader()
		log := hung.leading().Log
		if err := failpoint.Enable("consensus/append/" + hung.id + "=delay(20s)"); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		answer := make(chan error, 1)
		go func() { answer <- c.propose(context.Background(), log) }()
		c.leader(hung.id)
		if took := time.Since(began); took > 12*time.Second {
			t.Errorf("it took %s until another led", took)
		} else {
			t.Logf("another leads after %s", took)
		}
		if hung.leading() != nil {
			t.Error("two lead")
		}
		for range 20 {
			if err := c.propose(t.Context(), c.leader(hung.id).leading().Log); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := hung.ReadIndex(t.Context()); !errors.Is(err, state.ErrLost) {
			t.Errorf("a read index from the server that hangs: %v", err)
		}
		failpoint.Reset()
		if err := <-answer; !errors.Is(err, state.ErrLost) || !errors.Is(err, state.ErrUnknown) {
			t.Errorf("what hung is answered with: %v", err)
		}
		time.Sleep(5 * time.Second)
		c.converge()
		if hung.Leader() {
			t.Error("the server that hung leads")
		}
	})
}

// A log that a full disk stopped in the middle is opened again in the same
// process when there is space. The state never goes back.
func TestDiskThatRunsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisks(3) // the guard is not told, so that the log itself hits the end
		c := newCluster(t, func(conf *consensus.Config) { conf.DiskSpace, conf.SnapshotInterval = d.room, 3*time.Second })
		disk := filepath.Join(c.dir, "s1")
		if err := os.MkdirAll(disk, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=160m"); err != nil {
			t.Fatalf("mount a tmpfs, which needs root: %v", err)
		}
		defer func() {
			if err := syscall.Unmount(disk, 0); err != nil {
				t.Error(err)
			}
		}()
		defer c.close()
		c.boot(3)
		for round := range 2 {
			first := c.at("s1")
			if round > 0 { // once as a follower, then as the leader
				c.within(20*time.Second, "s1 leads", func() bool {
					c.leader().Transfer(t.Context(), "s1")
					return first.leading() != nil
				})
			}
			before, opened := first.store.Snapshot().Index, first.Raft()
			fill(t, filepath.Join(disk, "ballast"))
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan struct{})
			load := c.work
			if os.Getenv("BERTH_LONG") != "" { // until the engine has to write its tables
				load = c.heavy
			}
			go func() { defer close(done); load(ctx) }()
			c.within(5*time.Minute, "the full disk stopped the log", func() bool {
				c.leader().Transfer(t.Context(), "") // a new term must be noted on disk
				return opened.State() == raft.Shutdown
			})
			c.leader("s1")
			time.Sleep(5 * time.Second)
			if at := first.store.Snapshot().Index; at < before {
				t.Errorf("the state went back from %d to %d", before, at)
			}
			if err := os.Remove(filepath.Join(disk, "ballast")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			stop()
			<-done
			c.converge()
		}
	})
}

// heavy proposes large commands to the current leader until ctx ends.
func (c *cluster) heavy(ctx context.Context) {
	r := rand.NewChaCha8([32]byte{})
	for n := 0; ctx.Err() == nil; n++ {
		job := statetest.Job(c.t, fmt.Sprintf(`{"ID":"job%d","TaskGroups":[{"Name":"g"}]}`, n%50))
		text := make([]byte, 48<<10)
		r.Read(text)
		job.Meta = map[string]string{"text": hex.EncodeToString(text)}
		for _, id := range c.running() {
			if term := c.at(id).leading(); term != nil {
				one, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				term.Log.Propose(one, statetest.Register(job, n))
				cancel()
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// fill leaves a disk without room.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := mib; size >= 512; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
}
