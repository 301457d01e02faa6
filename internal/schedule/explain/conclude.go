package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"berth"
	"berth/op"
)

// groupSummary returns one sentence for a group. Counts of 0 are left out. placed
// is how many a scheduler would place now, later when the next is replaced.
func (a *explainer) groupSummary(x *op.GroupExplanation, placed int, later time.Time) string {
	var parts []string
	add := func(n int, format string, args ...any) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, fmt.Sprintf(format, args...)))
		}
	}
	add(x.Live, "placed")
	add(x.Restarting, "of them %s to start a task again after the delay of the restart policy", verb(x.Restarting, "waits", "wait"))
	add(x.Finished, "finished")
	add(placed, "will be placed when a scheduler runs")
	if a.stream != nil {
		add(x.Later, "ended and will be launched again, the first at %s", stamp(later.UnixNano()))
	} else {
		add(x.Later, "failed and will be replaced at %s", stamp(later.UnixNano()))
	}
	add(x.GaveUp, "failed and will not be replaced: %s", a.whyGivenUp())
	add(x.Unlaunched, "%s launched when it is %s turn", verb(x.Unlaunched, "is", "are"), verb(x.Unlaunched, "its", "their"))
	add(x.Halted, "%s not placed, because the deployment has failed", verb(x.Halted, "is", "are"))
	add(x.Missing, "%s no place", verb(x.Missing, "finds", "find"))
	if len(parts) == 0 {
		switch {
		case len(x.WaitsFor) > 0: // what follows says so
			return fmt.Sprintf("%d desired", x.Wanted)
		case x.Wanted == 0 && x.Missing == 0 && x.Nodes > 0:
			return "No instances: no node meets its constraints"
		case x.Wanted == 0:
			return "No instances: its count is 0"
		}
		return fmt.Sprintf("%d desired; there is nothing to do", x.Wanted)
	}
	s := fmt.Sprintf("%d desired: %s", x.Wanted, strings.Join(parts, ", "))
	if x.Missing > 0 && len(x.Quota) > 0 {
		return s + "; the quota of the namespace leaves no room: " + strings.Join(x.Quota, ", ")
	}
	if x.Missing > 0 && x.Nodes == 0 {
		s += "; no node is ready"
	}
	return s
}

// whyGivenUp returns why what failed is not replaced.
func (a *explainer) whyGivenUp() string {
	switch {
	case a.job.Type == berth.TypeStream:
		return "the policy of its group does not launch it again"
	case a.job.PerNode():
		return "it can only run on its node, where the restart policy allows no more attempts"
	}
	return "the reschedule policy allows no more attempts"
}

// totals are the counts of all groups.
type totals struct {
	wanted, live, finished, missing, gaveUp, late, due, restarting, unlaunched, halted int
	first                                                                              time.Time // when the first is replaced that is replaced later
}

// add adds up the groups. placed and later are by group: how many a scheduler
// would place now, and when the next is replaced.
func (t *totals) add(groups []op.GroupExplanation, placed map[string]int, later map[string]time.Time) {
	for _, g := range groups {
		t.wanted, t.live, t.finished, t.missing = t.wanted+g.Wanted, t.live+g.Live, t.finished+g.Finished, t.missing+g.Missing
		t.gaveUp, t.late, t.due = t.gaveUp+g.GaveUp, t.late+g.Later, t.due+placed[g.Group]
		t.restarting, t.unlaunched, t.halted = t.restarting+g.Restarting, t.unlaunched+g.Unlaunched, t.halted+g.Halted
	}
	// The replacement that is due first is what the operator waits for.
	for _, at := range later {
		if t.first.IsZero() || at.Before(t.first) {
			t.first = at
		}
	}
}

