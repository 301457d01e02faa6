// Package collector keeps the state from growing for ever. It raises core
// evaluations, as durable and as visible as any other, when something is to be
// deleted, and works on them: what goes is decided by package schedule, and
// checked once more where each deletion meets the state in the log. It deletes
// in small commands and waits for each, so that others are not held up.
package collector

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"berth"
	"berth/internal/schedule"
	"berth/internal/state"
)

// Options say when what is deleted.
type Options struct {
	Interval time.Duration // from one look for what is old to the next
	schedule.Ages
}

// DefaultOptions are those of a server.
var DefaultOptions = Options{5 * time.Minute, schedule.DefaultAges}

// Timer is the controller that raises core evaluations. It looks at what there
// is once in an interval, on a snapshot, which holds up nobody.
type Timer struct {
	opts   Options
	chance *rand.ChaCha8
	next   time.Time
}

// NewTimer returns the timer of a term. IDs come from the seed.
func NewTimer(o Options, seed [32]byte) *Timer {
	return &Timer{opts: o, chance: rand.NewChaCha8(seed)}
}

// Step implements leader.Controller.
func (t *Timer) Step(snap *state.Snapshot, now time.Time) (do []state.Command, again time.Time) {
	if t.next.IsZero() { // a term begins with more urgent things
		t.next = now.Add(t.opts.Interval)
	}
	if now.Before(t.next) {
		return nil, t.next
	}
	t.next = now.Add(t.opts.Interval)
	if snap.OpenCore(false) != nil || !schedule.Collectable(snap, t.opts.Ages, now) {
		return nil, t.next
	}
	c := &state.RaiseCore{Cause: berth.Cause{Kind: berth.CauseSystem}, Now: now.UnixNano()}
	t.chance.Read(c.ID[:])
	return []state.Command{c}, t.next
}

// Queue is where core evaluations come from.
type Queue interface {
	Next(ctx context.Context, types []string, most int) ([]berth.Delivery, error)
	Extend(id berth.EvalID, token berth.Token, applying bool) error
	Ack(id berth.EvalID, token berth.Token) error
	Nack(id berth.EvalID, token berth.Token) error
}

// Planner takes the end of an evaluation from who holds it.
type Planner interface {
	Submit(d *berth.Delivery, plan *state.ApplyPlan) (*state.Pending, error)
}

// Worker works on the core evaluations of one term. The scheduling workers do
// not: a large collection takes a while, and jobs must not wait for it.
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
				w.Logger.Info("an evaluation was taken from the collector", "eval", d.Eval.ID, "error", err)
			}
		}
	}
}

const (
	// mostRows bounds what is chosen from one snapshot, and so the memory that
	// it takes.
	mostRows = 50_000
	// refusals is how often a newer state is looked at because one of the
	// deletions decided on an older one was refused.
	refusals = 3
)

// collect deletes what is to be deleted, and ends the evaluation.
func (w *Worker) collect(ctx context.Context, d *berth.Delivery) error {
	var done schedule.Tally
	force := d.Eval.Key() == berth.CoreKey(true)
	planned := time.Now()
	snap := w.log.Tip()
	for refused := 0; refused < refusals; snap = w.log.Tip() {
		if e := snap.Eval(d.Eval.ID); e == nil || e.Terminal() {
			return nil // it ended meanwhile
		}
		c := schedule.Collect(snap, w.opts.Ages, force, time.Now(), mostRows)
		whole, err := w.delete(ctx, d, c.Delete, &done)
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

// delete proposes one command after the other, and returns false as soon as
// one is refused: something came to need a row of it.
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
