// Package explain answers "why?": why a job's instances wait, which smallest
// change would place them, why running ones are where they are, and what became
// of each evaluation. It is a function of a snapshot. Every change it proposes
// was tried in a copy of that snapshot with the real scheduler, so the two
// cannot disagree, and nothing is modified.
//
// An explanation is never empty. It is meant for people, and may cost more than
// the decision it explains.
package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth"
	"berth/internal/state"
	"berth/internal/streams/submit"
	"berth/op"
)

// Where returns the quasi-status of an open evaluation, "" if unknown.
type Where func(berth.EvalID) string

// Job explains the state of a job, which may no longer exist.
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
		x.Summary = fmt.Sprintf("Job %q was stopped at %s, by version %d. %s", key, stamp(j.SubmitTime), j.Version, remainsText(snap, key))
	case !j.Schedulable():
		x.Verdict = op.WhyBegets
		x.Summary = fmt.Sprintf("Job %q runs nothing itself: it is a template for the jobs launched from it", key)
	case j.Type == berth.TypeStream && streamOver(x, snap, j):
	default:
		bound := newWork(snap, j)
		if err := bound.run(func() {
			(&explainer{sandbox: sandbox{snap: snap, key: key, now: now, work: bound}, job: j, x: x}).groups()
		}); err != nil {
			x.Groups = []op.GroupExplanation{}
			x.Verdict, x.Summary = op.WhyFailed, fmt.Sprintf("Job %q takes too much work to schedule: %v. Make its conditions fewer or shorter", key, err)
		}
	}
	if q, ok := snap.Quarantined(j); ok {
		x.Summary += fmt.Sprintf(". The job is quarantined, because deciding about it took too much work (evaluation %s): it is tried again at %s, or once it is changed",
			q.Failed.ID.Short(), stamp(q.Next.WaitUntil))
	}
	return x
}

// purgedText describes a job that was purged.
func purgedText(snap *state.Snapshot, key berth.JobKey) string {
	return fmt.Sprintf("Job %q no longer exists: it was purged. %s", key, remainsText(snap, key))
}

// remainsText describes what is left of a job that should not run.
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
		return "It never had allocations, or they were garbage-collected"
	case stopping == 0 && all == 1:
		return "Its only allocation has ended"
	case stopping == 0:
		return fmt.Sprintf("All of its %s have ended", count(all, "allocation"))
	}
	return fmt.Sprintf("%d of its %s %s not ended yet", stopping, count(all, "allocation"), verb(stopping, "has", "have"))
}

// stamp returns a time given in Unix nanoseconds, in UTC and to the second.
func stamp(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339) }

// explainer explains a job that should run.
type explainer struct {
	sandbox
	job     *berth.Job
	x       *op.Explanation // the answer
	decided sandbox         // after scheduling
	stops   map[berth.AllocID]bool
	restart time.Time         // when the first task that waits for it is started again; zero: none waits
	rollout *berth.Deployment // the deployment of the job's version that is in progress or has failed, nil if there is none
	stream  *submit.Outlook   // of a stream job

	compared bool               // the algorithms were
	better   *op.OtherAlgorithm // the one that places more of the job from scratch, nil: none does
	left     map[string]int     // instances that it leaves without a place, by group
	freshly  map[string]int     // the same for the algorithm in force
	old      int                // instances of an older version whose nodes take no new ones now
}

