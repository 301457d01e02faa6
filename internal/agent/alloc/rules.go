// Package alloc runs one allocation: its directory, its supervisor, its tasks,
// and what they mean to each other. A failed task ends its siblings, a leader's
// end ends the others, a stop waits for the group's shutdown delay. What
// happens to one task is package task's business.
package alloc

import (
	"fmt"
	"maps"
	"slices"

	"berth"
	"berth/internal/agent/task"
)

// Status says how an allocation fares, and why, from how its tasks fare.
//
// It has ended only when all of them have: servers give its room and its ports
// to others then. Until that a task's failure shows in the task's own state.
func Status(tasks map[string]*berth.TaskState) (berth.ClientStatus, string) {
	dead, running, ran := 0, 0, 0
	failed := ""
	// In order of name, so that the same tasks always give the same answer.
	for _, name := range slices.Sorted(maps.Keys(tasks)) {
		switch s := tasks[name]; {
		case s.State == berth.TaskDead:
			dead++
			if s.Failed && failed == "" {
				failed = name
			}
		case s.State == berth.TaskRunning:
			running++
		case !s.StartedAt.IsZero():
			ran++
		}
	}
	// A group fails only when all of it is dead: until then its siblings are
	// still being stopped.
	switch {
	case dead == len(tasks) && failed != "":
		return berth.ClientFailed, "Failed tasks"
	case dead == len(tasks):
		return berth.ClientComplete, "All tasks have completed"
	case running > 0:
		return berth.ClientRunning, "Tasks are running"
	case dead > 0:
		return berth.ClientRunning, "Some tasks have ended"
	case ran > 0:
		return berth.ClientPending, "Tasks wait to be started again"
	}
	return berth.ClientPending, "No tasks have started"
}

// member is one task of an allocation as the rules see it.
type member struct {
	name   string
	leader bool // when it ends, the others are ended
	state  task.State
}

// orders says which tasks must end because of the others, or because stop says
// so: the leader first then, the others when it has ended.
func orders(tasks []member, stop *task.Kill) map[string]task.Kill {
	out := map[string]task.Kill{}
	var failed, leader *member
	// First what has happened, then what it means for each task.
	for i := range tasks {
		m := &tasks[i]
		if m.leader {
			leader = m
		}
		if m.state.Phase == task.Dead && m.state.Task.Failed && failed == nil {
			failed = m
		}
	}
	for _, m := range tasks {
		switch {
		case m.state.Phase == task.Dead:
		case failed != nil:
			out[m.name] = task.Kill{Event: berth.EventSiblingFailed, Reason: fmt.Sprintf("task %q of the group failed", failed.name)}
		case leader != nil && leader.state.Phase == task.Dead:
			out[m.name] = task.Kill{Event: berth.EventLeaderDead, Reason: fmt.Sprintf("the group's leader, task %q, has ended", leader.name)}
		case stop != nil && (leader == nil || m.leader):
			out[m.name] = *stop
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
