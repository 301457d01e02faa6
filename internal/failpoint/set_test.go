//go:build faults

package failpoint

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
)

func arm(t *testing.T, s *Set, p Point) {
	t.Helper()
	if err := s.Arm(p); err != nil {
		t.Fatal(err)
	}
}

func passes(s *Set, n int) (out string) {
	for range n {
		switch s.Pass(context.Background(), "a", After, 1) {
		case "":
			out += "."
		default:
			out += "x"
		}
	}
	return out
}

func TestPassesOfASet(t *testing.T) {
	for _, x := range []struct {
		point Point
		want  string
	}{
		{Point{"a", After, 0, StepDown, false}, "xxxx"},
		{Point{"a", After, 0, StepDown, true}, "x..."},
		{Point{"a", After, 2, StepDown, false}, ".x.x"},
		{Point{"a", After, 3, StepDown, true}, "..x."},
		{Point{"a", Before, 1, StepDown, true}, "...."},
		{Point{"b", After, 1, StepDown, true}, "...."},
	} {
		s := NewSet([]string{"a", "b"})
		arm(t, s, x.point)
		if got := passes(s, 4); got != x.want {
			t.Errorf("%+v: %s, want %s", x.point, got, x.want)
		}
	}
}

func TestManyPassesAtOnce(t *testing.T) {
	s := NewSet([]string{"a"})
	arm(t, s, Point{"a", After, 3, Exit, true})
	ctx := context.Background()
	if x, y := s.Pass(ctx, "a", After, 2), s.Pass(ctx, "a", After, 2); x != "" || y != Exit {
		t.Errorf("%q, %q", x, y)
	}
}

func TestAHangEndsWhenItIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSet([]string{"a"})
		arm(t, s, Point{"a", Before, 1, Hang, true})
		done := make(chan string)
		go func() { done <- s.Pass(t.Context(), "a", Before, 1) }()
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("it did not hang")
		default:
		}
		if !s.Armed() {
			t.Error("it hangs, and nothing is armed")
		}
		arm(t, s, Point{"a", Before, 1, Off, false})
		if got := <-done; got != Hang || s.Armed() {
			t.Errorf("it did %q; armed: %t", got, s.Armed())
		}
	})
}

// What waited is over then, and the point is held until it is taken back.
func TestAHangEndsWithItsContext(t *testing.T) {
	s := NewSet([]string{"a"})
	arm(t, s, Point{"a", Before, 1, Hang, false})
	if s.Held("a", Before) != nil || len(s.Hanging()) > 0 {
		t.Error("something hangs before anything passed")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := s.Pass(ctx, "a", Before, 1); got != Hang {
		t.Errorf("it did %q", got)
	}
	held := s.Held("a", Before)
	if got := s.Hanging(); held == nil || s.Held("a", After) != nil || len(got) != 1 || got[0] != "before a" {
		t.Errorf("what hangs is %q", got)
	}
	arm(t, s, Point{"a", Before, 1, Off, false})
	<-held
	if s.Held("a", Before) != nil || len(s.Hanging()) > 0 {
		t.Error("it hangs still")
	}
}

func TestANilSet(t *testing.T) {
	if (*Set)(nil).Armed() {
		t.Error("it is armed")
	}
}

func TestWrongPoints(t *testing.T) {
	for want, p := range map[string]Point{
		`Name: unknown value "b", want one of a`:                               {"b", After, 1, Exit, false},
		`When: unknown value "", want one of before, after`:                    {"a", "", 1, Exit, false},
		`Action: unknown value "jump", want one of exit, hang, step-down, off`: {"a", After, 1, "jump", false},
		`Nth: must be at least 1, got -1`:                                      {"a", After, -1, Exit, false},
	} {
		if err := NewSet([]string{"a"}).Arm(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", p, err)
		}
	}
}