// groups explains each group by what the scheduler would decide now, and then
// the job as a whole.
func (a *explainer) groups() {
	after, d, ok := a.decide()
	if !ok { // the snapshot violates an invariant
		a.x.Verdict, a.x.Summary = op.WhyFailed, fmt.Sprintf("Job %q cannot be scheduled at index %d: its plan is refused", a.key, a.snap.Index)
		return
	}
	a.decided, a.stops = after, map[berth.AllocID]bool{}
	a.rollout = a.deployed()
	if row := a.snap.StreamOf(a.key); a.job.Type == berth.TypeStream && row != nil {
		o := submit.OutlookOf(a.snap, row, a.now)
		a.stream = &o
	}
	for _, s := range d.Plan.Stop {
		a.stops[s.ID] = s.FollowupEval.IsZero()
	}
	queued := d.Plan.End.Queued
	// Allocations of an earlier incarnation of the job do not count.
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
	// Failed allocations that this decision would replace later.
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
		turns, old := 0, 0
		if c := d.Counts[g.Name]; a.job.PerNode() && c != nil { // count instances on each feasible node
			x.Wanted, turns, old = c.Place+c.Ignore+c.Update+c.Later, c.Later, c.Old
			if x.Wanted == 0 && g.Count > 0 {
				(&finder{sandbox: a.decided, job: a.job, index: i, group: g}).survey(&x)
			}
		}
		a.waitsFor(&x, d.Waits[g.Name])
		// Searching for changes means deciding again and again, so only the
		// first groups get it.
		if x.Missing > 0 {
			f := &finder{sandbox: a.decided, job: a.job, index: i, group: g, queued: queued}
			if m := d.Plan.End.Failed[g.Name]; m != nil {
				x.Quota = m.QuotaExhausted
			}
			if all := f.survey(&x); searched < groupsSearched {
				searched++
				f.search(&x, all)
			}
			if len(x.Changes) > 0 && x.Changes[0].Stopping > 0 {
				stopping++
			}
		}
		x.Summary = a.groupSummary(&x, placed[g.Name], later[g.Name])
		x.Summary += orderText(x.WaitsFor) + inputsText(x.Inputs)
		if x.Missing > 0 {
			a.hint(&x, g)
		}
		if turns > 0 {
			x.Summary += fmt.Sprintf("; %d still %s the tasks of an older version until the update reaches %s", turns, verb(turns, "has", "have"), verb(turns, "it", "them"))
		}
		if old > 0 {
			x.Summary += "; " + oldText(old)
			a.old += old
		}
		a.x.Groups = append(a.x.Groups, x)
	}
	a.conclude(placed, stopping, later)
}

// noteDue lowers the time at which a group's next replacement is due. at is in
// Unix nanoseconds; al is the failed allocation, nil if it is gone.
func (a *explainer) noteDue(later map[string]time.Time, al *berth.Alloc, at int64) {
	if al == nil {
		return
	}
	if t := time.Unix(0, at); later[al.Group.Name].IsZero() || t.Before(later[al.Group.Name]) {
		later[al.Group.Name] = t
	}
}

// groupsSearched is the limit of groups for which changes are searched: what
// helps one group mostly helps the next, and a job can have thousands.
const groupsSearched = 8

// allocsKept is the limit of a group's allocations that are explained one by
// one.
const allocsKept = 10

