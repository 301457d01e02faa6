package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth"
	"berth/op"
)

// watched is what a monitor has seen so far of a job's evaluations and
// allocations. It decides what is new and how to say it; the monitor calls the
// server and prints.
type watched struct {
	verbose bool
	service bool // a long-running job, so all allocations must come up

	status   map[berth.EvalID]string
	allocs   map[berth.AllocID]seen
	reported map[berth.AllocID]string // the last event reported, by allocation
}

// seen is an allocation as last read, with the status that was last printed.
type seen struct {
	stub   op.AllocStub
	client berth.ClientStatus // the status last reported
}

// newWatched returns a watched that has seen nothing: everything is news.
func newWatched(verbose bool) *watched {
	return &watched{
		verbose: verbose, status: map[berth.EvalID]string{},
		allocs: map[berth.AllocID]seen{}, reported: map[berth.AllocID]string{},
	}
}

// crowd is how many allocations of a group are reported one by one; more are
// counted.
const crowd = 12

// sawEval returns the news of an evaluation.
func (w *watched) sawEval(e *op.Eval) (lines []string) {
	was, known := w.status[e.ID]
	if !known {
		was = began(e)
		by := fmt.Sprintf("Evaluation triggered by job %q", e.JobID)
		if e.TriggeredBy == berth.TriggerNodeUpdate && !e.NodeID.IsZero() {
			by = fmt.Sprintf("Evaluation triggered by node %q", short(e.NodeID.String(), w.verbose))
		}
		lines = append(lines, by)
	}
	if was != e.Status {
		lines = append(lines, fmt.Sprintf("Evaluation status changed: %q -> %q", was, e.Status))
	}
	w.status[e.ID] = e.Status
	return lines
}

// began is the status that an evaluation was created with.
func began(e *op.Eval) string {
	if e.TriggeredBy == berth.TriggerQueuedAllocs || e.TriggeredBy == berth.TriggerMaxPlanAttempts {
		return berth.EvalBlocked
	}
	return berth.EvalPending
}

// placed returns the news of what an evaluation placed or changed.
func (w *watched) placed(e *op.Eval, list []op.AllocStub) (lines []string) {
	type deed struct{ group, verb string }
	// Groups are reported in the order of the list, not of the map.
	fresh := map[deed][]op.AllocStub{}
	var order []deed
	for _, a := range list {
		if _, known := w.allocs[a.ID]; known || a.EvalID != e.ID {
			continue
		}
		d, was := deed{a.TaskGroup, "created"}, berth.ClientPending
		if a.CreateIndex < e.CreateIndex { // an earlier one, updated in place
			d.verb, was = "modified", a.ClientStatus
		}
		w.allocs[a.ID] = seen{a, was}
		if fresh[d] == nil {
			order = append(order, d)
		}
		fresh[d] = append(fresh[d], a)
	}
	for _, d := range order {
		list := fresh[d]
		if len(list) > crowd && !w.verbose {
			lines = append(lines, fmt.Sprintf("%d allocations %s: %s, group %q", len(list), d.verb, plural(nodesOf(list), "node"), d.group))
			continue
		}
		for _, a := range list {
			lines = append(lines, fmt.Sprintf("Allocation %q %s: node %q, group %q", short(a.ID.String(), w.verbose), d.verb, short(a.NodeID.String(), w.verbose), a.TaskGroup))
		}
	}
	return lines
}

// nodesOf counts the nodes that the allocations are on.
func nodesOf(list []op.AllocStub) int {
	nodes := map[berth.NodeID]bool{}
	for _, a := range list {
		nodes[a.NodeID] = true
	}
	return len(nodes)
}

// fared returns the news of those allocations.
func (w *watched) fared(list []op.AllocStub) (lines []string) {
	type change struct {
		group    string
		from, to berth.ClientStatus
	}
	// Equal changes of one group are reported together, in the order of the
	// list.
	changed := map[change][]op.AllocStub{}
	var order []change
	for _, a := range list {
		was, ours := w.allocs[a.ID]
		if !ours {
			continue
		}
		lines = append(lines, w.troubled(&a)...)
		if was.client != a.ClientStatus {
			c := change{a.TaskGroup, was.client, a.ClientStatus}
			if changed[c] == nil {
				order = append(order, c)
			}
			changed[c] = append(changed[c], a)
		}
		w.allocs[a.ID] = seen{a, a.ClientStatus}
	}
	for _, c := range order {
		list := changed[c]
		if len(list) > crowd && !w.verbose {
			lines = append(lines, fmt.Sprintf("%d allocations status changed: %q -> %q, group %q", len(list), c.from, c.to, c.group))
			continue
		}
		for _, a := range list {
			line := fmt.Sprintf("Allocation %q status changed: %q -> %q", short(a.ID.String(), w.verbose), c.from, c.to)
			if a.ClientStatus == berth.ClientFailed && a.ClientDescription != "" {
				line += " (" + a.ClientDescription + ")"
			}
			lines = append(lines, line)
		}
	}
	return lines
}

