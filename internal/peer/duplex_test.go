package peer

import (
	"context"
	"errors"
	"io"
	"testing"

	"berth"
	"berth/op"
)

// echo sends back what it receives.
func echo(_ context.Context, from op.Incoming) error {
	for {
		b, err := from.Recv()
		if err != nil {
			return nil
		}
		if string(b) == "end" {
			return nil
		}
		if string(b) == "fail" {
			return berth.Errorf(berth.Conflict, "failed as asked")
		}
		if err := from.Send(b); err != nil {
			return err
		}
	}
}

// through opens echo behind some relays.
func through(t *testing.T, relays int) op.Duplex {
	t.Helper()
	serve := echo
	for range relays {
		next := serve
		serve = func(ctx context.Context, from op.Incoming) error {
			to, err := Open(ctx, next)
			if err != nil {
				return err
			}
			return Join(from, to)
		}
	}
	d, err := Open(t.Context(), serve)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestMessagesPassBothWays(t *testing.T) {
	for relays := range 3 {
		for last, want := range map[string]berth.Kind{"end": "", "fail": berth.Conflict} {
			d := through(t, relays)
			for _, word := range []string{"one", "two", "three"} {
				if err := d.Send([]byte(word)); err != nil {
					t.Fatal(err)
				}
				if b, err := d.Recv(); string(b) != word || err != nil {
					t.Fatalf("%q %v", b, err)
				}
			}
			if err := d.Send([]byte(last)); err != nil {
				t.Fatal(err)
			}
			if _, err := d.Recv(); berth.KindOf(err) != want || want == "" && err != io.EOF {
				t.Errorf("%d relays, %s: %v", relays, last, err)
			}
			d.Close()
		}
	}
}

// A caller that closes the call ends its handler, behind any relays.
func TestACallerLeaves(t *testing.T) {
	ended := make(chan struct{})
	d, err := Open(t.Context(), func(ctx context.Context, from op.Incoming) error {
		to, err := Open(ctx, func(ctx context.Context, from op.Incoming) error {
			defer close(ended)
			if _, err := from.Recv(); err != io.EOF {
				t.Errorf("%v", err)
			}
			<-ctx.Done()
			return nil
		})
		if err != nil {
			return err
		}
		return Join(from, to)
	})
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
	<-ended
	if err := d.Send([]byte("x")); berth.KindOf(err) != berth.Unavailable {
		t.Errorf("%v", err)
	}
	if _, err := d.Recv(); err == nil {
		t.Error("a closed call has a message")
	}
}

func TestARefusedCall(t *testing.T) {
	refused := errors.New("no")
	if d, err := Open(t.Context(), func(context.Context, op.Incoming) error { return refused }); d != nil || !errors.Is(err, refused) {
		t.Errorf("%v %v", d, err)
	}
}

// A handler that returns also ends its context. What it returned wins, however
// late the caller looks; and so does that it accepted.
func TestWhatTheHandlerSaidWins(t *testing.T) {
	refusal := berth.Errorf(berth.Invalid, "not a regular file")
	for range 100 { // each is a toss-up if it does not hold
		refused := newLocal(t.Context())
		refused.err = refusal
		close(refused.ended)
		refused.cancel()
		if err := refused.opened(t.Context()); err != refusal {
			t.Fatalf("the refusal was lost: %v", err)
		}
		accepted := newLocal(t.Context())
		if err := (served{accepted}).Accept(); err != nil {
			t.Fatal(err)
		}
		accepted.err = refusal
		close(accepted.ended)
		accepted.cancel()
		if _, err := accepted.Recv(); err != refusal {
			t.Fatalf("the error of an accepted call was lost: %v", err)
		}
	}
}
