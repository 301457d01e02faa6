// Package submit creates the objects of stream jobs and keeps them as planned.
// A job is expanded into a plan. The planned objects are created kind by kind,
// each kind in a command that follows the previous one. Then the processing
// elements are launched one after another, the most constrained first. Once
// everything exists and nothing of an older generation is left, the job is
// submitted. From then on it is maintained: deleted objects are created again,
// ended elements are launched again by their policies, and a newer version of
// the job is planned as the next generation.
//
// If the leader changes during the first submission, the next leader does not
// continue it: the job's objects are deleted in the foreground and the
// submission starts over when they are gone, unless the job has recovery =
// "resume". A submission counts as interrupted if its plan precedes the term in
// the log. One that started over three times is continued, however often the
// leader changes then: a wide job would never be submitted otherwise. The update of a running
// job is continued.
//
// The package also removes the objects of jobs that are gone, being deleted,
// stopped or failed. Package finalize handles the deletion of the job itself,
// and the scheduler stops its allocations.
//
// The only memory is the log index up to which jobs were looked at; the
// progress of a submission is computed each time. So a Step does one thing for
// each job that has something to do, the next step follows when that has
// succeeded, and a step returns nothing when nothing is left to do.
package submit

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"berth"
	"berth/internal/leader/since"
	"berth/internal/state"
	"berth/internal/streams"
)

// Controller submits stream jobs.
type Controller struct {
	rand    *rand.ChaCha8
	index   uint64    // of the last state looked at
	audited time.Time // when all jobs were last looked at
	last    time.Time // of the last look, by the wall clock
	// open holds when to look at jobs although nothing happened to them. A job
	// that had something to do is looked at again at once: its command may be
	// refused, and then nothing changes.
	open map[berth.UID]time.Time
	// given holds the nodes that jobs get in the current step. Other jobs must
	// not get them before the state shows it.
	given map[berth.NodeID][]claim
	// held holds when jobs that start over after a timeout may be planned.
	held map[berth.UID]time.Time
	// begun holds the jobs whose first submission was seen by this controller.
	begun map[berth.UID]bool
	// since holds when submissions began whose time lies ahead of the clock.
	since since.Memory[berth.UID]
	// submitted is told how long the first submission of a job took, from its
	// registration on; nil tells nobody.
	submitted func(time.Duration)
}

// startsOver is how often a submission starts over before it is continued.
const startsOver = 3

// audit is the interval between looks at all jobs, in case a change was missed.
const audit = 10 * time.Minute

// New returns the controller for a term. The seed determines the IDs it
// creates.
func New(seed [32]byte) *Controller {
	return &Controller{rand: rand.NewChaCha8(seed), open: map[berth.UID]time.Time{}, held: map[berth.UID]time.Time{}, begun: map[berth.UID]bool{}}
}

// OnSubmitted sets who is told, when a job is submitted for the first time, how
// long that took since it was registered. A job that is not registered or
// submitted in the controller's term counts as well, if it was seen in between.
func (c *Controller) OnSubmitted(f func(time.Duration)) *Controller {
	c.submitted = f
	return c
}

// Watched returns the keys whose changes can give the controller something to
// do.
func Watched() []state.WatchKey {
	return []state.WatchKey{
		state.OnTable(state.Streams), state.OnTable(state.Resources), state.OnTable(state.Jobs), state.OnTable(state.Evals), state.OnTable(state.Allocs),
	}
}

// Step implements leader.Controller.
func (c *Controller) Step(snap *state.Snapshot, now time.Time) (do []state.Command, again time.Time) {
	c.given = map[berth.NodeID][]claim{}
	for _, row := range c.due(snap, now) {
		l := &jobStep{Controller: c, snap: snap, row: row, now: now}
		c.follow(snap, row, now)
		l.decide()
		switch {
		case len(l.do) > 0:
			c.open[row.UID] = time.Time{}
		case l.wakeAt.IsZero():
			delete(c.open, row.UID)
		default:
			c.open[row.UID] = l.wakeAt
		}
		do = append(do, l.do...)
	}
	if snap.Count(state.Streams) > 0 {
		again = c.audited.Add(audit)
	}
	// The earliest of all jobs decides when the step runs again.
	for _, at := range c.open {
		if !at.IsZero() && (again.IsZero() || at.Before(again)) {
			again = at
		}
	}
	return do, again
}

