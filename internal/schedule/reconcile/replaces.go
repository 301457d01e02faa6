package reconcile

import "berth"

// Replaces reports whether the change of one task, by itself, replaces the
// allocations that run it.
func Replaces(old, new *berth.Task) bool {
	j := &berth.Job{}
	return mustReplace(j, &berth.TaskGroup{Tasks: []*berth.Task{old}}, j, &berth.TaskGroup{Tasks: []*berth.Task{new}})
}
