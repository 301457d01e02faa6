package consensus_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// What waits for the log is bounded: a write that finds too much of it is refused
// at once and changes nothing, so that its callers can come again as often as they
// like. The services of the leader go on.
func TestTooMuchWaitsForTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		defer c.close()
		c.boot(3)
		old := c.leader()
		log := old.leading().Log
		c.net.Split([]string{old.id}, c.others(old.id))
		job := func(n int) state.Command {
			j := statetest.Job(t, fmt.Sprintf(`{"ID": "large%d", "Meta": {"a": "b"}, "TaskGroups": [{"Name": "g"}]}`, n))
			j.Meta["a"] = strings.Repeat("x", 1<<20)
			return statetest.Register(j, n)
		}
		for n := range 64 {
			p, err := log.Stage(job(n + 1))
			if err != nil || p.Results[0].Err != nil {
				t.Fatalf("write %d: %v", n, err)
			}
		}
		before := log.Tip().Index
		results, err := log.Propose(t.Context(), job(100))
		if berth.KindOf(err) != berth.Limited || len(results) != 1 || results[0].Err == nil || log.Tip().Index != before {
			t.Errorf("one more: %v, %v", results, err)
		}
		if p, err := log.Stage(statetest.AddNode(1, 1000, 1000)); err != nil || p.Results[0].Err != nil {
			t.Errorf("a service of the leader: %v", err)
		}
		c.net.Heal()
		n := 200
		c.within(5*time.Minute, "writes are taken again", func() bool {
			term := c.leader().leading()
			if term == nil {
				return false
			}
			n++
			_, err := term.Log.Propose(t.Context(), job(n))
			if err != nil && !errors.Is(err, state.ErrLost) && berth.KindOf(err) != berth.Limited {
				t.Fatal(err)
			}
			return err == nil
		})
		c.converge()
	})
}

// Who is refused waits as well, until the state that this was decided on is
// committed. On a slow disk those who wait are bounded, too.
func TestRefusedWritesWaitForTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		defer c.close()
		c.boot(3)
		old := c.leader()
		c.net.Split([]string{old.id}, c.others(old.id))
		log, refused := old.leading().Log, &state.FailDeployment{ID: statetest.ID[berth.Deployment](1)}
		if _, err := log.Stage(statetest.AddNode(1, 1000, 1000)); err != nil { // the first waits for the others
			t.Fatal(err)
		}
		for range 64 << 20 / 512 { // what may wait, and what each takes
			if p, err := log.Stage(refused); err != nil || p.Results[0].Err == nil {
				t.Fatal(p, err)
			}
		}
		if _, err := log.Propose(t.Context(), refused); berth.KindOf(err) != berth.Limited {
			t.Errorf("one more: %v", err)
		}
	})
}
