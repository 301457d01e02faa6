package broker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/leader/broker"
	"berth/internal/state"
)

// The broker remembers for a while when a worker acknowledged an evaluation,
// which is not in its row. Each evaluation is reported once: at the later of
// its commit and its acknowledgement, or when it ended without a worker.
func TestAcknowledgedIsRemembered(t *testing.T) {
	inTerm(t, func(b *term) {
		applied := func(c *state.ApplyPlan) { c.End.Timeline = berth.Timeline{Applied: 1, Deliveries: 1} }
		told := map[int]broker.Ended{}
		b.OnEnd = func(e broker.Ended) {
			if _, twice := told[number(e.Eval)]; twice {
				t.Errorf("evaluation %d is told of twice", number(e.Eval))
			}
			told[number(e.Eval)] = e
		}
		b.do(register(t, "web", 1), register(t, "other", 2))
		first, second := b.next(), b.next()

		b.do(ends(1, applied))
		b.pass(time.Second)
		if b.Acked(first.Eval.ID) != 0 {
			t.Error("nobody has acknowledged it")
		}
		if err := b.Ack(first.Eval.ID, first.Token); err != nil {
			t.Fatal(err)
		}
		at := time.Now().UnixNano()
		b.pass(time.Second)
		b.Ack(first.Eval.ID, first.Token) // said again, it changes nothing
		if got := b.Acked(first.Eval.ID); got != at {
			t.Errorf("acknowledged at %d, not %d", got, at)
		}

		b.log.Must(t, ends(2, applied))
		if err := b.Ack(second.Eval.ID, second.Token); err != nil { // perhaps before the broker sees the commit
			t.Fatal(err)
		}
		at = time.Now().UnixNano()
		synctest.Wait()
		if got := b.Acked(second.Eval.ID); got != at || told[2].Acked != at {
			t.Errorf("acknowledged at %d, told %d; it was at %d", got, told[2].Acked, at)
		}

		b.do(register(t, "third", 3), register(t, "third", 4)) // the newer makes the older needless
		b.pass(time.Second)
		if e, ok := told[3]; !ok || e.Acked != 0 {
			t.Errorf("of the one that was canceled is told %+v", e)
		}
		if len(told) != 3 {
			t.Errorf("told of %d", len(told))
		}
	})
}
