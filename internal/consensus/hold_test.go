package consensus_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/consensus"
)

// lagging is a cluster of three that saves its state often and writes all the
// time; a follower was down for long and comes back. A snapshot to it takes five
// minutes.
func lagging(t *testing.T, edit func(*consensus.Config)) (c *cluster, leader, follower *member, stop func()) {
	c = newCluster(t, func(conf *consensus.Config) {
		conf.SnapshotInterval = 10 * time.Second
		conf.DiskSpace = func(string) (free, size uint64, err error) { return 1 << 40, 1 << 40, nil }
		if edit != nil {
			edit(conf)
		}
	})
	c.boot(3)
	leader = c.leader()
	id := c.others(leader.id)[0]
	c.halt(id)
	for range 300 {
		if err := c.propose(t.Context(), leader.leading().Log); err != nil {
			t.Fatal(err)
		}
	}
	if err := leader.Save(); err != nil {
		t.Fatal(err)
	}
	c.net.SlowSnapshots(5 * time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if term := leader.leading(); term != nil {
				_ = c.propose(ctx, term.Log)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	follower = c.start(id)
	return c, leader, follower, func() { cancel(); <-done; c.close() }
}

// A follower that is sent a snapshot catches up with the log that the leader
// kept meanwhile; it does not need another snapshot. Then the log is shortened.
func TestALogIsKeptWhileASnapshotIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, leader, follower, stop := lagging(t, nil)
		defer stop()
		c.within(8*time.Minute, "the follower has caught up", func() bool {
			return follower.store.Snapshot().Index+20 > leader.store.Snapshot().Index
		})
		if n := c.net.Installs(follower.id); n != 1 {
			t.Errorf("%d snapshots were sent, want 1", n)
		}
		time.Sleep(3 * time.Minute)
		first, last := leader.LogRange()
		if last-first > 1000 {
			t.Errorf("the log still holds %d entries", last-first)
		}
	})
}

// The log is not kept beyond what the disk has space for.
func TestAKeptLogIsBoundedByTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, leader, follower, stop := lagging(t, func(conf *consensus.Config) {
			conf.Reserve = 1 << 20
			conf.DiskSpace = func(string) (free, size uint64, err error) { return 1<<20 + 4096, 1 << 40, nil }
		})
		defer stop()
		time.Sleep(4 * time.Minute)
		if first, last := leader.LogRange(); last-first > 1000 {
			t.Errorf("the log holds %d entries, though the disk is nearly full", last-first)
		}
		if follower.store.Snapshot().Index > 1 {
			t.Error("the snapshot was there before its time")
		}
	})
}
