package state_test

import (
	"bytes"
	"cmp"
	"iter"
	"slices"
	"strings"
	"testing"

	"berth"
	"berth/internal/state"
	"berth/internal/state/statetest"

	"pgregory.net/rapid"
)

// A range from any row on, or from where a row was, is the rest of the whole table,
// in both directions and with any prefix.
func TestRangesAreTheRestOfTheTable(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		_, log := statetest.New(t)
		r := &statetest.Random{}
		for range rapid.IntRange(0, 60).Draw(rt, "commands") {
			log.Propose(t.Context(), r.Command(rt, log.Tip())) // some are refused
		}
		// Nodes whose IDs share their first half.
		for n := range rapid.IntRange(0, 4).Draw(rt, "alike") {
			node := statetest.Node(1, 1, 1)
			node.ID[15] = byte(200 - n)
			log.Propose(t.Context(), &state.RegisterNode{Node: node, Now: 1})
		}
		s, back := log.Tip(), rapid.Bool().Draw(rt, "back")
		drop := rapid.IntRange(0, 30).Draw(rt, "begin at row")
		prefix := rapid.SampledFrom([]string{"", "0", "00000001", "0000000", "a", "f"}).Draw(rt, "prefix")
		checkRange(rt, "nodes", s.Nodes(), s.NodeRange, func(n *berth.Node) berth.NodeID { return n.ID }, prefix, drop, back)
		checkRange(rt, "allocations", s.Allocs(), s.AllocRange, func(a *berth.Alloc) berth.AllocID { return a.ID }, prefix, drop, back)
		checkRange(rt, "evaluations", s.Evals(), s.EvalRange, func(e *berth.Eval) berth.EvalID { return e.ID }, prefix, drop, back)
		checkRange(rt, "deployments", s.Deployments(), s.DeploymentRange, func(d *berth.Deployment) berth.DeploymentID { return d.ID }, prefix, drop, back)
		checkJobRows(rt, s, drop, back)
		checkTimes(rt, "allocations", s.Allocs(), s.AllocsByTime, func(a *berth.Alloc) (uint64, berth.AllocID) { return a.CreateIndex, a.ID }, drop, back)
		checkTimes(rt, "evaluations", s.Evals(), s.EvalsByTime, func(e *berth.Eval) (uint64, berth.EvalID) { return e.CreateIndex, e.ID }, drop, back)
	})
}

// checkRange compares a range in order of ID with what sorting all rows gives.
func checkRange[T any](t *rapid.T, what string, all iter.Seq[*T], rows func(state.Range[T]) iter.Seq[*T], id func(*T) berth.ID[T], text string, drop int, back bool) {
	var p berth.IDPrefix
	if text != "" {
		var err error
		if p, err = berth.ParseIDPrefix(text); err != nil {
			t.Fatal(err)
		}
	}
	var want []*T
	for v := range all {
		if strings.HasPrefix(id(v).String(), text) {
			want = append(want, v)
		}
	}
	slices.SortFunc(want, func(a, b *T) int {
		x, y := id(a), id(b)
		return bytes.Compare(x[:], y[:])
	})
	if back {
		slices.Reverse(want)
	}
	in := state.Range[T]{Prefix: p, Back: back}
	if got := slices.Collect(rows(in)); !slices.Equal(got, want) {
		t.Fatalf("%s with %q are %d, not %d rows", what, text, len(got), len(want))
	}
	if drop >= len(want) {
		return
	}
	in.From = id(want[drop])
	if got := slices.Collect(rows(in)); !slices.Equal(got, want[drop:]) {
		t.Fatalf("%s with %q from row %d on are %d, not %d rows", what, text, drop, len(got), len(want)-drop)
	}
	// Where no row is, a range begins with the next.
	if back {
		in.From[15]++
	} else {
		in.From[15]--
	}
	next := slices.IndexFunc(want, func(v *T) bool {
		at := id(v)
		c := bytes.Compare(at[:], in.From[:])
		return !back && c >= 0 || back && c <= 0
	})
	if got := slices.Collect(rows(in)); next < 0 || !slices.Equal(got, want[next:]) {
		t.Fatalf("%s with %q from beside row %d on are %d rows", what, text, drop, len(got))
	}
}

// checkJobRows compares ranges of jobs with what filtering all gives.
func checkJobRows(t *rapid.T, s *state.Snapshot, drop int, back bool) {
	for _, namespace := range []string{"default", "*", "none"} {
		for _, prefix := range []string{"", "a", "b", "web", "\xf4"} {
			var want []state.JobRow
			for j := range s.Jobs(namespace, prefix) {
				want = append(want, state.JobRow{Job: j, Summary: s.Summary(j.Key())})
			}
			if back {
				slices.Reverse(want)
			}
			in := state.JobRange{Namespace: namespace, Prefix: prefix, Back: back}
			if got := slices.Collect(s.JobRows(in)); !slices.Equal(got, want) {
				t.Fatalf("jobs %+v are %d, not %d", in, len(got), len(want))
			}
			if drop >= len(want) {
				continue
			}
			in.From = want[drop].Job.Key()
			if got := slices.Collect(s.JobRows(in)); !slices.Equal(got, want[drop:]) {
				t.Fatalf("jobs %+v are %d, not %d", in, len(got), len(want)-drop)
			}
			gone := want[drop].Job.Key()
			if in.From.ID += "\x01"; back {
				drop-- // the row itself comes after its own place
			}
			if got := slices.Collect(s.JobRows(in)); drop+1 <= len(want) && !slices.Equal(got, want[drop+1:]) {
				t.Fatalf("jobs after %v are %d, not %d", gone, len(got), len(want)-drop-1)
			}
			if back {
				drop++
			}
		}
	}
}

// checkTimes compares lists by creation that begin at a row with the rest of the
// whole list.
func checkTimes[T any](t *rapid.T, what string, all iter.Seq[*T], rows func(uint64, berth.ID[T], bool) iter.Seq[*T], place func(*T) (uint64, berth.ID[T]), drop int, back bool) {
	want := slices.Collect(all)
	if back {
		slices.Reverse(want)
	}
	if got := slices.Collect(rows(0, berth.ID[T]{}, back)); !slices.Equal(got, want) {
		t.Fatalf("%s by creation are %d, not %d rows", what, len(got), len(want))
	}
	if drop >= len(want) {
		return
	}
	index, id := place(want[drop])
	if got := slices.Collect(rows(index, id, back)); !slices.Equal(got, want[drop:]) {
		t.Fatalf("%s by creation from row %d on are %d, not %d rows", what, drop, len(got), len(want)-drop)
	}
	// Of a row that is gone, the index is known: all that were created there come.
	first := slices.IndexFunc(want, func(v *T) bool { at, _ := place(v); return cmp.Compare(at, index) == 0 })
	if got := slices.Collect(rows(index, berth.ID[T]{9, 9}, back)); !slices.Equal(got, want[first:]) {
		t.Fatalf("%s by creation from index %d on are %d, not %d rows", what, index, len(got), len(want)-first)
	}
}
