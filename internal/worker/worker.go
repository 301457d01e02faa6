// Package worker decides evaluations. A worker takes them from the broker, asks
// package schedule, submits the plans, and acknowledges the evaluations. If
// part of a plan is refused it decides again on a newer state, a bounded number
// of times.
package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"maps"
	"runtime/debug"
	"time"

	"berth"
	"berth/internal/schedule"
	"berth/internal/state"

	"golang.org/x/sync/errgroup"
)

// Queue delivers evaluations.
type Queue interface {
	Next(ctx context.Context, types []string, most int) ([]berth.Delivery, error)
	Ack(id berth.EvalID, token berth.Token) error
	Nack(id berth.EvalID, token berth.Token) error
}

// Planner takes plans.
type Planner interface {
	Tip() *state.Snapshot
	// Submit reports at once what was refused of a plan. An error with a kind
	// refuses the whole plan; one without means that the term is over.
	Submit(d *berth.Delivery, plan *state.ApplyPlan) (*state.Pending, error)
}

// Types are the types of evaluations that a worker can decide.
var Types = berth.JobTypes

const (
	batch    = 64 // evaluations decided before waiting for the first of them
	inFlight = 8  // batches with pending plans
)

// attempts returns how often an evaluation is decided when its plans are
// refused and nothing is placed.
func attempts(typ string) int {
	if typ == berth.TypeBatch || typ == berth.TypeSysbatch {
		return 2
	}
	return 5
}

// Worker decides evaluations one at a time. It does not wait for the plans of
// one to be committed before it decides the next: it decides on a state that
// has them applied.
type Worker struct {
	Logger *slog.Logger // may be set before Run; slog.Default() if not

	queue   Queue
	planner Planner
	types   []string
	// batch is how many evaluations are taken at once.
	batch  int
	remote bool // the queue is on another server
	membership
}

// New returns a worker for evaluations of the given types.
func New(queue Queue, planner Planner, types []string) *Worker {
	return &Worker{Logger: slog.Default(), queue: queue, planner: planner, types: types, batch: batch}
}

// Run works until ctx ends or the term is over.
func (w *Worker) Run(ctx context.Context) error { return w.run(ctx, ctx) }

// run is Run that takes no more evaluations after taking ends, and returns nil
// once it is done with those it has.
func (w *Worker) run(life, taking context.Context) error {
	g, ctx := errgroup.WithContext(life)
	flight := make(chan struct{}, inFlight)
	defer w.join()()
	until, end := context.WithCancel(ctx)
	defer end()
	if !w.remote { // otherwise deliveries from the leader would be lost
		defer context.AfterFunc(taking, end)()
	}
	g.Go(func() error {
		for {
			w.does(toDequeue)
			list, err := w.next(ctx, until, taking)
			if err != nil || list == nil {
				return err
			}
			w.does(toDecide)
			done := make([]outcome, len(list))
			for i := range list {
				done[i] = w.decide(w.planner, &list[i])
			}
			w.does(toSubmit)
			// The next batch is decided while the last ones are being
			// committed, but not too many at once.
			select {
			case flight <- struct{}{}:
			case <-ctx.Done():
				return ctx.Err()
			}
			g.Go(func() error {
				defer func() { <-flight }()
				return w.settle(ctx, list, done)
			})
		}
	})
	if err := g.Wait(); err != nil {
		return err
	}
	return life.Err() // taking may have ended because life did
}

// next returns evaluations to decide, nil if none are to be taken any more. It
// waits until the context until ends.
func (w *Worker) next(ctx, until, taking context.Context) ([]berth.Delivery, error) {
	if taking.Err() != nil {
		return nil, ctx.Err()
	}
	if f, ok := w.queue.(*Follower); ok {
		return f.nextWhile(ctx, taking, w.types, w.batch)
	}
	list, err := w.queue.Next(until, w.types, w.batch)
	if err != nil && taking.Err() != nil && errors.Is(err, context.Canceled) {
		return nil, ctx.Err()
	}
	return list, err
}

// outcome is the result of a delivery: pending plans, or an error.
type outcome struct {
	plans []*state.Pending
	err   error
}

// optimistic is a planner that can be wrong about what was refused of a plan.
// Then the pending plan that it returned fails with a kind.
type optimistic interface {
	// Confirmed returns a planner that is never wrong and takes longer.
	Confirmed() Planner
}

