// Package explain answers "why?": why a job's instances wait, what is the
// smallest change that would place them, why those that run are where they
// are, and what became of each evaluation from the first to the last. It is a
// function of a snapshot: what it proposes, it has tried in a copy of that
// snapshot, with the scheduler itself. So it cannot disagree with it, and it
// changes nothing.
//
// An explanation is never empty. It is for people, and may cost more than the
// decision it is about.
package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth"
	"berth/internal/state"
	"berth/op"
)

// Where returns the quasi-status of an open evaluation, "" if it is not known.
type Where func(berth.EvalID) string

// Job explains how a job is. It need not exist any more.
func Job(snap *state.Snapshot, key berth.JobKey, where Where, now time.Time) *op.Explanation {
	x := &op.Explanation{Namespace: key.Namespace, JobID: key.ID, SnapshotIndex: snap.Index, Waits: []op.Wait{}, Groups: []op.GroupExplanation{}}
	j := snap.Job(key)
	waits(x, snap, key, j, where, now)
	if j == nil {
		x.Verdict, x.Summary = op.WhyPurged, purgedText(snap, key)
		return x
	}
	x.JobVersion = j.Version
	x.JobStatus, _ = snap.Summary(key).Status(j)
	switch {
	case j.Stop:
		x.Verdict = op.WhyStopped
		x.Summary = fmt.Sprintf("Job %q was stopped: version %d says so, since %s. %s", key, j.Version, stamp(j.SubmitTime), remainsText(snap, key))
	case !j.Schedulable():
		x.Verdict = op.WhyBegets
		x.Summary = fmt.Sprintf("Job %q runs nothing itself: it is a template of jobs that are launched from it", key)
	default:
		(&explainer{sandbox: sandbox{snap: snap, key: key, now: now}, job: j, x: x}).groups()
	}
	return x
}

// purgedText says what is left of a job that is gone.
func purgedText(snap *state.Snapshot, key berth.JobKey) string {
	return fmt.Sprintf("There is no job %q any more: it was purged. %s", key, remainsText(snap, key))
}

// remainsText says what still runs of a job that should not.
func remainsText(snap *state.Snapshot, key berth.JobKey) string {
	stopping, all := 0, 0
	for a := range snap.AllocsOf(key) {
		all++
		if !a.Ended() {
			stopping++
		}
	}
	switch {
	case all == 0:
		return "Nothing of it ever ran, or it was collected"
	case stopping == 0 && all == 1:
		return "Its only allocation has ended"
	case stopping == 0:
		return fmt.Sprintf("All of its %s have ended", count(all, "allocation"))
	}
	return fmt.Sprintf("%d of its %s %s not ended yet", stopping, count(all, "allocation"), verb(stopping, "has", "have"))
}

func stamp(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339) }

// explainer explains a job that should run.
type explainer struct {
	sandbox
	job     *berth.Job
	x       *op.Explanation
	decided sandbox // as the scheduler leaves it
	stops   map[berth.AllocID]bool
}

func (a *explainer) groups() {
	after, d, ok := a.decide()
	if !ok { // the snapshot breaks a promise; say what is stored
		a.x.Verdict, a.x.Summary = op.WhyFailed, fmt.Sprintf("Job %q cannot be decided on state %d: its plan does not fit it", a.key, a.snap.Index)
		return
	}
	a.decided, a.stops = after, map[berth.AllocID]bool{}
	for _, s := range d.Plan.Stop {
		a.stops[s.ID] = s.FollowupEval.IsZero()
	}
	queued := d.Plan.End.Queued
	live := map[string][]*berth.Alloc{}
	for al := range a.snap.AllocsOf(a.key) {
		if al.Job.UID == a.job.UID && (al.Live() || al.Wanted()) {
			live[al.Group.Name] = append(live[al.Group.Name], al)
		}
	}
	placed := map[string]int{}
	for _, p := range d.Plan.Place {
		placed[a.job.TaskGroups[p.Group].Name]++
	}
	later := map[string]time.Time{}
	for _, l := range d.Plan.End.Later {
		for _, s := range d.Plan.Stop {
			if s.FollowupEval == l.ID {
				a.noteDue(later, a.snap.Alloc(s.ID), l.WaitUntil)
			}
		}
	}
	stopping, searched := 0, 0
	for i, g := range a.job.TaskGroups {
		x := a.group(g, live[g.Name], queued[g.Name], placed[g.Name], later)
		turns := 0
		if c := d.Counts[g.Name]; a.job.PerNode() && c != nil { // one on each node that will do, or so many
			x.Wanted, turns = c.Place+c.Ignore+c.Update+c.Later, c.Later
			if x.Wanted == 0 && g.Count > 0 {
				(&finder{sandbox: a.decided, job: a.job, index: i, group: g}).survey(&x)
			}
		}
		if x.Missing > 0 {
			f := &finder{sandbox: a.decided, job: a.job, index: i, group: g, queued: queued}
			if all := f.survey(&x); searched < groupsSearched {
				searched++
				f.search(&x, all)
			}
			if len(x.Changes) > 0 && x.Changes[0].Stopping > 0 {
				stopping++
			}
		}
		x.Summary = groupSummary(&x, placed[g.Name], later[g.Name])
		if turns > 0 {
			x.Summary += fmt.Sprintf("; %d still %s the tasks of an older version, until the update comes to %s", turns, verb(turns, "has", "have"), verb(turns, "it", "them"))
		}
		a.x.Groups = append(a.x.Groups, x)
	}
	a.conclude(placed, stopping, later)
}

