//go:build faults

package consensus_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/consensus"
	"berth/internal/failpoint"
	_ "berth/internal/onethread"
	"berth/internal/state"
)

// halfRestored is a cluster of three whose leader fails during a restore, when
// the restored state is on its own disk and no other server has it. Or all
// servers fail at that moment.
func halfRestored(t *testing.T, all bool) (c *cluster, lost string, saved int) {
	t.Helper()
	c = newCluster(t, nil)
	c.boot(3)
	leader := c.leader()
	for range 10 {
		if err := c.propose(t.Context(), leader.leading().Log); err != nil {
			t.Fatal(err)
		}
	}
	var text bytes.Buffer
	if _, err := leader.SaveTo(&text); err != nil {
		t.Fatal(err)
	}
	saved = leader.store.Snapshot().Count(state.Nodes)
	for range 30 {
		if err := c.propose(t.Context(), leader.leading().Log); err != nil {
			t.Fatal(err)
		}
	}
	c.converge()
	if err := failpoint.Enable("consensus/snapshot-sealed=delay(30s)"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := leader.RestoreFrom(t.Context(), &text)
		done <- err
	}()
	sealed := func() bool {
		all, _ := filepath.Glob(filepath.Join(c.dir, leader.id, "snapshots", "snapshots", "*", "meta.crc32c"))
		return len(all) > 0
	}
	c.within(20*time.Second, "what is restored is safe", sealed)
	others := c.others(leader.id)
	c.net.Split([]string{leader.id}, others)
	for _, id := range others {
		if all {
			c.halt(id)
		}
	}
	c.halt(leader.id)
	failpoint.Reset()
	if err := <-done; !errors.Is(err, state.ErrUnknown) {
		t.Errorf("who asked for it is told %v", err)
	}
	c.net.Heal()
	return c, leader.id, saved
}

// The others continued with the old state. The failed leader comes back with
// the restored one, notices that at the first entry, and is refilled: all have
// the old state.
func TestAHalfRestoreThatOthersDidNotTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, lost, _ := halfRestored(t, false)
		defer c.close()
		now := c.leader()
		for range 5 {
			if err := c.propose(t.Context(), now.leading().Log); err != nil {
				t.Fatal(err)
			}
		}
		m := c.start(lost)
		err := <-m.ended
		if !errors.Is(err, consensus.ErrDiffers) {
			t.Fatalf("it ended: %v", err)
		}
		t.Log(err)
		c.mu.Lock()
		delete(c.servers, lost)
		c.mu.Unlock()
		c.start(lost)
		c.converge() // which asks that nothing is lost
		time.Sleep(time.Second)
		if _, err := os.Stat(filepath.Join(c.dir, lost, "refill.json")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("it still waits to be refilled: %v", err)
		}
	})
}

// All servers failed. The one with the restored state comes back with one of
// the others and leads, because its log is longer: all have the restored state.
func TestAHalfRestoreThatIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, lost, saved := halfRestored(t, true)
		defer c.close()
		ids := slices.DeleteFunc(names(3), func(id string) bool { return id == lost })
		for _, id := range append([]string{lost}, ids...) {
			c.start(id)
			if len(c.running()) == 1 {
				continue
			}
			if l := c.leader(); l.id != lost {
				t.Errorf("%s leads", l.id)
			}
			c.within(20*time.Second, "all have what was restored", func() bool {
				for _, id := range c.running() {
					if c.at(id).store.Snapshot().Count(state.Nodes) != saved {
						return false
					}
				}
				return true
			})
		}
		m := c.leader()
		if err := c.propose(t.Context(), m.leading().Log); err != nil {
			t.Error(err)
		}
	})
}