// wait returns nil when all plans are committed.
func (o *outcome) wait(ctx context.Context) error {
	for _, p := range o.plans {
		if err := p.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// settle waits until the plans are committed and acknowledges the evaluations.
func (w *Worker) settle(ctx context.Context, list []berth.Delivery, done []outcome) error {
	for i := range list {
		d, o := &list[i], done[i]
		err := o.wait(ctx)
		// The planner was wrong about what was refused; decide again with one
		// that never is.
		if h, ok := w.planner.(optimistic); ok && berth.KindOf(err) != "" {
			o = w.decide(h.Confirmed(), d)
			err = o.wait(ctx)
		}
		if err != nil {
			return err
		}
		switch {
		case o.err == nil:
			err = w.queue.Ack(d.Eval.ID, d.Token)
		case berth.KindOf(o.err) == "":
			return o.err
		default:
			w.Logger.Warn("an evaluation could not be decided", "eval", d.Eval.ID, "job", d.Eval.Key().String(), "error", o.err)
			err = w.queue.Nack(d.Eval.ID, d.Token)
		}
		if err != nil {
			w.Logger.Info("an evaluation was taken away from its worker", "eval", d.Eval.ID, "error", err)
		}
	}
	return nil
}

// decide works on one evaluation until its plan is accepted as a whole, or the
// evaluation ends in another way.
func (w *Worker) decide(planner Planner, d *berth.Delivery) (o outcome) {
	defer func() {
		if r := recover(); r != nil { // a job that trips the scheduler must not stop the others
			o.err = berth.Errorf(berth.Unavailable, "the scheduler panicked: %v\n%s", r, debug.Stack())
		}
	}()
	refused, tries := 0, 0
	var planned int64
	for attempt := 0; ; attempt++ {
		snap := planner.Tip()
		eval := snap.Eval(d.Eval.ID)
		if eval == nil || eval.Terminal() {
			return o // it ended meanwhile: cancelled, or decided by another plan
		}
		plan, err := w.plan(planner, d, snap, eval, attempt)
		if errors.Is(err, errOutdated) {
			if tries++; tries > attempts(eval.Type) {
				o.err = berth.Errorf(berth.Conflict, "%w", err)
				return o
			}
			if o.err = refresh(planner); o.err != nil {
				return o
			}
			continue
		}
		if err != nil {
			o.err = err
			return o
		}
		// The timeline shows the first plan; later ones are corrections.
		if planned == 0 {
			planned = time.Now().UnixNano()
		}
		plan.End.Timeline = timeline(d, planned, refused)
		if tries >= attempts(eval.Type) && plan.End.Status != berth.EvalCanceled && plan.End.Failure == "" {
			plan = w.giveUp(snap, eval, plan)
		}
		pending, err := planner.Submit(d, plan)
		if pending != nil {
			o.plans = append(o.plans, pending)
		}
		switch {
		case err != nil && berth.KindOf(err) == berth.Conflict:
			// The job changed, or the evaluation ended, after the state that
			// the plan was decided on. Look again; the next state shows which.
			if tries++; tries > attempts(eval.Type) {
				o.err = err
				return o
			}
			continue
		case err != nil:
			o.err = err
			return o
		case len(plan.Refused) == 0:
			return o
		}
		// Some placements were refused: other plans took the capacity. The next
		// state has them.
		refused++
		if len(plan.Refused) < len(plan.Place) {
			tries = 0 // progress
		} else {
			tries++
		}
	}
}

// plan returns the plan for an evaluation on a snapshot. It ends an evaluation
// that is superseded, or that needs too much work.
func (w *Worker) plan(planner Planner, d *berth.Delivery, snap *state.Snapshot, eval *berth.Eval, attempt int) (*state.ApplyPlan, error) {
	now := clock(d)
	if by := superseded(snap, eval, now); by != nil {
		return cancel(snap, eval, by, now), nil
	}
	plan, err := w.decideWithin(planner, snap, eval, attempt, now)
	if !errors.Is(err, schedule.ErrTooMuchWork) {
		return plan, err
	}
	if d.Count < triesOverLimit && snap.LastTooMuchWork(eval) == nil {
		return nil, berth.Errorf(berth.Unavailable, "deciding takes %w", err)
	}
	return w.quarantine(snap, eval, now, err), nil
}

// clock returns the time to decide at. It is not before the leader delivered
// the evaluation, so that what was due by the leader's clock is due here, too.
func clock(d *berth.Delivery) time.Time {
	now := time.Now()
	if handed := time.Unix(0, d.Dequeued); handed.After(now) {
		return handed
	}
	return now
}

// giveUp ends an evaluation whose plans are refused too often and leaves the
// rest to a blocked one. It is not known what would help that one, so it is
// tried again after a while whatever happens.
func (w *Worker) giveUp(snap *state.Snapshot, eval *berth.Eval, plan *state.ApplyPlan) *state.ApplyPlan {
	end := &state.EvalEnd{
		Status: berth.EvalFailed, Description: "its plans were refused too often", Failed: plan.End.Failed, Queued: waiting(snap, eval, plan),
		SnapshotIndex: plan.End.SnapshotIndex, Timeline: plan.End.Timeline, Missed: &berth.Missed{Escaped: true},
	}
	if eval.Status == berth.EvalBlocked { // it goes on waiting; no new one is created
		end.Status = berth.EvalBlocked
		if len(end.Failed) == 0 {
			end.Failed = eval.FailedTGAllocs
		}
	} else {
		end.Blocked = &state.NewEval{TriggeredBy: berth.TriggerMaxPlanAttempts}
		rand.Read(end.Blocked.ID[:])
	}
	return &state.ApplyPlan{Eval: eval.ID, Now: plan.Now, End: end}
}

// waiting counts by group the instances that stay without a node because this
// plan is not submitted.
func waiting(snap *state.Snapshot, eval *berth.Eval, plan *state.ApplyPlan) map[string]int {
	queued := map[string]int{}
	maps.Copy(queued, plan.End.Queued)
	if job := snap.Job(eval.Key()); job != nil {
		for _, p := range plan.Place {
			queued[job.TaskGroups[p.Group].Name]++
		}
	}
	return queued
}

// timeline returns the timeline of an evaluation when its last plan is
// submitted; planned is when the first one was made.
func timeline(d *berth.Delivery, planned int64, refused int) berth.Timeline {
	return berth.Timeline{
		Enqueued: d.Enqueued, Dequeued: d.Dequeued, Planned: planned, Applied: time.Now().UnixNano(),
		Deliveries: d.Count, Refused: refused,
	}
}
