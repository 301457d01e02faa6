//go:build faults

package consensus_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/consensus"
	"berth/internal/failpoint"
)

// The only server's disk hangs for longer than a write may take, and for longer
// than an entry may wait. Nobody else could lead, so its term goes on: reads are
// answered, what was proposed is committed when the disk goes on, and until
// then the server says what is wrong.
func TestALoneServerWhoseDiskHangsGoesOnLeading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer failpoint.Reset()
		c := newCluster(t, nil)
		defer c.close()
		c.boot(1)
		s := c.leader()
		term := s.leading()
		if err := c.propose(t.Context(), term.Log); err != nil {
			t.Fatal(err)
		}
		if err := failpoint.Enable("consensus/append/" + s.id + "=delay(2m)"); err != nil {
			t.Fatal(err)
		}
		answers := make(chan error, 20)
		for range 20 { // the first is written, the others are staged behind it
			go func() { answers <- c.propose(context.Background(), term.Log) }()
			synctest.Wait()
		}
		for range 110 {
			time.Sleep(time.Second)
			if s.leading() != term {
				t.Fatal("the term is over")
			}
			limit, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := s.ReadIndex(limit); err != nil {
				t.Fatalf("a read while the disk hangs: %v", err)
			}
			if err := term.Confirm(limit); err != nil {
				t.Fatalf("a refusal while the disk hangs: %v", err)
			}
			cancel()
		}
		if err := s.DiskError(); berth.CodeOf(err) != berth.CodeDiskSlow || berth.KindOf(err) != berth.Unavailable {
			t.Errorf("while the disk hangs the server says %v", err)
		}
		for range 20 {
			if err := <-answers; err != nil {
				t.Errorf("when the disk goes on: %v", err)
			}
		}
		time.Sleep(time.Second)
		if err := s.DiskError(); err != nil || s.leading() != term {
			t.Errorf("afterwards: %v, the same term: %v", err, s.leading() == term)
		}
	})
}

// The only server's disk is full: nothing can be written, and the server says
// why. What is there can be read.
func TestALoneServerWhoseDiskIsFullCanBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisks(1)
		c := newCluster(t, func(conf *consensus.Config) { conf.DiskSpace = d.room })
		defer c.close()
		c.boot(1)
		s := c.leader()
		if err := c.propose(t.Context(), s.leading().Log); err != nil {
			t.Fatal(err)
		}
		index := s.store.Snapshot().Index
		d[s.id].Store(mib)
		time.Sleep(watched)
		if err := c.propose(t.Context(), s.leading().Log); berth.CodeOf(s.DiskError()) != berth.CodeDiskFull || err == nil {
			t.Errorf("%v, %v", err, s.DiskError())
		}
		c.within(5*time.Second, "it does not lead", func() bool { return s.leading() == nil })
		if got, err := s.ReadIndex(t.Context()); err != nil || got != index {
			t.Errorf("a read from a server whose disk is full: index %d, want %d: %v", got, index, err)
		}
		d[s.id].Store(500 * mib)
		c.leader()
		c.converge()
		if err := s.DiskError(); err != nil {
			t.Errorf("with space again: %v", err)
		}
	})
}

// A server of several that follows knows nothing for certain, whatever its disk.
func TestAFollowerIsNotComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		defer c.close()
		c.boot(3)
		old := c.leader()
		c.net.Split([]string{old.id}, c.others(old.id))
		c.leader(old.id)
		c.within(5*time.Second, "it does not lead", func() bool { return old.leading() == nil })
		for _, id := range c.running() {
			if s := c.at(id); s.Complete() {
				t.Errorf("%s of three is complete by itself", id)
			}
		}
		c.net.Heal()
		c.converge()
	})
}
