package alloc

import (
	"fmt"
	"slices"

	"berth"
	"berth/internal/agent/task"
)

// What the tasks of an allocation mean to each other: which may start, and
// which must end. Both are decided from nothing but how all tasks stand, so an
// agent that was killed anywhere goes on with the same order.

// member is one task of an allocation as the rules see it.
type member struct {
	name    string
	hook    string // of its lifecycle, "" for a main task
	sidecar bool
	leader  bool // when it ends, the others are ended
	state   task.State
}

// memberOf returns a task as the rules see it.
func memberOf(t *berth.Task, s task.State) member {
	return member{name: t.Name, hook: t.Hook(), sidecar: t.Sidecar(), leader: t.Leader, state: s}
}

// dead reports whether the task has ended.
func (m *member) dead() bool { return m.state.Phase == task.Dead }

// succeeded reports whether the task has ended by itself, and well.
func (m *member) succeeded() bool {
	return m.dead() && !m.state.Task.Failed && m.state.Kill == nil
}

// members are all tasks of an allocation.
type members struct {
	all   []member
	asked uint64 // round that was asked for, of which no task may know yet
}

// round returns the number of the newest restart of the whole allocation.
func (ms members) round() uint64 {
	n := ms.asked
	for i := range ms.all {
		n = max(n, ms.all[i].state.Round)
	}
	return n
}

// behind reports whether a task has yet to take part in that round. One that
// was ordered to end does not, and a poststop task runs after the last round
// only.
func (m *member) behind(round uint64) bool {
	return m.state.Round < round && m.state.Kill == nil && m.hook != berth.HookPoststop
}

// core returns the tasks whose end is the allocation's: the main tasks. A
// group without them has the others that are not poststop.
func (ms members) core() (out []*member) {
	for i := range ms.all {
		if ms.all[i].hook == "" {
			out = append(out, &ms.all[i])
		}
	}
	if out != nil {
		return out
	}
	for i := range ms.all {
		if ms.all[i].hook != berth.HookPoststop {
			out = append(out, &ms.all[i])
		}
	}
	return out
}

// over reports whether the work of the allocation is: what runs to its end
// after it may begin, and what runs beside it may end.
func (ms members) over() bool {
	round := ms.round()
	for _, m := range ms.core() {
		if !m.dead() || m.behind(round) {
			return false
		}
	}
	return true
}

// launched reports whether anything was started of the allocation's work.
func (ms members) launched() bool {
	return slices.ContainsFunc(ms.all, func(m member) bool { return m.hook != berth.HookPoststop && m.state.Launch > 0 })
}

// cleansUp reports whether poststop tasks are to run when the work is over: not
// if nothing of it ever ran, nor when the allocation's replacement may run
// already.
func (ms members) cleansUp(stop *task.Kill) bool {
	for _, m := range ms.core() {
		if k := m.state.Kill; k != nil && k.Event == berth.EventCutOff {
			return false
		}
	}
	return stop == nil || stop.Event != berth.EventCutOff && ms.launched()
}

// gate reports whether a task may be started now; if not, waits are the tasks
// that it waits for.
func gate(ms members, stop *task.Kill, name string) (open bool, waits []string) {
	i := slices.IndexFunc(ms.all, func(m member) bool { return m.name == name })
	if i < 0 {
		return false, nil
	}
	hook, round := ms.all[i].hook, ms.round()
	if ms.all[i].behind(round) { // it is about to be told to join the round, and asks again then
		return false, nil
	}
	add := func(m *member, wait bool) {
		if wait {
			waits = append(waits, m.name)
		}
	}
	if hook == berth.HookPoststop {
		for _, m := range ms.core() {
			add(m, !m.dead() || m.behind(round))
		}
		return len(waits) == 0 && ms.cleansUp(stop), waits
	}
	for j := range ms.all {
		m := &ms.all[j]
		if j == i || m.hook == berth.HookPoststop {
			continue
		}
		switch {
		case m.behind(round) || m.state.Again && !m.dead(): // it is stopped first, so that a round begins with nothing running
			add(m, true)
		case hook == berth.HookPrestart:
		case m.hook == berth.HookPrestart:
			add(m, m.sidecar && !m.state.Up || !m.sidecar && !m.succeeded())
		case m.hook == "" && hook == berth.HookPoststart:
			add(m, !m.state.Up)
		}
	}
	return len(waits) == 0, waits
}

// orders says which tasks must end because of the others, or because stop says
// so: the leader first then, the others when it has ended. Sidecars end after
// what they run beside. Poststop tasks are not ended, but may not be wanted.
func orders(ms members, stop *task.Kill) map[string]task.Kill {
	out := map[string]task.Kill{}
	round := ms.round()
	// First what has happened, then what it means for each task.
	failed, leader := ms.failed(), ms.leader()
	beside := false // something lives that sidecars run beside
	for i := range ms.all {
		m := &ms.all[i]
		beside = beside || !m.sidecar && m.hook != berth.HookPoststop && (!m.dead() || m.behind(round))
	}
	for i := range ms.all {
		m := &ms.all[i]
		switch {
		case m.dead():
		case m.hook == berth.HookPoststop:
			if stop != nil && ms.over() && !ms.cleansUp(stop) {
				out[m.name] = *stop
			}
		case m.sidecar && !m.leader && beside && (stop == nil || stop.Event != berth.EventCutOff):
		case failed != nil:
			out[m.name] = siblingFailed(failed)
		case leader != nil && leader.dead() && !leader.behind(round):
			out[m.name] = task.Kill{Event: berth.EventLeaderDead, Reason: fmt.Sprintf("the group's leader, task %q, has ended", leader.name)}
		case stop != nil && (leader == nil || m.leader):
			out[m.name] = *stop
		case m.sidecar && !beside && ms.over():
			out[m.name] = task.Kill{Event: berth.EventMainDead, Reason: "the group's main tasks have ended"}
		}
		// Whatever the reason to end, an order to hurry holds for all.
		if k, ok := out[m.name]; ok && stop != nil && stop.NoDelay {
			k.NoDelay = true
			out[m.name] = k
		}
		// One that was ordered already is told again only if it shall hurry.
		if old := m.state.Kill; old != nil && (old.NoDelay || !out[m.name].NoDelay) {
			delete(out, m.name)
		}
	}
	return out
}

// failed returns a task whose failure ends the others, nil if there is none.
func (ms members) failed() *member {
	round := ms.round()
	for i := range ms.all {
		if m := &ms.all[i]; m.hook != berth.HookPoststop && m.dead() && m.state.Task.Failed && !m.behind(round) {
			return m
		}
	}
	return nil
}

// leader returns the task whose end is that of the others, nil if the group has
// none.
func (ms members) leader() *member {
	for i := range ms.all {
		if m := &ms.all[i]; m.leader && m.hook != berth.HookPoststop {
			return m
		}
	}
	return nil
}

// siblingFailed returns the order to end what a failed task takes with it.
func siblingFailed(failed *member) task.Kill {
	k := task.Kill{Event: berth.EventSiblingFailed, Sibling: failed.name, Reason: fmt.Sprintf("task %q of the group failed", failed.name)}
	if failed.hook != "" {
		k.Reason = fmt.Sprintf("the %s task %q of the group failed", failed.hook, failed.name)
	}
	return k
}
