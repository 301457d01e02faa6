package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth"
	"berth/internal/schedule/reconcile"
	"berth/internal/state"
	"berth/op"
)

// What a group or a task waits for, beside places: other groups, and inputs.

// waitsFor adds the groups that come before one and are not ready.
func (a *explainer) waitsFor(x *op.GroupExplanation, waits []reconcile.Wait) {
	if len(waits) == 0 {
		return
	}
	failed := a.snap.FailedFirst(a.job)
	for _, w := range waits {
		x.WaitsFor = append(x.WaitsFor, op.GroupWait{
			Group: w.Group, Ready: w.Ready, Wanted: w.Wanted, State: w.State,
			Failed: failed != nil && failed.Group.Name == w.Group && !a.hasFollowup(failed),
		})
	}
}

// orderText returns the part of a group's summary about the groups that it
// waits for.
func orderText(waits []op.GroupWait) string {
	var parts []string
	for _, w := range waits {
		s := fmt.Sprintf("group %q (%d of %d %s %s)", w.Group, w.Ready, w.Wanted, verb(w.Ready, "is", "are"), w.State)
		switch {
		case w.State == reconcile.WaitFinished:
			s = fmt.Sprintf("group %q (%d of %d %s finished)", w.Group, w.Ready, w.Wanted, verb(w.Ready, "has", "have"))
		case w.Ready == w.Wanted:
			s = fmt.Sprintf("group %q, which is waiting itself", w.Group)
		}
		if w.Failed {
			s += " and one failed for good"
		}
		parts = append(parts, s)
	}
	if len(parts) == 0 {
		return ""
	}
	return "; waits for " + strings.Join(parts, ", and for ")
}

// inputs returns what the tasks of an allocation wait for before they can
// start.
func inputs(al *berth.Alloc) (out []op.InputWait) {
	if al.Client != berth.ClientPending && al.Client != berth.ClientRunning {
		return nil
	}
	states := state.TaskStates(al)
	for _, name := range slices.Sorted(maps.Keys(states)) {
		for _, w := range states[name].Waits() {
			out = append(out, op.InputWait{AllocID: al.ID, Task: name, TaskWait: w})
		}
	}
	return out
}

// inputsText returns the part of a group's summary about what its tasks wait
// for.
func inputsText(list []op.InputWait) string {
	if len(list) == 0 {
		return ""
	}
	w := list[0]
	s := fmt.Sprintf("; task %q of allocation %s waits for %s", w.Task, w.AllocID.Short(), w.TaskWait)
	if n := len(list) - 1; n > 0 {
		s += fmt.Sprintf(", and %s more", count(n, "input"))
	}
	return s
}

// orders says of the first group that waits for others for which it does. It
// reports whether there is one.
func (a *explainer) orders(say func(verdict, format string, args ...any)) bool {
	at := slices.IndexFunc(a.x.Groups, func(g op.GroupExplanation) bool { return len(g.WaitsFor) > 0 })
	if at >= 0 {
		say(op.WhyOrder, "group %q%s", a.x.Groups[at].Group, strings.TrimPrefix(orderText(a.x.Groups[at].WaitsFor), ";"))
	}
	return at >= 0
}

// wantsInput says of the first group whose tasks wait for inputs for which they
// do. It reports whether there is one.
func (a *explainer) wantsInput(t *totals, say func(verdict, format string, args ...any)) bool {
	at := slices.IndexFunc(a.x.Groups, func(g op.GroupExplanation) bool { return len(g.Inputs) > 0 })
	if at >= 0 {
		say(op.WhyInput, "%d of %d placed%s", t.live, t.wanted, inputsText(a.x.Groups[at].Inputs))
	}
	return at >= 0
}
