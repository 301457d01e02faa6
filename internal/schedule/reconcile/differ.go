package reconcile

import (
	"slices"

	"berth"
	"berth/internal/diff"
)

// Changes that a running task does not notice, or that its agent applies while
// it runs, are made in place. All others replace the allocation.

// groupInPlace are the fields of a group that can change without replacing its
// allocations.
var groupInPlace = map[string]bool{
	"Count": true, "Constraints": true, "Affinities": true, "Spreads": true, "RestartPolicy": true, "ReschedulePolicy": true,
	"Disconnect": true, "Update": true, "Migrate": true, "Services": true, "ShutdownDelay": true, "MaxRunDuration": true, "Scaling": true,
	"StopAfterClientDisconnect": true, "MaxClientDisconnect": true, "PreventRescheduleOnLost": true, "DependsOn": true,
}

// taskInPlace are the fields of a task that can change without replacing its
// allocations.
var taskInPlace = map[string]bool{
	"Constraints": true, "Affinities": true, "Services": true, "RestartPolicy": true, "KillTimeout": true, "KillSignal": true,
	"ShutdownDelay": true, "ScalingPolicies": true, "Actions": true, "Schedule": true,
}

// mustReplace reports whether an allocation of one version of a group must be
// replaced, with its tasks started again, to become one of the other version.
func mustReplace(oldJob *berth.Job, old *berth.TaskGroup, newJob *berth.Job, new *berth.TaskGroup) bool {
	if oldJob.Name != newJob.Name || !diff.Equal(oldJob.Meta, newJob.Meta) || !diff.Equal(oldJob.Payload, newJob.Payload) {
		return true // tasks see these in their environment
	}
	for _, c := range diff.Between(*old, *new) {
		switch {
		case c.Path[0] != "Tasks":
			if !groupInPlace[c.Path[0]] {
				return true
			}
		case len(c.Path) < 3: // a task came or went
			return true
		case !taskInPlace[c.Path[2]]:
			return true
		}
	}
	return false
}

// newConditions reports whether two versions of a group, which differ in nothing
// that replaces its allocations, say differently where they may run.
func newConditions(oldJob *berth.Job, old *berth.TaskGroup, newJob *berth.Job, new *berth.TaskGroup) bool {
	if oldJob.NodePool != newJob.NodePool || !slices.Equal(oldJob.Datacenters, newJob.Datacenters) ||
		!slices.Equal(oldJob.Constraints, newJob.Constraints) || !slices.Equal(old.Constraints, new.Constraints) {
		return true
	}
	return !slices.EqualFunc(old.Tasks, new.Tasks, func(a, b *berth.Task) bool { return slices.Equal(a.Constraints, b.Constraints) })
}
