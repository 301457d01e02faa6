package api

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth"
	"berth/internal/admit"
	"berth/internal/driverconfig"
	"berth/internal/state"
)

// warnings returns what a user should know about a valid job, one line each: of
// how it was completed, of the job itself, and of the cluster that it is for.
func warnings(w *Write, j *berth.Job) string {
	return strings.Join(slices.Concat(w.notes, admit.Warnings(j), driverWarnings(w.Snapshot, j)), "\n")
}

// driverWarnings says which drivers of a job no node has, and why that may be.
// The job is accepted, because a node with the driver may still join. Of a cluster
// without nodes that is known, so only names that Berth's agents never have are
// worth a line.
func driverWarnings(s *state.Snapshot, j *berth.Job) (out []string) {
	missing := map[string]string{} // driver to the first task that names it
	for _, g := range j.TaskGroups {
		for _, t := range g.Tasks {
			if missing[t.Driver] == "" {
				missing[t.Driver] = fmt.Sprintf("group %q, task %q", g.Name, t.Name)
			}
		}
	}
	others, nodes := map[string]bool{}, false
	for n := range s.Nodes() {
		nodes = true
		if len(missing) == 0 {
			return nil
		}
		for name, d := range n.Drivers {
			if d != nil && d.Detected {
				delete(missing, name)
				others[name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		if !nodes && driverconfig.Of(name) != nil {
			continue
		}
		out = append(out, missing[name]+": "+noDriver(name, slices.Sorted(maps.Keys(others))))
	}
	return out
}

// noDriver says that no node has a driver. A name that is known has another
// remedy than one that is mistyped.
func noDriver(name string, others []string) string {
	const waits = "the job waits until such a node joins"
	if driverconfig.IsForeign(name) {
		return fmt.Sprintf("no node has the driver %s, and agents of this build do not support it (they have %s); %s",
			name, strings.Join(driverconfig.Drivers(), ", "), waits)
	}
	if needs := driverconfig.Needs(name); needs != "" {
		return fmt.Sprintf("no node has the driver %s; an agent has it while %s", name, needs)
	}
	if driverconfig.Of(name) != nil {
		return fmt.Sprintf("no node has the driver %s; an agent has it once its configuration enables it with plugin %q { config { enabled = true } }", name, name)
	}
	if similar := driverconfig.Similar(name, others); similar != "" {
		return fmt.Sprintf("no node has a driver %q; did you mean %s? Otherwise %s", berth.Clip(name, 64), similar, waits)
	}
	return fmt.Sprintf("no node has a driver %q; %s", berth.Clip(name, 64), waits)
}
