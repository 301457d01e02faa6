package broker_test

import (
	"testing"

	"berth/internal/state"
)

func pause(on bool) state.Command {
	c := &state.SetSchedulerConfig{}
	c.Config.PauseEvalBroker = on
	return c
}

// While an operator has paused it the broker hands out nothing; what comes
// meanwhile is kept, and a worker that waits gets it afterwards.
func TestPaused(t *testing.T) {
	inTerm(t, func(b *term) {
		b.do(register(t, "web", 1))
		held := b.next()
		b.do(pause(true), register(t, "db", 2))
		b.nothing()
		if err := b.Ack(held.Eval.ID, held.Token); err != nil { // what was handed out goes on
			t.Error(err)
		}
		got := make(chan int)
		go func() {
			list, err := b.Next(b.t.Context(), someTypes, 10)
			if err != nil || len(list) != 1 {
				t.Errorf("%v, %v", list, err)
			}
			got <- number(list[0].Eval)
		}()
		b.do(pause(false))
		if n := <-got; n != 2 {
			t.Errorf("evaluation %d is handed out", n)
		}
	})
}

// A broker of a new term knows that it is paused.
func TestPausedInANewTerm(t *testing.T) {
	inTerm(t, func(b *term) { b.nothing() }, pause(true), register(t, "web", 1))
}
