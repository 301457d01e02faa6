package alloc

import (
	"strings"

	"berth"
	"berth/internal/agent/task"
)

// How the rules of lifecycle.go are carried out.

// members returns how the tasks stand, in the group's order. The caller holds
// mu.
func (r *Runner) members() members {
	g := r.alloc.Job.Group(r.alloc.TaskGroup)
	ms := members{asked: r.round}
	for i, t := range r.tasks {
		ms.all = append(ms.all, memberOf(g.Task(r.names[i]), t.State()))
	}
	return ms
}

// may reports whether a task may be started now; if not, the channel is closed
// when to ask again. It is asked at the moment of the start, so that what has
// just happened to another task counts.
func (r *Runner) may(name string) (ok bool, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.ready:
	default:
		return false, r.changed
	}
	ok, _ = gate(r.members(), r.stop, name)
	return ok, r.changed
}

// changes is called when a task stands otherwise than before.
func (r *Runner) changes() {
	r.mu.Lock()
	r.askAgain()
	r.mu.Unlock()
	r.nudge()
	r.nudgeTurns()
}

// askAgain wakes the tasks that wait to be allowed to start. The caller holds
// mu.
func (r *Runner) askAgain() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// conclude reports whether the allocation has ended: all tasks are dead, and
// none is to be started again. From then on none can be.
func (r *Runner) conclude() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.final {
		return true
	}
	ms := r.members()
	for i := range ms.all {
		if m := &ms.all[i]; !m.dead() || m.behind(ms.round()) {
			return false
		}
	}
	r.final = true
	close(r.over)
	return true
}

// tellWaits notes in the history of each task that waits for others which those
// are, once. Of a poststop task that is plain. The caller holds mu.
func (r *Runner) tellWaits(ms members) {
	for i, t := range r.tasks {
		m := &ms.all[i]
		key := m.name + "/gate" // no task has such a name
		if r.told[key] || m.hook == berth.HookPoststop || m.state.Phase != task.Preparing || m.state.Kill != nil {
			continue
		}
		if open, waits := gate(ms, r.stop, m.name); !open && len(waits) > 0 {
			r.told[key] = true
			t.Note(berth.EventWaiting, "Waiting for tasks that go first: "+strings.Join(waits, ", "))
		}
	}
}

// restartAll starts all tasks again in their order, also those that have ended.
// The order is kept by the tasks that it reached, so an agent that is killed
// meanwhile goes on with it.
func (r *Runner) restartAll() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	ms := r.members()
	leader := ms.leader()
	switch {
	case len(ms.all) == 0:
		return berth.Errorf(berth.Invalid, "Task not running: allocation %s is not taken up yet", r.id)
	case r.final || r.stop != nil || ms.over() || ms.failed() != nil || leader != nil && leader.dead() && !leader.behind(ms.round()):
		return berth.Errorf(berth.Invalid, "Task not running: allocation %s ends, or has ended", r.id)
	}
	r.round = ms.round() + 1
	r.nudge()
	return nil
}
