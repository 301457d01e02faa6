// Package collector keeps the state from growing forever. When there is
// something to delete it raises core evaluations, which are as durable and as
// visible as any other, and works on them. Package schedule decides what is
// deleted, and the state checks each deletion again when the command is
// applied. Deletions go in small commands, each waited for, so that others are
// not held up.
package collector

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"berth"
	"berth/internal/schedule"
	"berth/internal/state"
)

// Options are the interval of collections and the ages at which rows are deleted.
type Options struct {
	Interval time.Duration // between two looks for old rows
	schedule.Ages
}

// DefaultOptions are a server's options.
var DefaultOptions = Options{5 * time.Minute, schedule.DefaultAges}

// Timer is the controller that raises core evaluations. It looks for old rows
// once per interval, and as soon as the number of evaluations has grown by half,
// on a snapshot, which blocks nobody.
type Timer struct {
	opts   Options
	chance *rand.ChaCha8
	next   time.Time
	evals  int // the fewest since the last look
}

// Watched returns what the timer must be stepped for.
func Watched() []state.WatchKey { return []state.WatchKey{state.OnTable(state.Evals)} }

// NewTimer returns the timer of a term. IDs come from the seed.
func NewTimer(o Options, seed [32]byte) *Timer {
	return &Timer{opts: o, chance: rand.NewChaCha8(seed)}
}

// Step implements leader.Controller.
func (t *Timer) Step(snap *state.Snapshot, now time.Time) (do []state.Command, again time.Time) {
	if t.next.IsZero() { // more urgent work comes first in a new term
		t.next, t.evals = now.Add(t.opts.Interval), snap.Count(state.Evals)
	}
	n := snap.Count(state.Evals)
	t.evals = min(t.evals, n)
	grown := n-t.evals > max(t.evals/2, schedule.EvalsPerJob)
	if !grown && now.Before(t.next) {
		return nil, t.next
	}
	t.next, t.evals = now.Add(t.opts.Interval), n
	if snap.OpenCore(false) != nil || !schedule.Collectable(snap, t.opts.Ages, now) {
		return nil, t.next
	}
	c := &state.RaiseCore{Cause: berth.Cause{Kind: berth.CauseSystem}, Now: now.UnixNano()}
	t.chance.Read(c.ID[:])
	return []state.Command{c}, t.next
}

// Queue delivers core evaluations.
type Queue interface {
	Next(ctx context.Context, types []string, most int) ([]berth.Delivery, error)
	Extend(id berth.EvalID, token berth.Token, applying bool) error
	Ack(id berth.EvalID, token berth.Token) error
	Nack(id berth.EvalID, token berth.Token) error
}

// Planner applies the plan that ends an evaluation, for the worker that holds it.
type Planner interface {
	Submit(d *berth.Delivery, plan *state.ApplyPlan) (*state.Pending, error)
}

// Worker works on the core evaluations of one term. Scheduling workers do not,
// because a large collection takes a while and jobs must not wait for it.
type Worker struct {
	Logger *slog.Logger // may be set before Run; slog.Default() if not

	term    uint64
	log     state.Log
	queue   Queue
	planner Planner
	opts    Options
}

// NewWorker returns the worker of a term.
func NewWorker(term uint64, log state.Log, queue Queue, planner Planner, o Options) *Worker {
	return &Worker{Logger: slog.Default(), term: term, log: log, queue: queue, planner: planner, opts: o}
}

// Run works until ctx ends or the term is over.
func (w *Worker) Run(ctx context.Context) error {
	for {
		list, err := w.queue.Next(ctx, []string{berth.TypeCore}, 1)
		if err != nil {
			return err
		}
		for i := range list {
			d := &list[i]
			err := w.collect(ctx, d)
			switch {
			case err == nil:
				err = w.queue.Ack(d.Eval.ID, d.Token)
			case berth.KindOf(err) == "":
				return err
			default:
				w.Logger.Warn("a collection was not finished", "eval", d.Eval.ID, "error", err)
				err = w.queue.Nack(d.Eval.ID, d.Token)
			}
			if err != nil {
				w.Logger.Info("an evaluation was taken away from the collector", "eval", d.Eval.ID, "error", err)
			}
		}
	}
}

