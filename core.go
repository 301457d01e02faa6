package berth

// CoreNamespace is where evaluations of the system's own upkeep stand. No
// namespace can have this name, so they are of no job and in nobody's way.
const CoreNamespace = "-"

// CorePriority is that of evaluations of the system's own upkeep.
const CorePriority = 100

// CoreKey returns the key of evaluations that delete what is of no use any
// more: what is old, or all of it if forced. Each has a queue of its own, so
// none takes the place of the other.
func CoreKey(force bool) JobKey {
	if force {
		return JobKey{CoreNamespace, "force-gc"}
	}
	return JobKey{CoreNamespace, "gc"}
}
