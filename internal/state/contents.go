package state

import (
	"bufio"
	"cmp"
	"io"
	"slices"

	"berth"
)

// Content is how much of one kind a state holds.
type Content struct {
	Name  string
	Count int
	Bytes int64 // as saved, before compression
}

var contentNames = map[byte]string{
	recNamespace: "namespaces", recNode: "nodes", recJobVersion: "job_versions", recJob: "jobs", recHistory: "job_history", recSubmission: "job_submissions",
	recEval: "evals", recAlloc: "allocs", recDeployment: "deployments", recReschedules: "reschedules", recExplanation: "explanations",
	recScheduler: "scheduler_config", recNodePool: "node_pools", recScaling: "scaling_events", recService: "services", recAutopilot: "autopilot_config",
	recTrackedVersions: "tracked_versions", recDeletion: "deletions", recStream: "streams", recResource: "resources",
}

// Contents returns how much of each kind the state holds, of what there is
// any, the most bytes first.
func (s *Snapshot) Contents() []Content {
	sv := &saver{out: bufio.NewWriter(io.Discard), jobs: map[*berth.Job]uint64{}, tables: tablesOf(s.SavedVersion()), kinds: map[byte]*Content{}}
	sv.all(s)
	var out []Content
	for kind, c := range sv.kinds {
		if name, ok := contentNames[kind]; ok { // else it is no row
			out = append(out, Content{name, c.Count, c.Bytes})
		}
	}
	slices.SortFunc(out, func(a, b Content) int { return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Name, b.Name)) })
	return out
}