const (
	// mostRows bounds the rows chosen from one snapshot, and so the memory that
	// they take.
	mostRows = 50_000
	// refusals is how many refused deletions a collection survives. After each
	// it looks at a newer state.
	refusals = 3
)

// collect deletes what is no longer needed and ends the evaluation.
func (w *Worker) collect(ctx context.Context, d *berth.Delivery) error {
	var done schedule.Tally
	force := d.Eval.Key() == berth.CoreKey(true)
	planned := time.Now()
	snap := w.log.Tip()
	for refused := 0; refused < refusals; snap = w.log.Tip() {
		if e := snap.Eval(d.Eval.ID); e == nil || e.Terminal() {
			return nil // it ended meanwhile
		}
		// Each round deletes a limited number of rows, to keep commands small.
		// A refusal means that a row is needed again, so the next round looks
		// at a newer state.
		c := schedule.Collect(snap, w.opts.Ages, force, time.Now(), mostRows)
		whole, err := w.delete(ctx, d, c.Delete, &done)
		if err == nil && whole {
			whole, err = w.deleteOrphans(ctx, d, c.Orphans, &done)
		}
		if err != nil {
			return err
		}
		if !whole {
			refused++
		} else if !c.More {
			break
		}
	}
	if done != (schedule.Tally{}) {
		w.Logger.Info("what nothing needs any more was deleted", "eval", d.Eval.ID, "result", done.String())
	}
	// The evaluation ends like any other, with a plan that places nothing.
	plan := &state.ApplyPlan{Eval: d.Eval.ID, Now: time.Now().UnixNano(), End: &state.EvalEnd{
		Status: berth.EvalComplete, Description: done.String(), SnapshotIndex: snap.Index,
		Timeline: berth.Timeline{
			Enqueued: d.Enqueued, Dequeued: d.Dequeued, Planned: planned.UnixNano(), Applied: time.Now().UnixNano(), Deliveries: d.Count,
		},
	}}
	pending, err := w.planner.Submit(d, plan)
	if err != nil {
		return err
	}
	return pending.Wait(ctx)
}

// delete proposes one command after the other. It returns false as soon as one
// is refused, because something came to need one of its rows.
func (w *Worker) delete(ctx context.Context, d *berth.Delivery, cmds []*state.DeleteRows, done *schedule.Tally) (whole bool, err error) {
	for _, c := range cmds {
		if err := w.queue.Extend(d.Eval.ID, d.Token, true); err != nil {
			return false, err
		}
		c.Stamp(w.term)
		_, err := w.log.Propose(ctx, c)
		switch {
		case err == nil:
			done.Add(c)
		case berth.KindOf(err) == "":
			return false, err
		default:
			w.Logger.Info("a deletion was refused; looking again", "eval", d.Eval.ID, "reason", err)
			return false, nil
		}
	}
	return true, nil
}

// deleteOrphans deletes objects that nothing uses any more, in batches, so
// that others are not held up. One that is gone meanwhile, by a user, makes it
// return false.
func (w *Worker) deleteOrphans(ctx context.Context, d *berth.Delivery, cmds []*state.DeleteResource, done *schedule.Tally) (whole bool, err error) {
	for list := range slices.Chunk(cmds, state.MaxResources) {
		if err := w.queue.Extend(d.Eval.ID, d.Token, true); err != nil {
			return false, err
		}
		batch := make([]state.Command, len(list))
		for i, c := range list {
			batch[i] = c
		}
		_, err := w.log.Propose(ctx, batch...)
		switch {
		case err == nil:
			done.Objects += len(list)
		case berth.KindOf(err) == "":
			return false, err
		default:
			w.Logger.Info("the deletion of orphaned objects was refused; looking again", "eval", d.Eval.ID, "reason", err)
			return false, nil
		}
	}
	return true, nil
}
