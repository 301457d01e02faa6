package alloc

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"berth"
	"berth/internal/agent/task"
	"berth/op"
)

// Templates with rolling restart the allocations of a group in turn. The leader
// gives the turns; this allocation asks for one, restarts its tasks in it, and tells
// the leader until it is healthy again. A turn that does not end well is told, too:
// nobody else of the group gets one then.

// turnRecord is the name under which a turn is recorded beside the tasks' states.
// No task can have it.
const turnRecord = "/turn"

// turn is what is known of an allocation's turn, kept over restarts of the agent.
type turn struct {
	State string            // one of the states in op; "" before the first turn
	Since time.Time         `json:",omitzero"`  // when it was given
	Tasks map[string]uint64 `json:",omitempty"` // that restart in it, with their newest launches before
	Had   map[string]string `json:",omitempty"` // of one that failed: what the tasks' templates showed
}

// turns is an allocation's part in the turns of its group.
type turns struct {
	now   turn              // guarded by the Runner's mutex, as wants
	wants map[string]uint64 // tasks that want to restart, with their launches
	wake  chan struct{}     // has one element when keepTurns is to look again
	told  time.Time         // when the leader was told last; keepTurns' alone
	asked string            // what the history says that is waited for; likewise
	next  time.Time         // not to ask earlier; likewise
}

// Turns asks the leader for a turn, or tells it of one; see [op.Turn].
type Turns func(ctx context.Context, id berth.AllocID, state string) (*op.TurnAnswer, error)

// turnOf returns what a task tells of its wish to restart in turn.
func (r *Runner) turnOf(name string) func(uint64, bool) {
	if r.c.Turns == nil {
		return nil
	}
	return func(launch uint64, wanted bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		switch old := r.turns.wants[name]; {
		case wanted && old != launch:
			r.turns.wants[name] = launch
		case !wanted && old == launch:
			delete(r.turns.wants, name)
		default:
			return
		}
		r.nudgeTurns()
	}
}

// nudgeTurns has keepTurns look again. It never blocks.
func (r *Runner) nudgeTurns() {
	select {
	case r.turns.wake <- struct{}{}:
	default:
	}
}

// keepTurns does what the turns of the allocation ask for until ctx ends.
func (r *Runner) keepTurns(ctx context.Context) {
	if r.c.Turns == nil {
		return
	}
	for {
		var alarm <-chan time.Time
		if next := r.stepTurn(ctx); !next.IsZero() {
			alarm = time.After(time.Until(next))
		}
		select {
		case <-r.turns.wake:
		case <-alarm:
		case <-ctx.Done():
			return
		}
	}
}

// turnRetry is how long is waited after a server could not be told of a turn.
const turnRetry = 2 * time.Second

// stepTurn does the next thing about the allocation's turn, and returns when to look
// again; zero is when something changes.
func (r *Runner) stepTurn(ctx context.Context) (again time.Time) {
	r.mu.Lock()
	t, wants, ends := r.turns.now, maps.Clone(r.turns.wants), r.stop != nil || r.final
	r.mu.Unlock()
	now := time.Now()
	switch {
	case ends || t.State == "" && len(wants) == 0: // of what ends, servers know it
		return time.Time{}
	case t.State == op.TurnOver:
		if _, err := r.tellTurn(ctx, op.TurnOver); err != nil {
			return now.Add(turnRetry)
		}
		r.keepTurn(turn{})
		return now
	case t.State != op.TurnTaken && len(wants) > 0:
		return r.askTurn(ctx, now)
	case t.State == op.TurnFailed && maps.Equal(t.Had, r.shown()):
		return r.renewTurn(ctx, t.State, now)
	case t.State == op.TurnFailed: // it was started again with newer data, which may be better
		r.keepTurn(turn{State: op.TurnTaken, Since: now})
		return now
	case len(wants) > 0: // once more within this turn
		r.takeTurn(now)
		return now
	}
	return r.watchTurn(ctx, &t, now)
}

// tellTurn tells the leader how the allocation stands.
func (r *Runner) tellTurn(ctx context.Context, state string) (*op.TurnAnswer, error) {
	r.mu.Lock()
	id := r.alloc.ID
	r.mu.Unlock()
	return r.c.Turns(ctx, id, state)
}

// askTurn asks for a turn, and takes it if it is given.
func (r *Runner) askTurn(ctx context.Context, now time.Time) (again time.Time) {
	if now.Before(r.turns.next) {
		return r.turns.next
	}
	a, err := r.tellTurn(ctx, op.TurnWanted)
	switch {
	case err != nil:
		r.turns.next = now.Add(turnRetry)
		return r.turns.next
	case !a.Given:
		r.turns.next = now.Add(max(a.Again, time.Second))
		r.tellTurnWaits(a.Waits)
		return r.turns.next
	}
	r.turns.asked, r.turns.told = "", now
	r.takeTurn(now)
	return now
}

// tellTurnWaits notes in the history of the tasks that want to restart what they
// wait for, if that is news.
func (r *Runner) tellTurnWaits(what string) {
	if r.turns.asked == what {
		return
	}
	r.turns.asked = what
	for name, t := range r.named() {
		r.mu.Lock()
		_, wants := r.turns.wants[name]
		r.mu.Unlock()
		if wants {
			t.Tell("Waiting for its turn to restart with new templates, after "+what, berth.TaskWait{Kind: berth.WaitTurn, Name: what})
		}
	}
}