// conclude sums up all groups in a verdict and a sentence.
func (a *explainer) conclude(placed map[string]int, stopping int, later map[string]time.Time) {
	x := a.x
	var t totals
	t.add(x.Groups, placed, later)
	say := func(verdict, format string, args ...any) {
		x.Verdict, x.Summary = verdict, fmt.Sprintf("Job %q: ", a.key)+fmt.Sprintf(format, args...)
	}
	deployment, failed := a.deployment(), a.failure()
	switch {
	// What needs an operator comes before what only takes time, and both before
	// what is done.
	case t.missing > 0 && stopping > 0:
		say(op.WhyStop, "%d of %d wait until allocations being stopped have freed their capacity", t.missing, t.wanted)
	case t.missing > 0:
		say(op.WhyRoom, "%d of %d %s no place%s", t.missing, t.wanted, verb(t.missing, "finds", "find"), suggestion(x.Groups))
	case a.stream != nil && a.stream.Pool != "":
		say(op.WhyRoom, "%d of %d placed; its submission waits: %s", t.live, t.wanted, a.stream.Pool)
	case t.due > 0 && a.snap.SchedulerConfig().PauseEvalBroker:
		say(op.WhyScheduler, "%d of %d will be placed when a scheduler runs; %s", t.due, t.wanted, brokerPaused)
	case t.due > 0:
		say(op.WhyScheduler, "%d of %d will be placed when a scheduler runs", t.due, t.wanted)
	case t.unlaunched > 0:
		say(op.WhySubmission, "%d of %d placed; %d %s launched when it is %s turn; its submission is in state %s", t.live, t.wanted,
			t.unlaunched, verb(t.unlaunched, "is", "are"), verb(t.unlaunched, "its", "their"), a.stream.State)
	case t.late > 0 && a.stream != nil:
		say(op.WhyTime, "%d of %d ended and will be launched again, the first at %s", t.late, t.wanted, stamp(t.first.UnixNano()))
	case t.late > 0:
		say(op.WhyTime, "%d of %d failed and will be replaced later, the first at %s, by the reschedule policy", t.late, t.wanted, stamp(t.first.UnixNano()))
	case t.gaveUp > 0:
		say(op.WhyGaveUp, "%d of %d failed and will not be replaced: %s", t.gaveUp, t.wanted, a.whyGivenUp())
	case t.halted > 0:
		say(op.WhyIncomplete, "%d of %d placed, and %d %s missing; %s", t.live, t.wanted, t.halted, verb(t.halted, "is", "are"), failed)
	case t.restarting > 0:
		say(op.WhyTime, "%d of %d placed; %d %s to start a task again, the first at %s, by the restart policy", t.live, t.wanted, t.restarting, verb(t.restarting, "waits", "wait"), stamp(a.restart.UnixNano()))
	case a.orders(say), a.wantsInput(&t, say):
	case deployment != "":
		say(op.WhyDeployment, "%d of %d placed; %s", t.live, t.wanted, deployment)
	default:
		a.concludeDone(&t, failed, say)
	}
}

// concludeDone says that nothing is left to do. failed is what is said of a
// deployment that has failed, "" if none has.
func (a *explainer) concludeDone(t *totals, failed string, say func(verdict, format string, args ...any)) {
	old := 0 // of an older version
	for al := range a.snap.AllocsOf(a.key) {
		if al.Live() && al.Job.UID == a.job.UID && al.Job.Version != a.job.Version {
			old++
		}
	}
	switch {
	case t.wanted == 0 && a.job.PerNode() && slices.ContainsFunc(a.job.TaskGroups, func(g *berth.TaskGroup) bool { return g.Count > 0 }):
		say(op.WhyNothing, "no node meets its constraints; it will run on every node that does")
	case t.wanted == 0:
		say(op.WhyNothing, "there is nothing to run: every count is 0")
	case failed != "" && old > 0:
		say(op.WhyIncomplete, "%d of %d placed, %d of them of an older version; %s", t.live, t.wanted, old, failed)
	case t.finished > 0 && t.live == 0:
		say(op.WhyFinished, "%d of %d finished; there is nothing to do", t.finished, t.wanted)
	case t.finished > 0:
		say(op.WhyRuns, "%d of %d placed and %d finished; there is nothing to do", t.live, t.wanted, t.finished)
	case t.live < t.wanted:
		say(op.WhyIncomplete, "%d of %d placed, and %d %s missing, which a scheduler would not place now", t.live, t.wanted, t.wanted-t.live, verb(t.wanted-t.live, "is", "are"))
	case a.old > 0:
		say(op.WhyNode, "%d of %d placed; %s", t.live, t.wanted, oldText(a.old))
	case failed != "":
		say(op.WhyRuns, "%d of %d placed; there is nothing to do, although %s", t.live, t.wanted, failed)
	default:
		say(op.WhyRuns, "%d of %d placed; there is nothing to do", t.live, t.wanted)
	}
}

// oldText says why n instances are not replaced by the newest version.
func oldText(n int) string {
	return fmt.Sprintf("%d %s the tasks of an older version until %s ready and eligible and %s drivers healthy", n, verb(n, "keeps", "keep"), verb(n, "its node is", "their nodes are"), verb(n, "its", "their"))
}

// suggestion returns the best changes for the first group that needs one.
func suggestion(groups []op.GroupExplanation) string {
	for _, g := range groups {
		switch {
		case g.Missing == 0:
		case len(g.Quota) > 0 && len(g.Changes) == 0:
			return ": the quota of the namespace leaves no room: " + strings.Join(g.Quota, ", ")
		case len(g.Changes) == 0:
			return ""
		case len(g.Changes) == 1:
			return ". What would place it: " + g.Changes[0].Text
		default:
			return ". What would place it: " + g.Changes[0].Text + ", or " + g.Changes[1].Text
		}
	}
	return ""
}
