package explain_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"berth"
	"berth/internal/schedule/explain"
	"berth/internal/state/statetest"

	"pgregory.net/rapid"
)

// steps are a trace of evaluations 1, 2, 3… at depths.
func steps(depths ...int) (out []explain.Step) {
	for i, d := range depths {
		out = append(out, explain.Step{Eval: &berth.Eval{ID: statetest.ID[berth.Eval](i + 1)}, Depth: d})
	}
	return out
}

// numbers names the evaluations of a trace.
func numbers(list []explain.Step) string {
	var out []string
	for _, s := range list {
		out = append(out, strings.TrimLeft(s.Eval.ID.Short(), "0"))
	}
	return strings.Join(out, " ")
}

// A long trace shows its last trees, whole, or the beginning of the last if that
// is too long; if an evaluation was asked for, its tree.
func TestTheNewestTreesOfATrace(t *testing.T) {
	for _, c := range []struct {
		all          []explain.Step
		most, of     int
		want         string
		older, later int
	}{
		{steps(0, 1, 0), 0, 0, "1 2 3", 0, 0},
		{steps(0, 1, 0), 3, 0, "1 2 3", 0, 0},
		{steps(0, 1, 0), 2, 0, "3", 2, 0},
		{steps(0, 0, 1, 0), 3, 0, "2 3 4", 1, 0},
		{steps(0, 0, 1, 0), 2, 0, "4", 3, 0},
		{steps(0, 0, 1, 2, 1), 2, 0, "2 3", 1, 2},
		{steps(0, 1, 1, 1), 1, 0, "1", 0, 3},
		{nil, 1, 0, "", 0, 0},
		{steps(0, 1, 0), 2, 3, "3", 2, 0},
		{steps(0, 1, 0), 2, 1, "1 2", 0, 1},
		{steps(0, 1, 0, 0), 2, 2, "1 2", 0, 2},
		{steps(0, 0, 1, 1, 2, 1, 0), 2, 4, "2 4", 2, 3},
		{steps(0, 0, 1, 1, 2, 1, 0), 3, 5, "2 4 5", 2, 2},
		{steps(0, 0, 1, 1, 2, 1, 0), 4, 5, "2 3 4 5", 1, 2},
		{steps(0, 1, 2, 3), 2, 4, "1 2 3 4", 0, 0}, // what it came from is always there
	} {
		shown, older, later := explain.Newest(c.all, c.most, statetest.ID[berth.Eval](c.of))
		if got := numbers(shown); got != c.want || older != c.older || later != c.later {
			t.Errorf("%d of %s for %d: %q and %d before, %d behind; want %q, %d, %d", c.most, numbers(c.all), c.of, got, older, later, c.want, c.older, c.later)
		}
	}
}

// Whatever is asked for: nothing is lost from the count, the evaluation is shown,
// and each that is shown stands below the one that it came from.
func TestNewestKeepsWhatWasAskedFor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		depths := []int{0}
		for range rapid.IntRange(0, 20).Draw(t, "more") {
			depths = append(depths, rapid.IntRange(0, depths[len(depths)-1]+1).Draw(t, "depth"))
		}
		all, of := steps(depths...), rapid.IntRange(0, len(depths)).Draw(t, "of")
		shown, older, later := explain.Newest(all, rapid.IntRange(1, 10).Draw(t, "most"), statetest.ID[berth.Eval](of))
		if len(shown)+older+later != len(all) {
			t.Fatalf("%d shown, %d before, %d behind of %d", len(shown), older, later, len(all))
		}
		found := of == 0
		for i, s := range shown {
			found = found || s.Eval.ID == statetest.ID[berth.Eval](of)
			if i == 0 && s.Depth > 0 || i > 0 && s.Depth > shown[i-1].Depth+1 {
				t.Fatalf("%s of %v: one stands alone", numbers(shown), depths)
			}
		}
		if !found {
			t.Fatalf("%s does not have %d", numbers(shown), of)
		}
	})
}

// A filter keeps what matches and what that came from.
func TestMatchingKeepsWhatLedThere(t *testing.T) {
	all := steps(0, 1, 2, 1, 0, 1, 2, 2, 0)
	for match, want := range map[string]string{"3": "1 2 3", "8": "5 6 8", "4": "1 4", "1": "1", "9": "9", "3 8": "1 2 3 5 6 8", "": ""} {
		got, err := explain.Matching(all, func(s *explain.Step) (bool, error) {
			return strings.Contains(" "+match+" ", " "+numbers([]explain.Step{*s})+" "), nil
		})
		if err != nil || numbers(got) != want {
			t.Errorf("%q: %q, %v; want %q", match, numbers(got), err, want)
		}
	}
	bad := errors.New("it cannot be compared")
	if _, err := explain.Matching(all, func(*explain.Step) (bool, error) { return false, bad }); !errors.Is(err, bad) {
		t.Error(fmt.Sprint(err))
	}
}