// named returns the tasks by name.
func (r *Runner) named() map[string]*task.Runner {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]*task.Runner{}
	for i, t := range r.tasks {
		out[r.names[i]] = t
	}
	return out
}

// takeTurn begins a turn, or begins it again with what wants to restart now. If
// nothing does any more, it is over.
func (r *Runner) takeTurn(now time.Time) {
	r.mu.Lock()
	t := turn{State: op.TurnTaken, Since: now, Tasks: map[string]uint64{}}
	if r.turns.now.State == op.TurnTaken {
		maps.Copy(t.Tasks, r.turns.now.Tasks)
	}
	maps.Copy(t.Tasks, r.turns.wants)
	clear(r.turns.wants)
	r.mu.Unlock()
	if len(t.Tasks) == 0 {
		t = turn{State: op.TurnOver}
	}
	r.keepTurn(t)
}

// keepTurn records a turn. If the disk does not take it, it is known until the
// agent ends; the next one asks again.
func (r *Runner) keepTurn(t turn) {
	b, err := json.Marshal(t)
	if err == nil {
		err = r.c.Save(turnRecord, b)
	}
	if err != nil {
		r.c.Log.Warn("the turn of an allocation cannot be recorded", "alloc", r.id, "error", err)
	}
	r.mu.Lock()
	r.turns.now = t
	r.mu.Unlock()
}

// restoreTurn reads what an earlier agent recorded.
func (r *Runner) restoreTurn() {
	b := r.c.Restored[turnRecord]
	if b == nil {
		return
	}
	if err := json.Unmarshal(b, &r.turns.now); err != nil {
		r.c.Log.Warn("what is recorded of an allocation's turn cannot be read", "alloc", r.id, "error", err)
		r.turns.now = turn{}
	}
}

// shown returns what the templates of each task show, as hashes.
func (r *Runner) shown() map[string]string {
	out := map[string]string{}
	for name, t := range r.named() {
		out[name] = strings.Join(t.State().Rendered, " ")
	}
	return out
}

// renewTurn tells the leader of a turn if that is due.
func (r *Runner) renewTurn(ctx context.Context, state string, now time.Time) (again time.Time) {
	if due := r.turns.told.Add(op.TurnRenewal); now.Before(due) {
		return due
	}
	if _, err := r.tellTurn(ctx, state); err != nil {
		return now.Add(turnRetry)
	}
	r.turns.told = now
	return now.Add(op.TurnRenewal)
}

// watchTurn restarts what restarts in this turn, and finds out how that went.
func (r *Runner) watchTurn(ctx context.Context, t *turn, now time.Time) (again time.Time) {
	for name, x := range r.named() {
		if launch, ok := t.Tasks[name]; ok && x.State().Launch == launch && x.State().Phase == task.Running {
			x.RestartLaunch(launch, "Templates re-rendered, and it is the allocation's turn to restart")
		}
	}
	healthy, look := r.judgeTurn(t, now)
	if healthy == nil {
		return sooner(r.renewTurn(ctx, t.State, now), look)
	}
	next := *t
	if next.State = op.TurnOver; !*healthy {
		next.State, next.Had, r.turns.told = op.TurnFailed, r.shown(), time.Time{}
		for _, x := range r.named() {
			x.Tell("The allocation is not healthy after its restart with new templates: no other of its group restarts for them")
		}
	}
	r.keepTurn(next)
	return now
}

// judgeTurn reports whether the allocation is healthy after its restart: nil if
// that is not known yet, and when to look again then.
func (r *Runner) judgeTurn(t *turn, now time.Time) (healthy *bool, again time.Time) {
	r.mu.Lock()
	g := r.alloc.Job.Group(r.alloc.TaskGroup)
	r.mu.Unlock()
	u := g.Update
	if u == nil { // the job has changed in place: nothing is asked of health any more
		yes := true
		return &yes, time.Time{}
	}
	p := healthPolicy{checks: u.HealthCheck == berth.HealthChecks, min: u.MinHealthyTime, deadline: u.HealthyDeadline}
	var tasks []vital
	paused := r.paused()
	for name, x := range r.named() {
		st := x.State()
		s := st.Task
		if launch, ok := t.Tasks[name]; ok && st.Launch <= launch && s.State == berth.TaskRunning {
			s.State = berth.TaskPending // it runs as before
		}
		v := vitalOf(g.Task(name), &s)
		v.paused = slices.Contains(paused, name)
		tasks = append(tasks, v)
	}
	var passing *time.Time
	if p.checks {
		passing = r.checksPass()
	}
	healthy, _, again = p.judge(t.Since, tasks, passing, now)
	return healthy, again
}

// restartedByHand lets a failed turn begin again: who restarts a task, "" being all,
// says that the rest may go on once the allocation is healthy.
func (r *Runner) restartedByHand(name string) {
	r.mu.Lock()
	t := r.turns.now
	r.mu.Unlock()
	if t.State != op.TurnFailed {
		return
	}
	t = turn{State: op.TurnTaken, Since: time.Now(), Tasks: map[string]uint64{}}
	for n, x := range r.named() {
		if name == "" || n == name {
			t.Tasks[n] = x.State().Launch
		}
	}
	r.keepTurn(t)
	r.nudgeTurns()
}
