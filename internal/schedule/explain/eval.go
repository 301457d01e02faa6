package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"berth"
	"berth/internal/state"
	"berth/op"
)

// Eval explains how an evaluation ended, or why it has not.
func Eval(snap *state.Snapshot, e *berth.Eval, where Where, now time.Time) *op.Explanation {
	j := snap.Job(e.Key())
	same := j != nil && j.UID == e.JobUID
	x := &op.Explanation{Namespace: e.Namespace, JobID: e.JobID, SnapshotIndex: snap.Index, Waits: []op.Wait{}, Groups: []op.GroupExplanation{}}
	if same {
		x = Job(snap, e.Key(), where, now)
	}
	// The counts are of this evaluation alone, the rest is of the job now.
	x.EvalID = e.ID
	for _, s := range Trace(snap, e.Key(), &e.JobUID) {
		if s.Eval.ID == e.ID {
			x.Placed, x.Updated, x.Stopped = len(s.Placed), len(s.Updated), len(s.Stopped)
		}
	}
	x.Failed = e.FailedTGAllocs
	// What has become of the job since limits what can still be said.
	gone := ""
	if e.Type == berth.TypeCore {
		gone = ". It was internal maintenance"
	} else if !same {
		gone = ". Its job no longer exists"
	} else if j.Stop {
		gone = ". Its job has since been stopped"
	}
	id := e.ID.Short()
	say := func(verdict, format string, args ...any) {
		x.Verdict, x.Summary = verdict, fmt.Sprintf("Evaluation %s ", id)+fmt.Sprintf(format, args...)
	}
	// The job's own summary; say replaces it.
	asItIs := x.Summary
	switch e.Status {
	case berth.EvalCanceled:
		say(op.WhyCanceled, "was canceled: %s%s", cmp.Or(e.StatusDescription, "superseded by a newer evaluation"), gone)
	case berth.EvalFailed:
		say(op.WhyFailed, "failed: %s. It was delivered to a scheduler %s%s%s", cmp.Or(e.StatusDescription, "no reason was recorded"), times(e.Timeline.Deliveries), successorText(snap, e), gone)
	case berth.EvalComplete:
		completed(x, snap, e, gone, say)
	default:
		if e.Type == berth.TypeCore {
			w := wait(snap, e, nil, where, now)
			say(op.WhyScheduler, "is internal maintenance, which deletes what is no longer needed: %s", w.Why)
			break
		}
		if !same {
			say(op.WhyScheduler, "waits for a scheduler, which will stop what is left of a job that no longer exists")
			break
		}
		w := wait(snap, e, j, where, now)
		switch {
		case !w.Until.IsZero():
			say(op.WhyTime, "is %s until %s: %s", e.Status, w.Until.Format(time.RFC3339), w.Why)
		case e.Status == berth.EvalBlocked:
			say(cmp.Or(x.Verdict, op.WhyRoom), "is blocked: %s. %s", w.Why, asItIs)
		default:
			say(op.WhyScheduler, "is open: %s. If it were decided now: %s", w.Why, asItIs)
		}
	}
	return x
}

// completed adds what an evaluation did, and what became of the instances it
// could not place.
func completed(x *op.Explanation, snap *state.Snapshot, e *berth.Eval, gone string, say func(string, string, ...any)) {
	// Only what is not 0 is told.
	var did []string
	for _, d := range []struct {
		n    int
		what string
	}{{x.Placed, "placed"}, {x.Updated, "updated in place"}, {x.Stopped, "stopped"}} {
		if d.n > 0 {
			did = append(did, fmt.Sprintf("%s %d", d.what, d.n))
		}
	}
	failed := 0
	for _, m := range e.FailedTGAllocs {
		failed += m.CoalescedFailures + 1
	}
	later := laterText(snap, e)
	switch {
	case len(did) == 0 && failed == 0 && later != "":
		say(op.WhyDone, "is complete: failed allocations will be replaced later%s%s", later, gone)
		return
	case len(did) == 0 && failed == 0:
		say(op.WhyNothing, "is complete: it found nothing to do%s", cmp.Or(gone, ". "+x.Summary))
		return
	case failed == 0:
		say(op.WhyDone, "is complete: it %s; nothing was left to do%s%s", strings.Join(did, ", "), later, gone)
		return
	}
	text := fmt.Sprintf("is complete: it %s; %s found no place", cmp.Or(strings.Join(did, ", "), "placed nothing"), count(failed, "allocation"))
	// Something is missing: is anybody waiting for capacity to place it?
	b := snap.Eval(e.BlockedEval)
	switch {
	case gone != "":
		say(op.WhyDone, "%s%s", text, gone)
	case b != nil && !b.Terminal():
		verdict := x.Verdict
		if verdict != op.WhyRoom && verdict != op.WhyStop {
			verdict = op.WhyScheduler // there is capacity now, about to be used
		}
		say(verdict, "%s. Evaluation %s waits for capacity. %s", text, b.ID.Short(), x.Summary)
	default:
		say(op.WhyDone, "%s. Later evaluations dealt with that. %s", text, x.Summary)
	}
}

// laterText names the evaluation that does what an evaluation left for later.
func laterText(snap *state.Snapshot, e *berth.Eval) string {
	for x := range snap.EvalsOf(e.Key()) {
		if x.PreviousEval == e.ID && x.WaitUntil > 0 && !x.Terminal() {
			return fmt.Sprintf(". Evaluation %s follows at %s", x.ID.Short(), stamp(x.WaitUntil))
		}
	}
	return ""
}