func (a *explainer) noteDue(later map[string]time.Time, al *berth.Alloc, at int64) {
	if al == nil {
		return
	}
	if t := time.Unix(0, at); later[al.Group.Name].IsZero() || t.Before(later[al.Group.Name]) {
		later[al.Group.Name] = t
	}
}

// groupsSearched bounds the groups for which changes are tried: what helps one
// mostly helps the next, and a job can have thousands.
const groupsSearched = 8

// allocsKept bounds the allocations of a group that are explained one by one.
const allocsKept = 10

func (a *explainer) group(g *berth.TaskGroup, allocs []*berth.Alloc, missing, placed int, later map[string]time.Time) op.GroupExplanation {
	x := op.GroupExplanation{Group: g.Name, Wanted: g.Count, Missing: missing, Allocs: []op.AllocReason{}}
	slices.SortFunc(allocs, func(p, q *berth.Alloc) int {
		return int(int64(q.CreateIndex)-int64(p.CreateIndex))*2 + int(p.Index) - int(q.Index)
	})
	for _, al := range allocs {
		switch {
		case al.Live():
			x.Live++
			if len(x.Allocs) < allocsKept {
				x.Allocs = append(x.Allocs, reason(a.snap, al))
			}
		case al.Client == berth.ClientComplete && (a.job.Type == berth.TypeBatch || a.job.Type == berth.TypeSysbatch):
			x.Finished++
		case al.Client != berth.ClientFailed:
		case a.hasFollowup(al):
			x.Later++
			a.noteDue(later, al, a.snap.Eval(al.Rest().FollowupEval).WaitUntil)
		case !later[g.Name].IsZero():
			x.Later++
		case a.job.PerNode():
			if !a.stops[al.ID] {
				x.GaveUp++
			}
		case al.Rest().Next.IsZero() && placed+missing == 0 && int64(al.Index) < int64(g.Count):
			x.GaveUp++
		}
	}
	return x
}

// hasFollowup says whether an evaluation that is still to come replaces a failed
// allocation.
func (a *explainer) hasFollowup(al *berth.Alloc) bool {
	e := a.snap.Eval(al.Rest().FollowupEval)
	return e != nil && !e.Terminal() && e.WaitUntil > a.now.UnixNano()
}

func groupSummary(x *op.GroupExplanation, placed int, later time.Time) string {
	var parts []string
	add := func(n int, format string, args ...any) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, fmt.Sprintf(format, args...)))
		}
	}
	add(x.Live, "%s", verb(x.Live, "is there", "are there"))
	add(x.Finished, "finished")
	add(placed, "%s a place as soon as a scheduler looks", verb(placed, "has", "have"))
	add(x.Later, "failed and %s replaced at %s", verb(x.Later, "is", "are"), stamp(later.UnixNano()))
	add(x.GaveUp, "failed and %s not replaced: the reschedule policy allows no other", verb(x.GaveUp, "is", "are"))
	add(x.Missing, "%s no place", verb(x.Missing, "finds", "find"))
	if len(parts) == 0 {
		switch {
		case x.Wanted == 0 && x.Missing == 0 && x.Nodes > 0:
			return "Nothing is wanted: no node meets its conditions"
		case x.Wanted == 0:
			return "Nothing is wanted: its count is 0"
		}
		return fmt.Sprintf("%d wanted, and there is nothing to do", x.Wanted)
	}
	s := fmt.Sprintf("%d wanted: %s", x.Wanted, strings.Join(parts, ", "))
	if x.Missing > 0 && x.Nodes == 0 {
		s += "; no node is ready"
	}
	return s
}

