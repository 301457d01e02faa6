package consensus_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// stopUnknown is a command that is refused: its job does not exist.
func stopUnknown() state.Command {
	return &state.StopJob{Key: berth.JobKey{Namespace: "default", ID: "none"}}
}

// A leader that was paused, or cut off, while another one was elected refuses
// nothing from its old state: what it would say may be wrong by now. The caller
// is told that nothing was done, so that another server can be asked.
func TestADeposedLeaderRefusesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		defer c.close()
		c.boot(3)
		old := c.leader()
		term := old.leading()
		if err := c.propose(t.Context(), term.Log); err != nil {
			t.Fatal(err)
		}
		if err := term.Confirm(t.Context()); err != nil {
			t.Fatalf("a leader that is heard: %v", err)
		}
		if _, err := term.Log.Propose(t.Context(), stopUnknown()); berth.KindOf(err) != berth.NotFound {
			t.Fatalf("a refusal by a leader that is heard: %v", err)
		}
		c.net.Split([]string{old.id}, c.others(old.id))
		for name, ask := range map[string]func() error{
			"refusal":      func() error { _, err := term.Log.Propose(t.Context(), stopUnknown()); return err },
			"confirmation": func() error { return term.Confirm(t.Context()) },
		} {
			if err := ask(); !errors.Is(err, state.ErrLost) || errors.Is(err, state.ErrUnknown) || berth.KindOf(err) != "" {
				t.Errorf("%s from a leader that was cut off: %v", name, err)
			}
		}
		c.within(5*time.Second, "it does not lead", func() bool { return old.leading() == nil })
		c.net.Heal()
		c.converge()
	})
}

// What an earlier term of the same server decided is not confirmed by a later
// one: another server may have led between the two.
func TestALaterTermConfirmsNothingOfAnEarlier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		defer c.close()
		c.boot(3)
		old := c.leader()
		first := old.leading()
		next := "s1"
		if old.id == next {
			next = "s2"
		}
		c.transfer(next)
		c.transfer(old.id)
		if err := first.Confirm(t.Context()); !errors.Is(err, state.ErrLost) {
			t.Errorf("the earlier term: %v", err)
		}
		if err := old.leading().Confirm(t.Context()); err != nil {
			t.Errorf("the present term: %v", err)
		}
	})
}

// Refusals at the same time share a question to the majority, so a thousand
// callers do not send a thousand.
func TestRefusalsShareAQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		defer c.close()
		c.boot(3)
		leader := c.leader()
		c.net.Delay(time.Millisecond)
		time.Sleep(time.Second)
		before, began := leader.Confirmations(), time.Now()
		var callers sync.WaitGroup
		for range 1000 {
			callers.Go(func() {
				if _, err := leader.leading().Log.Propose(t.Context(), stopUnknown()); berth.KindOf(err) != berth.NotFound {
					t.Errorf("refused with %v", err)
				}
			})
		}
		callers.Wait()
		if n := leader.Confirmations() - before; n == 0 || n > 20 {
			t.Errorf("1000 refusals took %d questions", n)
		}
		if took := time.Since(began); took > 20*time.Millisecond {
			t.Errorf("with a way of 1 ms they took %s", took)
		}
	})
}

// Commands that change something need no question of their own: their entry is
// one.
func TestAChangeAsksNothingExtra(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		defer c.close()
		c.boot(3)
		leader := c.leader()
		before := leader.Confirmations()
		for n := range 100 {
			pending, err := leader.leading().Log.Stage(statetest.AddNode(n, 1, 1), stopUnknown())
			if err == nil {
				err = pending.Wait(t.Context())
			}
			if err != nil || berth.KindOf(pending.Results[1].Err) != berth.NotFound {
				t.Fatalf("%v, %v", pending.Results, err)
			}
		}
		if n := leader.Confirmations() - before; n != 0 {
			t.Errorf("100 entries took %d questions", n)
		}
	})
}
