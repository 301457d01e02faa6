//go:build faults

package wire

import (
	"context"
	"sync/atomic"
	"testing"

	"berth/internal/failpoint"
	"berth/op"
)

// The failpoint has a call arrive twice, and the caller hear one answer.
func TestCallsArriveTwice(t *testing.T) {
	s := New(quiet(t))
	var calls atomic.Int32
	s.Handle("Node.UpdateStatus", func(ctx context.Context, c *Call) (any, error) {
		calls.Add(1)
		return beat(ctx, c)
	})
	sess := dial(t, start(t, s), nil)
	defer failpoint.Reset()
	for i, want := range []int32{1, 3} {
		if i == 1 {
			if err := failpoint.Enable("wire/twice=error*"); err != nil {
				t.Fatal(err)
			}
		}
		var out op.NodeAnswer
		if err := sess.Call(t.Context(), "Node.UpdateStatus", aBeat, &out); err != nil || out.Index != 7 {
			t.Errorf("answered %+v, %v", out, err)
		}
		if n := calls.Load(); n != want {
			t.Errorf("after call %d the server was called %d times, not %d", i+1, n, want)
		}
	}
}
