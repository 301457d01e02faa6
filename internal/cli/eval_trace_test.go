package cli

import (
	"testing"

	"berth/op"
)

// A long trace shows its last trees, whole, or the beginning of the last if that
// is too long.
func TestTheNewestTreesOfATrace(t *testing.T) {
	trace := func(depths ...int) (out []op.TracedEval) {
		for _, d := range depths {
			out = append(out, op.TracedEval{Depth: d})
		}
		return out
	}
	for _, c := range []struct {
		all                  []op.TracedEval
		most                 int
		shown, older, behind int
	}{
		{trace(0, 1, 0), 0, 3, 0, 0},
		{trace(0, 1, 0), 3, 3, 0, 0},
		{trace(0, 1, 0), 2, 1, 2, 0},
		{trace(0, 0, 1, 0), 3, 3, 1, 0},
		{trace(0, 0, 1, 0), 2, 1, 3, 0},
		{trace(0, 0, 1, 2, 1), 2, 2, 1, 2},
		{trace(0, 1, 1, 1), 1, 1, 0, 3},
		{nil, 1, 0, 0, 0},
	} {
		shown, older, behind := newest(c.all, c.most)
		if len(shown) != c.shown || older != c.older || behind != c.behind || len(shown) > 0 && shown[0].Depth != 0 {
			t.Errorf("%d of %v: %d shown, %d before, %d behind", c.most, c.all, len(shown), older, behind)
		}
	}
}