// due returns the jobs to look at, oldest first: those that changed, and those
// whose time has come.
func (c *Controller) due(snap *state.Snapshot, now time.Time) []*berth.StreamJob {
	since := c.index
	// After a new term or a restore, now and then, and when the clock was put
	// back, all jobs are looked at.
	wall := now.Round(0)
	if since < snap.TermIndex || since < snap.Restored || !now.Before(c.audited.Add(audit)) || wall.Before(c.last) {
		since, c.audited = 0, now
		c.forget(snap)
	}
	c.last = wall
	c.index = snap.Index
	list := snap.StreamJobsSince(since)
	for uid, at := range c.open {
		row := snap.StreamJob(uid)
		switch {
		case row == nil:
			delete(c.open, uid)
		case !now.Before(at):
			list = append(list, row)
		}
	}
	// A job may be in the list for two reasons.
	slices.SortFunc(list, func(a, b *berth.StreamJob) int {
		return cmp.Or(cmp.Compare(a.UID.Index, b.UID.Index), cmp.Compare(a.UID.Ordinal, b.UID.Ordinal))
	})
	return slices.Compact(list)
}

// jobStep is one step of one job.
type jobStep struct {
	*Controller
	snap   *state.Snapshot
	row    *berth.StreamJob
	job    *berth.Job // the planned version
	now    time.Time
	runs   map[berth.PERef]*berth.Alloc // by launch
	do     []state.Command              // commands, in order
	wakeAt time.Time                    // when the step is to run again without a change; zero for never
}

// decide finds what to do next for the job.
func (l *jobStep) decide() {
	switch {
	case !l.snap.AliveStream(l.row):
		l.cleanUp()
	case l.interrupted():
		l.restart(state.RecoverInterrupted)
	default:
		l.job = l.snap.PlannedJob(l.row)
		if l.row.Phase == berth.PhaseSubmission {
			l.submit()
		} else {
			l.maintain()
		}
	}
}

// interrupted reports whether another leader began the submission and it must
// not be continued: its plan precedes the term in the log.
func (l *jobStep) interrupted() bool {
	if l.row.Phase != berth.PhaseSubmission || l.row.Plan == nil || l.row.PlanIndex > l.snap.TermIndex {
		return false
	}
	p := l.snap.PlannedJob(l.row).Stream.Submission
	if l.row.Generation == 0 {
		return p.Recovery != berth.InterruptResume && l.row.Recovery.Count < startsOver
	}
	return p.InterruptedUpdate == berth.InterruptRecreate
}

// Interrupted returns the commands with which a term begins: they restart the
// jobs whose submission was interrupted. A Step would do the same, but until
// then a scheduler would continue with them.
func Interrupted(snap *state.Snapshot, now time.Time) (do []state.Command) {
	var all []state.JobRef
	for row := range snap.StreamJobs() {
		if l := (&jobStep{snap: snap, row: row}); snap.AliveStream(row) && l.interrupted() {
			all = append(all, state.JobRef{Key: row.Key, UID: row.UID})
		}
	}
	for list := range slices.Chunk(all, state.MaxRecover) {
		do = append(do, &state.RecoverJobs{Jobs: list, Cause: state.RecoverInterrupted, Now: now.UnixNano()})
	}
	return do
}

// restart deletes the job's objects and starts its submission over.
func (l *jobStep) restart(cause string) {
	l.add(&state.RecoverJobs{Jobs: []state.JobRef{{Key: l.row.Key, UID: l.row.UID}}, Cause: cause, Now: l.now.UnixNano()})
}

// fail ends the submission with an error.
func (l *jobStep) fail(format string, args ...any) {
	why := fmt.Sprintf(format, args...)
	if len(why) > state.MaxStreamError {
		why = why[:state.MaxStreamError-4] + "…"
	}
	l.add(&state.FailSubmission{Key: l.row.Key, UID: l.row.UID, Error: why, Now: l.now.UnixNano()})
}

