// Package alloc runs one allocation: its directory, its supervisor, its tasks,
// and what they mean to each other. Tasks start in the order of their
// lifecycles, a failed task ends its siblings, a leader's end ends the others,
// a stop waits for the group's shutdown delay. What
// happens to one task is package task's business.
package alloc

import (
	"maps"
	"slices"

	"berth"
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
