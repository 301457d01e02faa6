package explain

import (
	"encoding/binary"
	"math"
	"time"

	"berth"
	"berth/internal/schedule"
	"berth/internal/state"
)

// sandbox is a copy of the state for trying things out. It only costs what is
// changed in it; the state itself is not modified.
type sandbox struct {
	snap    *state.Snapshot // the state to try changes on; it never changes itself
	key     berth.JobKey    // of the job that is explained
	now     time.Time       // of all decisions in it
	attempt int             // selects how ties are broken
	work    *work           // bounds all that is tried; nil bounds nothing
}

// work bounds the tries for one explanation together.
type work struct {
	schedule.Budget
	why error // with which a decision was given up
}

// triesAllowed is how many times the work of one decision an explanation may
// take: it lets the scheduler decide for each change that could help.
const triesAllowed = 16

// newWork returns the bound for explaining a job.
func newWork(snap *state.Snapshot, job *berth.Job) *work {
	return &work{Budget: schedule.Budget{Most: triesAllowed * schedule.Allowance(snap, job)}}
}

// run runs f within the bound. An error means that it took too much work, and
// says for what.
func (w *work) run(f func()) error {
	err := w.Run(f)
	if err != nil && w.why != nil {
		return w.why
	}
	return err
}

// budget returns the budget of what the sandbox tries.
func (w sandbox) budget() *schedule.Budget {
	if w.work == nil {
		return nil
	}
	return &w.work.Budget
}

// with returns the sandbox after the commands; not ok if one was refused.
func (w sandbox) with(cmds ...state.Command) (sandbox, bool) {
	tx := state.Begin(w.snap)
	for _, c := range cmds {
		if r := tx.Apply(c); r.Err != nil {
			return w, false
		}
	}
	w.snap = tx.Seal()
	return w, true
}

// decide schedules the job as the scheduler would now, and returns the
// resulting sandbox.
func (w sandbox) decide() (sandbox, schedule.Decision, bool) {
	tx := state.Begin(w.snap)
	seed := state.EvalSeed{ID: probe(w.snap.Index), TriggeredBy: berth.TriggerJobRegister, Cause: berth.Cause{Kind: berth.CauseSystem}}
	r := tx.Apply(&state.CreateEvals{Evals: []state.EvalFor{{EvalSeed: seed, Key: w.key}}, Now: w.now.UnixNano()})
	e := tx.Eval(seed.ID)
	if r.Err != nil || e == nil {
		return w, schedule.Decision{}, false
	}
	d := w.decideOn(tx.Snapshot, e)
	if r := tx.Apply(d.Plan); r.Err != nil || len(d.Plan.Refused) > 0 {
		return w, d, false
	}
	w.snap = tx.Seal()
	return w, d, true
}

// decideOn makes one decision, which may take no more work than the scheduler's.
// More ends the whole explanation.
func (w sandbox) decideOn(snap *state.Snapshot, e *berth.Eval) schedule.Decision {
	if w.work == nil {
		return schedule.Decide(snap, e, w.attempt, w.now)
	}
	one := schedule.Budget{Most: schedule.Allowance(snap, snap.Job(w.key))}
	d, err := schedule.DecideWithin(&one, snap, e, w.attempt, w.now)
	if err != nil {
		w.work.why = err
		w.work.Spend(math.MaxInt32 * int(triesAllowed)) // nothing is left
	}
	w.work.Spend(int(one.Spent()))
	return d
}

// probe returns the ID of an evaluation that exists only in sandboxes.
func probe(index uint64) (id berth.EvalID) {
	copy(id[:], "explain")
	binary.BigEndian.PutUint64(id[8:], index)
	return id
}

// rounds is how often a sandbox waits for stopping allocations to end.
const rounds = 4

// settle schedules the job until nothing more can be placed, ending the
// allocations that are being stopped on the way. It returns the instances still
// without a place, by group, and how many allocations had to end.
func (w sandbox) settle() (after sandbox, queued map[string]int, ends int, ok bool) {
	for range rounds {
		next, d, ok := w.decide()
		if !ok {
			return w, nil, ends, false
		}
		w, queued = next, d.Plan.End.Queued
		if len(queued) == 0 {
			break
		}
		n := w.finishStops()
		if n == 0 {
			break
		}
		ends += n
	}
	return w, queued, ends, true
}

// finishStops ends the job's allocations that are being stopped and returns
// their number.
func (w *sandbox) finishStops() (n int) {
	var cmds []state.Command
	for a := range w.snap.AllocsOf(w.key) {
		if !a.Wanted() && !a.Ended() {
			cmds = append(cmds, ended(a, w.now))
		}
	}
	next, ok := w.with(cmds...)
	if !ok || len(cmds) == 0 {
		return 0
	}
	*w = next
	return len(cmds)
}

// ended returns the report that an allocation has stopped.
func ended(a *berth.Alloc, now time.Time) state.Command {
	return &state.ReportAllocs{
		Node: a.NodeID, Now: now.UnixNano(),
		Updates: []state.AllocUpdate{{ID: a.ID, Client: berth.ClientComplete, Tasks: a.Tasks}},
	}
}