// successorText names the evaluation that retries a failed one.
func successorText(snap *state.Snapshot, e *berth.Eval) string {
	for _, id := range []berth.EvalID{e.NextEval, e.BlockedEval} {
		switch x := snap.Eval(id); {
		case x == nil:
		case x.Terminal():
			return fmt.Sprintf(". Evaluation %s retried it and is %s", id.Short(), x.Status)
		case x.WaitUntil > 0:
			return fmt.Sprintf(". Evaluation %s retries it at %s", id.Short(), stamp(x.WaitUntil))
		default:
			return fmt.Sprintf(". Evaluation %s retries it", id.Short())
		}
	}
	return ". No evaluation retries it"
}

// times returns how often something happened, in words.
func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// waits lists the open evaluations of a job's newest incarnation, or of all
// incarnations if the job is gone.
func waits(x *op.Explanation, snap *state.Snapshot, key berth.JobKey, j *berth.Job, where Where, now time.Time) {
	var open []*berth.Eval
	for e := range snap.EvalsOf(key) {
		if !e.Terminal() && (j == nil || e.JobUID == j.UID) {
			open = append(open, e)
		}
	}
	byAge(open)
	for _, e := range open {
		x.Waits = append(x.Waits, wait(snap, e, j, where, now))
	}
}

// wait returns what an open evaluation waits for.
func wait(snap *state.Snapshot, e *berth.Eval, j *berth.Job, where Where, now time.Time) op.Wait {
	w := op.Wait{EvalID: e.ID, TriggeredBy: e.TriggeredBy, Status: e.Status, QuasiStatus: where(e.ID)}
	if e.WaitUntil > now.UnixNano() {
		w.Until = time.Unix(0, e.WaitUntil).UTC()
	}
	previous := snap.Eval(e.PreviousEval)
	switch {
	case !w.Until.IsZero() && e.TriggeredBy == berth.TriggerAllocFailure:
		w.Why = replacesText(snap, e, j)
	case !w.Until.IsZero() && e.TriggeredBy == berth.TriggerFailedFollowUp && previous != nil:
		w.Why = fmt.Sprintf("it retries evaluation %s, which failed: %s", previous.ID.Short(), previous.StatusDescription)
	case !w.Until.IsZero() && e.TriggeredBy == berth.TriggerRollingUpdate:
		w.Why = "it continues the update then, with at most max_parallel nodes at a time"
	case !w.Until.IsZero():
		w.Why = "it was scheduled for that time"
	case w.QuasiStatus == "applying":
		w.Why = "its plan is being applied"
	case w.QuasiStatus == "scheduling":
		w.Why = "a scheduler is working on it"
	case w.QuasiStatus == "delayed":
		w.Why = "a scheduler returned it; it is delivered again after a delay"
	case e.Status == berth.EvalBlocked && e.TriggeredBy == berth.TriggerMaxPlanAttempts:
		w.Why = "its plans were refused too often; it is retried after a delay, or when a node changes"
	case e.Status == berth.EvalBlocked:
		w.Why = "it waits until a node joins, changes or has free capacity"
		if !e.NodeID.IsZero() {
			w.Why = "it waits until node " + nodeName(snap, e.NodeID) + " changes or has free capacity"
		}
		if q := e.QuotaLimitReached; q != "" && e.Missed != nil && e.Missed.QuotaOnly {
			w.Why = fmt.Sprintf("it waits until quota %q has room", q)
		} else if q != "" {
			w.Why += fmt.Sprintf(", and until quota %q has room", q)
		}
		if lacks := exhausted(e); len(lacks) > 0 {
			w.Why += "; exhausted: " + strings.Join(lacks, ", ")
		}
	case snap.SchedulerConfig().PauseEvalBroker:
		w.Why = brokerPaused
	default:
		w.Why = "it waits for a scheduler"
	}
	return w
}

// exhausted returns what nodes had too little of for a blocked evaluation, and
// who holds a port that it needs.
func exhausted(e *berth.Eval) (out []string) {
	for _, m := range e.FailedTGAllocs {
		for _, s := range m.Shortages {
			name := s.Dimension
			if s.Holder != "" {
				name += " (held by " + s.Holder + ")"
			}
			out = append(out, name)
		}
	}
	if out == nil && e.Missed != nil { // evaluations of older builds have no more
		out = slices.Clone(e.Missed.Dimensions)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// replacesText names the failed allocations that an evaluation replaces, and
// the policy that delays it.
func replacesText(snap *state.Snapshot, e *berth.Eval, j *berth.Job) string {
	var names []string
	policy := ""
	for a := range snap.AllocsOf(e.Key()) {
		if a.Rest().FollowupEval != e.ID {
			continue
		}
		names = append(names, a.Name())
		if j == nil {
			continue
		}
		g := j.Group(a.Group.Name)
		if g == nil || g.ReschedulePolicy == nil {
			continue
		}
		// Attempts are counted over all allocations that the instance has had.
		attempt := 1
		if r := snap.Reschedules(j.UID, g.Name, a.Index); r != nil {
			attempt = r.Count + 1
		}
		policy = fmt.Sprintf("; the reschedule policy delays attempt %d (delay %s, %s)", attempt, g.ReschedulePolicy.Delay, g.ReschedulePolicy.DelayFunction)
	}
	slices.Sort(names)
	switch {
	case len(names) == 0:
		return "it was created to replace failed allocations, but none waits for it any more"
	case len(names) > 3:
		return fmt.Sprintf("it replaces %s and %d more, which failed%s", names[0], len(names)-1, policy)
	}
	return fmt.Sprintf("it replaces %s, which failed%s", strings.Join(names, ", "), policy)
}
