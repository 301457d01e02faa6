package submit

import (
	"slices"
	"time"

	"berth"
	"berth/internal/state"
	"berth/internal/streams/placement"
)

// launchItem is a processing element to launch.
type launchItem struct {
	pe    *berth.Object
	group *berth.TaskGroup
	why   string // one of the reasons below
}

// Why processing elements are launched.
const (
	whySubmission = "submission"
	whyRestored   = "restored" // it replaces one that a user deleted
	whyContent    = "content"  // its configuration changed
	whyFailed     = "failed"
	whyCompleted  = "completed"
	whyUser       = "user" // a user stopped its allocation
	whyDrain      = "drain"
	whyLost       = "lost"
	whyPreempted  = "evicted"
)

// launchNext launches the next processing element of a submission, the most
// constrained first, once the previous one was decided. Elements that ran
// before and ended do not wait for others. It reports whether any element must
// be launched or is waiting for its decision.
func (l *jobStep) launchNext() bool {
	list := l.dueLaunches()
	if len(list) == 0 {
		return false
	}
	// One decision at a time, but elements that ended do not wait for it.
	for e := range l.snap.OpenEvalsOf(l.row.Key, berth.EvalPending) {
		if e.JobUID == l.row.UID && e.TriggeredBy == berth.TriggerPELaunch {
			for _, d := range list {
				if !slices.Contains([]string{whySubmission, whyRestored, whyContent}, d.why) {
					l.launch(d)
				}
			}
			return true
		}
	}
	l.launch(list[0])
	return true
}

// launchAll launches what must be launched of a submitted job.
func (l *jobStep) launchAll() {
	for _, d := range l.dueLaunches() {
		l.launch(d)
	}
}

// launch proposes the next launch of a processing element. It is refused if the
// element was launched by another command meanwhile.
func (l *jobStep) launch(d launchItem) {
	l.add(&state.LaunchPE{
		PE: d.pe.UID, Expect: d.pe.PE.Launch, Generation: l.row.Generation, Why: d.why, Eval: l.newEval(), Now: l.now.UnixNano(),
	})
}

// dueLaunches returns the processing elements to launch, the most constrained
// first.
func (l *jobStep) dueLaunches() (out []launchItem) {
	l.runs = map[berth.PERef]*berth.Alloc{}
	for a := range l.snap.AllocsOf(l.row.Key) {
		if ref := a.Rest().PE; ref != nil {
			l.runs[*ref] = a
		}
	}
	for pe := range l.snap.ResourcesOf(l.row.UID, berth.KindPE) {
		g := l.job.Group(pe.Object.PE.Group)
		if g == nil || pe.Generation != l.row.Generation {
			continue
		}
		if why := l.launchReason(pe, g); why != "" {
			out = append(out, launchItem{pe, g, why})
		}
	}
	// The hardest to place choose first.
	slices.SortFunc(out, func(a, b launchItem) int { return placement.MostConstrained(a.pe, a.group, b.pe, b.group) })
	return out
}

// launchReason returns why a processing element must be launched now, "" if it
// need not be.
func (l *jobStep) launchReason(pe *berth.Object, g *berth.TaskGroup) string {
	why, at := launchDue(pe, g, l.runs[berth.PERef{UID: pe.UID, Launch: pe.PE.Launch}])
	if why != "" && l.now.Before(at) {
		l.wake(at)
		return ""
	}
	return why
}

// launchDue returns why a processing element must be launched, "" if it need not
// be, and from when on it may be. ran is the allocation of its last launch, nil
// if that waits for a node.
func launchDue(pe *berth.Object, g *berth.TaskGroup, ran *berth.Alloc) (why string, at time.Time) {
	switch s := pe.PE; {
	case s.LaunchIndex == 0 && s.Launch > 0:
		return whyRestored, at
	case s.LaunchIndex == 0:
		return whySubmission, at
	case s.ContentID != pe.Object.PE.ContentID:
		return whyContent, at
	case ran == nil:
		return "", at
	}
	why = relaunchReason(ran, g.Stream.Policy)
	if why == whyFailed || why == whyCompleted {
		at = launchableAt(ran, pe.PE.Launch)
	}
	return why, at
}

// relaunchReason returns why the processing element of an allocation must be
// launched again; "" if the allocation runs, or ended in a way that the policy
// accepts.
func relaunchReason(a *berth.Alloc, p berth.PEPolicy) string {
	pick := func(on bool, why string) string {
		if on {
			return why
		}
		return ""
	}
	m := a.Rest()
	// What the servers or the node did comes before what the policy asks.
	switch {
	case a.Live():
		return ""
	case a.Client == berth.ClientLost, m.StopReason == berth.StopNodeLost, m.StopReason == berth.StopAway, state.CutOff(a):
		return whyLost
	case a.Desired == berth.DesiredEvict:
		return whyPreempted
	case m.StopReason == berth.StopMigrated:
		return whyDrain
	case !a.Wanted() || m.Relocate:
		return pick(p.RestartDeleted, whyUser)
	case a.Client == berth.ClientFailed:
		return pick(p.RestartFailed, whyFailed)
	}
	return pick(p.RestartCompleted, whyCompleted)
}

const (
	shortRun   = 10 * time.Second // an element that ran for less is not launched again at once
	backoffMin = time.Second
	backoffMax = time.Minute
)

// launchableAt returns when an element that ended may be launched again. Short
// runs back off, longer with each launch, so that a broken element is not
// launched all the time.
func launchableAt(a *berth.Alloc, launches uint64) time.Time {
	ran, at := state.Ran(a)
	if ran >= shortRun {
		return at
	}
	return at.Add(min(backoffMin<<min(launches-1, 10), backoffMax))
}

// ensureEvaluation ensures that an evaluation looks for nodes for launched
// elements. It reports whether any element waits for a node or does not run as
// planned.
func (l *jobStep) ensureEvaluation() bool {
	waits := false
	for pe := range l.snap.ResourcesOf(l.row.UID, berth.KindPE) {
		if a := l.runs[berth.PERef{UID: pe.UID, Launch: pe.PE.Launch}]; pe.Generation == l.row.Generation && (a == nil || !a.Live()) {
			waits = true
		}
	}
	if !waits {
		return false
	}
	if list := placement.UnplacedPEs(l.snap, l.row.UID); len(list) > 0 {
		// An evaluation that is newer than all of them has seen them.
		var since uint64
		for _, u := range list {
			since = max(since, u.Since)
		}
		l.evaluate(berth.TriggerPELaunch, berth.Cause{Kind: berth.CausePE, ID: list[0].PE.UID.Text('p')}, since)
	}
	return true
}

// evaluate creates an evaluation of the job, unless one is due or a blocked one
// was decided on a state not older than the index.
func (l *jobStep) evaluate(trigger string, cause berth.Cause, since uint64) {
	for _, status := range [2]string{berth.EvalPending, berth.EvalBlocked} {
		for e := range l.snap.OpenEvalsOf(l.row.Key, status) {
			if e.JobUID != l.row.UID || e.WaitUntil > l.now.UnixNano() { // it waits for something else
				continue
			}
			if status == berth.EvalPending || e.SnapshotIndex >= since {
				return
			}
		}
	}
	s := l.newEval()
	s.TriggeredBy, s.Cause = trigger, cause
	l.add(&state.CreateEvals{Evals: []state.EvalFor{{EvalSeed: s, Key: l.row.Key}}, Now: l.now.UnixNano()})
}