// trouble is the newest event of an allocation's tasks that reports a problem,
// or "".
func trouble(a *op.AllocStub) string {
	var newest *op.TaskEvent
	var of string
	for name, s := range a.TaskStates {
		for i := range s.Events {
			e := &s.Events[i]
			switch {
			case !slices.Contains(bad, e.Type), e.Type == berth.EventTerminated && !failedExit(e):
			case newest == nil || e.Time > newest.Time || e.Time == newest.Time && name < of:
				newest, of = e, name
			}
		}
	}
	if newest == nil {
		return ""
	}
	return fmt.Sprintf("task %q: %s: %s", of, newest.Type, eventText(newest))
}

// waiting says what the tasks of an allocation wait for before they can start,
// or "".
func waiting(a *op.AllocStub) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(a.TaskStates)) {
		if list := waitsOf(a.TaskStates[name]); list != "" {
			out = append(out, fmt.Sprintf("task %q waits for %s", name, list))
		}
	}
	return strings.Join(out, "; ")
}

// waitsOf lists what a task waits for before it starts, or returns "".
func waitsOf(s *op.TaskState) string {
	var out []string
	for _, w := range s.Waits() {
		out = append(out, w.String())
	}
	return strings.Join(out, ", ")
}

// troubled returns what an allocation's tasks wait for, or else their newest
// problem, unless it was reported: a problem is reported once, although its event stays in the list.
func (w *watched) troubled(a *op.AllocStub) []string {
	t := or(waiting(a), trouble(a))
	if t == "" || w.reported[a.ID] == t || a.ClientStatus == berth.ClientComplete {
		return nil
	}
	w.reported[a.ID] = t
	return []string{fmt.Sprintf("Allocation %q: %s", short(a.ID.String(), w.verbose), t)}
}

// bad are the types of events that report a problem, unless the task ended as
// it should.
var bad = []string{berth.EventSetupFailure, berth.EventDriverFailure, berth.EventTerminated, berth.EventNotRestarting}

// failedExit reports whether a task ended in failure, according to its agent.
func failedExit(e *op.TaskEvent) bool {
	code := e.Details["exit_code"]
	signal := e.Details["signal"]
	return code != "" && code != "0" || signal != "" && signal != "0"
}

// eventText is the text of a task event.
func eventText(e *op.TaskEvent) string { return or(e.DisplayMessage, or(e.Message, none)) }

// tally counts a job's allocations that should run.
type tally struct {
	running, pending, failed, done int
	failing                        []string // failed ones among those watched
}

// count counts the states of the allocations that should run.
func (w *watched) count(list []op.AllocStub) (t tally) {
	for _, a := range list {
		_, ours := w.allocs[a.ID]
		switch {
		case a.ClientStatus == berth.ClientFailed || a.ClientStatus == berth.ClientLost:
			// A failed allocation that was replaced is not the final result.
			if ours && a.NextAllocation.IsZero() {
				t.failed++
				t.failing = append(t.failing, short(a.ID.String(), w.verbose))
			}
		// What was told to stop counts no more.
		case a.DesiredStatus != berth.DesiredRun:
		case a.ClientStatus == berth.ClientPending:
			t.pending++
		case a.ClientStatus == berth.ClientComplete:
			t.done++
		default:
			t.running++
		}
	}
	return t
}

// settled reports whether no allocation is pending.
func (t tally) settled() bool { return t.pending == 0 }

// String lists the counts on one line. It always has the running ones, so it is
// never empty.
func (t tally) String() string {
	parts := []string{fmt.Sprintf("%d running", t.running)}
	for _, x := range []struct {
		n    int
		what string
	}{{t.pending, "pending"}, {t.done, "complete"}, {t.failed, "failed"}} {
		if x.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", x.n, x.what))
		}
	}
	return strings.Join(parts, ", ")
}