// add adds a command to the step's result. Commands are applied in order.
func (l *jobStep) add(c state.Command) { l.do = append(l.do, c) }

// wake schedules another look at the job.
func (l *jobStep) wake(at time.Time) {
	if l.wakeAt.IsZero() || at.Before(l.wakeAt) {
		l.wakeAt = at
	}
}

// submit does the next step of a submission.
func (l *jobStep) submit() {
	if l.row.Plan == nil {
		if at := l.holdBack(); l.now.Before(at) {
			l.wake(at)
			return
		}
		l.plan()
		return
	}
	if l.row.Deadline > 0 {
		at := l.deadline()
		if !l.now.Before(at) {
			l.timeout()
			return
		}
		l.wake(at)
	}
	// Each of these does one thing and is repeated until nothing is left.
	if l.ensure() || l.launchNext() || l.ensureEvaluation() || l.sweep() {
		return
	}
	l.add(&state.CompleteSubmission{Key: l.row.Key, UID: l.row.UID, Generation: l.row.Generation, Now: l.now.UnixNano()})
}

// deadline returns when the attempt is given up. If the clock was put back after
// it began, it has its whole time from then on, not more.
func (l *jobStep) deadline() time.Time {
	timeout := l.job.Stream.Submission.Timeout
	return l.since.Of(l.row.UID, time.Unix(0, l.row.Deadline).Add(-timeout), l.now).Add(timeout)
}

// maintain keeps a submitted job as planned.
func (l *jobStep) maintain() {
	if newest := l.snap.Job(l.row.Key); newest.Version > l.row.Version {
		l.plan()
		return
	}
	if l.ensure() {
		return
	}
	l.launchAll()
	l.ensureEvaluation()
}

// plan expands the newest version of the job into its next generation.
func (l *jobStep) plan() {
	newest := l.snap.Job(l.row.Key)
	plan, err := streams.Expand(newest, l.row.Plan)
	if err != nil {
		if l.row.Phase == berth.PhaseSubmission {
			l.fail("version %d cannot be expanded: %v", newest.Version, err)
		}
		return
	}
	c := &state.PlanSubmission{Key: l.row.Key, UID: l.row.UID, Plan: plan, Now: l.now.UnixNano()}
	if t := newest.Stream.Submission.Timeout; t > 0 {
		c.Deadline = l.now.Add(t).UnixNano()
	}
	l.add(c)
}

// timeout ends an attempt that has reached its deadline.
func (l *jobStep) timeout() {
	p := l.job.Stream.Submission
	if p.OnTimeout != berth.OnTimeoutFail && l.row.Retries < p.MaxRetries {
		l.restart(state.RecoverTimeout)
		return
	}
	s := Position(l.snap, l.row)
	why := fmt.Sprintf("the job was not submitted within %s: state %s", p.Timeout, s.State)
	if len(s.Missing) > 0 {
		why += fmt.Sprintf(", missing %s and %d more", s.Missing[0], len(s.Missing)-1)
	}
	if l.row.Retries > 0 {
		why += fmt.Sprintf("; it was tried %d times", l.row.Retries+1)
	}
	if pool := poolProblem(l.snap, l.row); pool != "" {
		why += "; " + pool
	}
	l.fail("%s%s", why, l.placementProblem())
}

// placementProblem returns why a group of the job finds no place, "" if
// unknown.
func (l *jobStep) placementProblem() string {
	for e := range l.snap.OpenEvalsOf(l.row.Key, berth.EvalBlocked) {
		for group, m := range e.FailedTGAllocs {
			for _, s := range m.Shortages {
				return fmt.Sprintf("; group %s finds no place: %s: %d asked, at most %d free", group, s.Dimension, s.Wanted, s.Free)
			}
			for why := range m.ConstraintFiltered {
				return fmt.Sprintf("; group %s finds no place: %s", group, why)
			}
			return fmt.Sprintf("; group %s finds no place", group)
		}
	}
	return ""
}

// newEval returns the ID of an evaluation that a command creates. Commands
// carry such IDs because applying one must give the same state on every server.
func (c *Controller) newEval() (s state.EvalSeed) {
	c.rand.Read(s.ID[:])
	return s
}
