package budget

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	_ "berth/internal/onethread"
)

func take(t *testing.T, b *Budget, key string, n int64) func() {
	t.Helper()
	give, err := b.Take(t.Context(), key, n, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return give
}

// A wait ends when enough was given back, after its time, and with its caller.
func TestHowWaitsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Limits{Total: 10, Each: 6, Queue: 2})
		first := take(t, b, "a", 6)
		start := time.Now()
		if _, err := b.Take(t.Context(), "a", 1, 5*time.Second); !errors.Is(err, ErrBusy) || time.Since(start) != 5*time.Second {
			t.Errorf("beyond what one key may have: %v after %v", err, time.Since(start))
		}
		take(t, b, "b", 4)
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		go func() { time.Sleep(time.Second); cancel(gone) }()
		if _, err := b.Take(ctx, "c", 1, 5*time.Second); !errors.Is(err, gone) {
			t.Errorf("the caller left: %v", err)
		}
		go func() { time.Sleep(time.Second); first(); first() }() // the second call does nothing
		start = time.Now()
		take(t, b, "c", 5)
		if time.Since(start) != time.Second {
			t.Errorf("waited %v", time.Since(start))
		}
		if total, each := b.Taken("c"); total != 9 || each != 5 {
			t.Errorf("%d taken, %d by c", total, each)
		}
		if _, err := b.Take(t.Context(), "d", 7, time.Second); !errors.Is(err, ErrTooLarge) {
			t.Errorf("more than one key may ever have: %v", err)
		}
	})
}

// Only so many of one key wait; another one is refused at once.
func TestTheQueueOfAKeyIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Limits{Total: 10, Each: 1, Queue: 2})
		take(t, b, "a", 1)
		for range 2 {
			go func() { _, _ = b.Take(t.Context(), "a", 1, 5*time.Second) }()
		}
		synctest.Wait()
		start := time.Now()
		if _, err := b.Take(t.Context(), "a", 1, 5*time.Second); !errors.Is(err, ErrBusy) || time.Since(start) != 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		take(t, b, "b", 1)
	})
}

// Keys take turns: one with a long queue delays another by one turn.
func TestKeysTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Limits{Total: 1, Each: 1, Queue: 100})
		give := take(t, b, "first", 1)
		var order []string
		enter := func(key string) {
			go func() {
				give, err := b.Take(t.Context(), key, 1, time.Hour)
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, key) // one at a time has it
				give()
			}()
			synctest.Wait()
		}
		for range 4 {
			enter("greedy")
		}
		enter("modest")
		give()
		synctest.Wait()
		if want := []string{"greedy", "modest", "greedy", "greedy", "greedy"}; !slices.Equal(order, want) {
			t.Errorf("the order is %q, want %q", order, want)
		}
	})
}

// A large amount is not overtaken for ever by small ones.
func TestALargeAmountIsNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Limits{Total: 4, Each: 4, Queue: 100})
		small := take(t, b, "small", 2)
		got := make(chan bool, 2)
		for _, n := range []int64{4, 1} { // the second would fit
			go func() {
				give := take(t, b, fmt.Sprint("of ", n), n)
				got <- n == 4
				give()
			}()
			synctest.Wait()
		}
		small()
		if large := <-got; !large {
			t.Error("the small amount came first")
		}
		<-got
	})
}

// Whatever is taken, given back and given up: the limits hold, and at the end
// nothing is left.
func TestLimitsHold(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := New(Limits{Total: 10, Each: 5, Queue: 3})
		var gives []func()
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			if len(gives) > 0 && rapid.Bool().Draw(rt, "give") {
				i := rapid.IntRange(0, len(gives)-1).Draw(rt, "which")
				gives[i]()
				gives = slices.Delete(gives, i, i+1)
				continue
			}
			key := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "key")
			if give, err := b.Take(context.Background(), key, rapid.Int64Range(0, 6).Draw(rt, "amount"), time.Nanosecond); err == nil {
				gives = append(gives, give)
			}
			if total, each := b.Taken(key); total > 10 || each > 5 || total < each || each < 0 {
				rt.Fatalf("%d taken, %d by %s", total, each, key)
			}
		}
		for _, give := range gives {
			give()
		}
		if total, _ := b.Taken("a"); total != 0 || len(b.keys) != 0 || len(b.turns) != 0 {
			rt.Fatalf("left: %d, %d keys, %d turns", total, len(b.keys), len(b.turns))
		}
	})
}
