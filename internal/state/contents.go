package state

import (
	"cmp"
	"slices"

	"berth"
	"berth/internal/state/codec"
)

// Content is how much a state holds of one kind of row.
type Content struct {
	Name  string
	Count int
	Bytes int64 // as saved, before compression
}

// contentNames has the names of the kinds of records that are counted.
var contentNames = map[codec.Kind]string{
	codec.Namespace: "namespaces", codec.Node: "nodes", codec.JobVersion: "job_versions", codec.Job: "jobs", codec.History: "job_history", codec.Submission: "job_submissions",
	codec.Eval: "evals", codec.Alloc: "allocs", codec.Deployment: "deployments", codec.Reschedules: "reschedules", codec.Explanation: "explanations",
	codec.Scheduler: "scheduler_config", codec.NodePool: "node_pools", codec.Scaling: "scaling_events", codec.Service: "services", codec.Autopilot: "autopilot_config",
	codec.TrackedVersions: "tracked_versions", codec.Deletion: "deletions", codec.Stream: "streams", codec.Resource: "resources",
	codec.RootKey: "root_keys", codec.Variable: "variables",
	codec.ACLToken: "acl_tokens", codec.ACLPolicy: "acl_policies", codec.ACLRole: "acl_roles",
	codec.ACLAuthMethod: "acl_auth_methods", codec.ACLBindingRule: "acl_binding_rules", codec.ACLOneTimeToken: "acl_one_time_tokens",
	codec.Quota: "quotas", codec.HostVolume: "host_volumes", codec.HostVolumeClaim: "host_volume_claims",
	codec.CSIVolume: "csi_volumes", codec.CSIClaim: "csi_claims", codec.CSIPlugin: "csi_plugins",
}

// Contents returns how much the state holds of each kind of row that occurs,
// the largest first.
func (s *Snapshot) Contents() []Content {
	sv := &saver{SnapshotWriter: codec.NewSnapshotSum(), jobs: map[*berth.Job]uint64{}, tables: tablesOf(s.SavedVersion())}
	sv.all(s)
	var out []Content
	for kind, c := range sv.Sizes() {
		if name, ok := contentNames[kind]; ok { // other records are not rows
			out = append(out, Content{name, c.Count, c.Bytes})
		}
	}
	slices.SortFunc(out, func(a, b Content) int { return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Name, b.Name)) })
	return out
}
