package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"berth"
	"berth/internal/limit"
	"berth/internal/schedule"
	"berth/internal/state"
)

// maxDecisionTime is how long one decision may take. Steps bound a decision
// first; this is for work that is not counted well.
const maxDecisionTime = 30 * time.Second

// triesOverLimit is how often an evaluation is decided that needs too much work.
// The second time the cluster may have changed; after that its job is
// quarantined.
const triesOverLimit = 2

// Quarantine is how long the next evaluation of a job waits that needs too much
// work: first the one, then twice as long each time, up to the other.
const (
	firstQuarantine = time.Minute
	maxQuarantine   = time.Hour
)

var (
	stepsLimit = limit.Declare(limit.Info{
		Name: "decision_steps", Of: "Work of one scheduling decision, in steps of about 0.1 µs; grows with the job's groups and counts and with the cluster, from 1,048,576 to 134,217,728", Unit: limit.Count,
		Beyond: "the evaluation is decided once more, then fails; the job is quarantined: tried again after a minute, then after twice as long each time up to an hour, until it is changed or stopped",
	})
	timeLimit = limit.Declare(limit.Info{
		Name: "decision_time", Of: "Time that one scheduling decision takes", Unit: limit.Time, Default: int64(maxDecisionTime), Beyond: "as for decision_steps",
	})
)

// errOutdated ends a decision whose job has changed, or that is no longer
// wanted.
var errOutdated = errors.New("the job changed while it was decided")

// follower is a planner on a server whose state is behind the leader's, so that
// its Tip stays as it is while a decision is made.
type follower interface {
	Newest() *state.Snapshot
	// Refresh brings Tip up to date.
	Refresh() error
}

// decideWithin makes one decision on a snapshot, within the limits of its job.
// It is given up at once if the job is changed, stopped or purged meanwhile, or
// the evaluation ended.
func (w *Worker) decideWithin(planner Planner, snap *state.Snapshot, eval *berth.Eval, attempt int, now time.Time) (*state.ApplyPlan, error) {
	begun := time.Now()
	job := snap.Job(eval.Key())
	work := &schedule.Budget{Most: schedule.Allowance(snap, job)}
	work.Interrupt = func() error {
		if took := time.Since(begun); took > maxDecisionTime {
			timeLimit.Refuse("job", eval.Key().String(), "eval", eval.ID)
			return fmt.Errorf("%w: more than %v", schedule.ErrTooMuchWork, maxDecisionTime)
		}
		return outdated(newest(planner), job, eval)
	}
	d, err := schedule.DecideWithin(work, snap, eval, attempt, now)
	stepsLimit.Use(work.Spent(), work.Most, "job", eval.Key().String(), "eval", eval.ID)
	timeLimit.Use(int64(time.Since(begun)), int64(maxDecisionTime), "job", eval.Key().String(), "eval", eval.ID)
	if errors.Is(err, schedule.ErrTooMuchWork) {
		stepsLimit.Refuse("job", eval.Key().String(), "eval", eval.ID, "reason", err)
	}
	return d.Plan, err
}

// newest returns the newest state that a planner knows of.
func newest(planner Planner) *state.Snapshot {
	if f, ok := planner.(follower); ok {
		return f.Newest()
	}
	return planner.Tip()
}

// outdated returns an error if a decision about a job is no longer of use in a
// newer state.
func outdated(now *state.Snapshot, job *berth.Job, eval *berth.Eval) error {
	if e := now.Eval(eval.ID); e == nil || e.Terminal() {
		return errOutdated
	}
	switch j := now.Job(eval.Key()); {
	case (j == nil) != (job == nil), j != nil && (j.UID != job.UID || j.JobModifyIndex != job.JobModifyIndex):
		return errOutdated
	}
	return nil
}

// refresh brings a planner's tip up to date, after a decision was outdated.
func refresh(planner Planner) error {
	if f, ok := planner.(follower); ok {
		return f.Refresh()
	}
	return nil
}

// quarantine ends an evaluation that needs too much work, and leaves the job to a
// later one.
func (w *Worker) quarantine(snap *state.Snapshot, eval *berth.Eval, now time.Time, why error) *state.ApplyPlan {
	wait := firstQuarantine
	if last := snap.LastTooMuchWork(eval); last != nil {
		if next := snap.Eval(last.NextEval); next != nil {
			wait = min(max(2*time.Duration(next.WaitUntil-last.ModifyTime), firstQuarantine), maxQuarantine)
		}
	}
	end := &state.EvalEnd{
		Status: berth.EvalFailed, Failure: berth.FailureTooMuchWork, SnapshotIndex: snap.Index,
		Description: fmt.Sprintf("the job is quarantined: deciding it takes %v; it is tried again in %v, or once it is changed", why, wait),
		Later:       []state.NewEval{{TriggeredBy: berth.TriggerFailedFollowUp, WaitUntil: now.Add(wait).UnixNano()}},
	}
	if job := snap.Job(eval.Key()); job != nil {
		end.Queued = eval.QueuedAllocations
	}
	rand.Read(end.Later[0].ID[:])
	w.Logger.Warn("a job is quarantined", "job", eval.Key().String(), "eval", eval.ID, "reason", why, "tried_again_in", wait)
	return &state.ApplyPlan{Eval: eval.ID, Now: now.UnixNano(), End: end}
}

// superseded returns the pending evaluation that replaces one whose job was
// changed or stopped since it was raised, or nil. That one looks at everything
// that this one would.
func superseded(snap *state.Snapshot, eval *berth.Eval, now time.Time) (by *berth.Eval) {
	job := snap.Job(eval.Key())
	if eval.Status != berth.EvalPending || job != nil && job.UID == eval.JobUID && job.JobModifyIndex <= eval.JobModifyIndex {
		return nil
	}
	for e := range snap.OpenEvalsOf(eval.Key(), berth.EvalPending) {
		due := e.WaitUntil <= now.UnixNano()
		if due && e.JobUID.Index >= eval.JobUID.Index && e.CreateIndex > eval.CreateIndex && (by == nil || e.CreateIndex > by.CreateIndex) {
			by = e
		}
	}
	return by
}

// cancel returns the plan that ends a superseded evaluation.
func cancel(snap *state.Snapshot, eval, by *berth.Eval, now time.Time) *state.ApplyPlan {
	return &state.ApplyPlan{Eval: eval.ID, Now: now.UnixNano(), End: &state.EvalEnd{
		Status: berth.EvalCanceled, Description: "superseded by evaluation " + by.ID.String(), SnapshotIndex: snap.Index,
	}}
}

// Newest is the state of this server, which has no pending plans.
func (f *Follower) Newest() *state.Snapshot { return f.store.Snapshot() }

// Refresh starts a new guess from the newest state of this server.
func (f *Follower) Refresh() error {
	ctx := f.ctx
	if ctx == nil {
		ctx = context.Background()
	}
	return f.catchUp(ctx, 0)
}