// conclude says in a word and a sentence what all groups come to.
func (a *explainer) conclude(placed map[string]int, stopping int, later map[string]time.Time) {
	x := a.x
	var wanted, live, finished, missing, gaveUp, late, due int
	for _, g := range x.Groups {
		wanted, live, finished, missing = wanted+g.Wanted, live+g.Live, finished+g.Finished, missing+g.Missing
		gaveUp, late, due = gaveUp+g.GaveUp, late+g.Later, due+placed[g.Group]
	}
	var first time.Time
	for _, t := range later {
		if first.IsZero() || t.Before(first) {
			first = t
		}
	}
	say := func(verdict, format string, args ...any) {
		x.Verdict, x.Summary = verdict, fmt.Sprintf("Job %q: ", a.key)+fmt.Sprintf(format, args...)
	}
	switch {
	case missing > 0 && stopping > 0:
		say(op.WhyStop, "%d of %d wait until what is being stopped has given its room back", missing, wanted)
	case missing > 0:
		say(op.WhyRoom, "%d of %d %s no place%s", missing, wanted, verb(missing, "finds", "find"), suggestion(x.Groups))
	case due > 0:
		say(op.WhyScheduler, "there is a place for the %d of %d that %s missing; a scheduler has not looked yet", due, wanted, verb(due, "is", "are"))
	case late > 0:
		say(op.WhyTime, "%d of %d failed and %s replaced later, first at %s, as the reschedule policy has it", late, wanted, verb(late, "is", "are"), stamp(first.UnixNano()))
	case gaveUp > 0:
		why := "the reschedule policy allows no other"
		if a.job.PerNode() {
			why = "its node is the only place for it, and the agent there tried as often as the restart policy allows"
		}
		say(op.WhyGaveUp, "%d of %d failed and %s not replaced: %s", gaveUp, wanted, verb(gaveUp, "is", "are"), why)
	case wanted == 0 && a.job.PerNode() && slices.ContainsFunc(a.job.TaskGroups, func(g *berth.TaskGroup) bool { return g.Count > 0 }):
		say(op.WhyNothing, "no node meets its conditions; it runs on the first that does")
	case wanted == 0:
		say(op.WhyNothing, "nothing is wanted: every count is 0")
	case finished > 0 && live == 0:
		say(op.WhyFinished, "%d of %d finished; there is nothing to do", finished, wanted)
	case finished > 0:
		say(op.WhyRuns, "%d of %d %s there and %d finished; there is nothing to do", live, wanted, verb(live, "is", "are"), finished)
	default:
		say(op.WhyRuns, "%d of %d %s there; there is nothing to do", live, wanted, verb(live, "is", "are"))
	}
}

// suggestion says which change would help the first group that needs one.
func suggestion(groups []op.GroupExplanation) string {
	for _, g := range groups {
		switch {
		case g.Missing == 0:
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

// reason says why an allocation is where it is.
func reason(snap *state.Snapshot, a *berth.Alloc) op.AllocReason {
	r := op.AllocReason{AllocID: a.ID, Name: a.Name(), NodeID: a.NodeID, NodeName: nodeName(snap, a.NodeID), Score: float64(a.Score), Scores: map[string]float64{}}
	if a.Job.PerNode() {
		r.Text = "the job runs on every node that meets its conditions, and this one does"
		return r
	}
	var m *berth.AllocMetric
	if x := snap.Explanation(a.EvalID); x != nil {
		m = x.Groups[a.Group.Name]
	}
	if m == nil {
		r.Text = fmt.Sprintf("its node scored %.3f when it was placed; what it was compared with is no longer known", r.Score)
		return r
	}
	r.Nodes = m.NodesEvaluated
	best := true // of the first instance that was placed then, which these scores are about
	for i, s := range m.ScoreMetaData {
		if s.NodeID == a.NodeID {
			r.Scores, best = s.Scores, i == 0
			continue
		}
		if r.RunnerUp.IsZero() {
			r.RunnerUp, r.RunnerUpName, r.RunnerUpScore = s.NodeID, nodeName(snap, s.NodeID), s.NormScore
		}
	}
	looked := fmt.Sprintf("of %s looked at", count(r.Nodes, "node"))
	switch {
	case r.RunnerUp.IsZero():
		r.Text = fmt.Sprintf("the only one %s that met the conditions and had room; score %.3f", looked, r.Score)
	case best && len(r.Scores) > 0:
		r.Text = fmt.Sprintf("the best %s: score %.3f (%s); next came %s with %.3f", looked, r.Score, scores(r.Scores), r.RunnerUpName, r.RunnerUpScore)
	default:
		r.Text = fmt.Sprintf("the best %s that others placed with it left: score %.3f; for the first of them %s scored %.3f", looked, r.Score, r.RunnerUpName, r.RunnerUpScore)
	}
	return r
}

func nodeName(snap *state.Snapshot, id berth.NodeID) string {
	if n := snap.Node(id); n != nil {
		return n.Name
	}
	return "a node that is gone"
}

// scores lists what scorers had something to say.
func scores(m map[string]float64) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if m[name] != 0 {
			out = append(out, fmt.Sprintf("%s %.3f", name, m[name]))
		}
	}
	if len(out) == 0 {
		return "no scorer had anything to say"
	}
	return strings.Join(out, ", ")
}