// group counts the allocations of a group by how they stand. missing and placed
// are of the decision that a scheduler would make now; later takes the time of
// the next replacement.
func (a *explainer) group(g *berth.TaskGroup, allocs []*berth.Alloc, missing, placed int, later map[string]time.Time) op.GroupExplanation {
	x := op.GroupExplanation{Group: g.Name, Wanted: g.Count, Missing: missing, Allocs: []op.AllocReason{}}
	// The newest first: only the first few are explained one by one.
	slices.SortFunc(allocs, func(p, q *berth.Alloc) int {
		return int(int64(q.CreateIndex)-int64(p.CreateIndex))*2 + int(p.Index) - int(q.Index)
	})
	for _, al := range allocs {
		switch {
		case al.Live():
			x.Live++
			if at := startsAgain(al, a.now); !at.IsZero() {
				if x.Restarting++; a.restart.IsZero() || at.Before(a.restart) {
					a.restart = at
				}
			}
			if len(x.Allocs) < allocsKept {
				x.Inputs = append(x.Inputs, inputs(al)...)
				x.Allocs = append(x.Allocs, reason(a.snap, al))
			}
		case a.stream != nil: // its controller tells what becomes of what ended
		case al.Client == berth.ClientComplete && a.job.Finite(al.Group):
			x.Finished++
		case al.Client != berth.ClientFailed:
		case a.halts(al):
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
	a.streamCounts(&x, later)
	if a.failedWith(g.Name) && !a.job.PerNode() {
		x.Halted = max(0, x.Wanted-x.Live-x.Later-x.GaveUp-placed-missing)
	}
	return x
}

// hasFollowup reports whether an evaluation due in the future replaces a failed
// allocation.
func (a *explainer) hasFollowup(al *berth.Alloc) bool {
	e := a.snap.Eval(al.Rest().FollowupEval)
	return e != nil && !e.Terminal() && e.WaitUntil > a.now.UnixNano()
}

// reason returns why an allocation is on its node.
func reason(snap *state.Snapshot, a *berth.Alloc) op.AllocReason {
	r := op.AllocReason{AllocID: a.ID, Name: a.Name(), NodeID: a.NodeID, NodeName: nodeName(snap, a.NodeID), Score: float64(a.Score), Scores: map[string]float64{}}
	if a.Job.PerNode() {
		r.Text = "the job runs on every node that meets its constraints, as this one did when it was placed"
		return r
	}
	// Explanations are kept for a while only; the score is part of the
	// allocation.
	var m *berth.AllocMetric
	if x := snap.Explanation(a.EvalID); x != nil {
		m = x.Groups[a.Group.Name]
	}
	if m == nil {
		r.Text = fmt.Sprintf("its node scored %.3f when it was placed; the other candidates are no longer known", r.Score)
		return r
	}
	r.Nodes = m.NodesEvaluated
	// The other candidates are known for the first instance of that decision.
	first := false
	if own := snap.Explanation(a.EvalID).Of(a).ScoreMetaData[0]; len(own.Scores) > 0 {
		r.Scores, first = own.Scores, true
	}
	for _, s := range m.ScoreMetaData {
		if r.RunnerUp.IsZero() && s.NodeID != a.NodeID {
			r.RunnerUp, r.RunnerUpName, r.RunnerUpScore = s.NodeID, nodeName(snap, s.NodeID), s.NormScore
		}
	}
	of := "of " + count(r.Nodes, "node")
	switch {
	case r.RunnerUp.IsZero():
		r.Text = fmt.Sprintf("the only one %s that met the constraints and had free capacity; score %.3f", of, r.Score)
	case first:
		r.Text = fmt.Sprintf("the best %s: score %.3f (%s); the next was %s with %.3f", of, r.Score, scores(r.Scores, algorithmOf(snap, a)), r.RunnerUpName, r.RunnerUpScore)
	default:
		r.Text = fmt.Sprintf("the best %s for a later instance of its group: score %.3f; for the first instance, %s scored %.3f", of, r.Score, r.RunnerUpName, r.RunnerUpScore)
	}
	return r
}

// algorithmOf returns the algorithm that placed an allocation. It is not stored:
// if the settings changed since, it is "fit", which is true of all.
func algorithmOf(snap *state.Snapshot, a *berth.Alloc) string {
	changed := snap.SchedulerConfig().ModifyIndex
	if p := snap.NodePool(a.Job.NodePool); p != nil {
		changed = max(changed, p.ModifyIndex)
	}
	if changed > a.CreateIndex {
		return "fit"
	}
	return snap.SchedulerConfigFor(a.Job.NodePool).SchedulerAlgorithm
}

// nodeName returns the name of a node, or words for one that was deleted.
func nodeName(snap *state.Snapshot, id berth.NodeID) string {
	if n := snap.Node(id); n != nil {
		return n.Name
	}
	return "a node that is gone"
}

// scores lists the scorers that applied. The API calls the fit "binpack" whatever
// the algorithm, as Nomad's does; a person is told the algorithm.
func scores(m map[string]float64, algorithm string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if m[name] != 0 {
			said := name
			if name == berth.AlgorithmBinpack && algorithm != "" {
				said = algorithm
			}
			out = append(out, fmt.Sprintf("%s %.3f", said, m[name]))
		}
	}
	if len(out) == 0 {
		return "no scorer applied"
	}
	return strings.Join(out, ", ")
}
