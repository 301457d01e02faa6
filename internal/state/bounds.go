package state

import (
	"berth/internal/limit"
)

// Limits of what the state keeps and of what one command changes, for docs/limits.md. They are enforced where the
// constants are used.
var _ = []*limit.Limit{
	limit.Bound("tracked_versions", "Setting of how many versions of a job are kept", limit.Count, int64(MaxTrackedVersions), "the request is refused (400)"),
	limit.Bound("version_tag_name", "Bytes of the name of a version tag", limit.Bytes, int64(MaxTagName), "the request is refused (400)"),
	limit.Bound("version_tag_description", "Bytes of the description of a version tag", limit.Bytes, int64(MaxTagDescription), "the request is refused (400)"),
	limit.Bound("stream_predecessors", "Earlier incarnations that a stream job lists", limit.Count, int64(MaxPredecessors), "the oldest are left out"),
	limit.Bound("zombies_per_element", "Failed allocations of a processing element that are kept whatever their age", limit.Count, int64(MaxZombies), "older ones are collected by age"),
	limit.Bound("objects_per_stream_job", "Objects of a stream job", limit.Count, int64(MaxPlanObjects), "the job is refused (400)"),
	limit.Bound("scaling_message", "Bytes of the message of a scaling", limit.Bytes, int64(MaxScalingMessage), "the request is refused (400)"),
	limit.Bound("scaling_meta", "Bytes of the meta of a scaling, as JSON", limit.Bytes, int64(MaxScalingMeta), "the request is refused (400)"),
	limit.Bound("stream_error", "Bytes of why a submission was given up", limit.Bytes, int64(MaxStreamError), "the rest is cut off"),
	limit.Bound("one_time_secret", "Bytes of the encrypted secret of a one-time token", limit.Bytes, int64(maxSealed), "the request is refused (400)"),
	limit.Bound("csi_plugins_per_node", "CSI plugins of a node, of each kind", limit.Count, int64(maxPlugins), "the node is refused (400)"),
	limit.Bound("service_id", "Bytes of the ID of a service registration", limit.Bytes, int64(maxServiceID), "the request is refused (400)"),
	limit.Bound("service_meta", "Entries of the meta of a service registration", limit.Count, int64(maxServiceMeta), "the request is refused (400)"),
	limit.Bound("acl_rows_per_request", "Tokens, policies or roles that one request changes", limit.Count, int64(MaxACLRows), "the request is refused (400)"),
	limit.Bound("namespaces_per_request", "Namespaces that one request changes", limit.Count, int64(MaxNamespaces), "the request is refused (400)"),
	limit.Bound("node_pools_per_request", "Node pools that one request changes", limit.Count, int64(MaxPools), "the request is refused (400)"),
	limit.Bound("quotas_per_request", "Quotas that one request changes", limit.Count, int64(MaxQuotas), "the request is refused (400)"),
	limit.Bound("services_per_report", "Service registrations that one report of an agent changes", limit.Count, int64(MaxServiceBatch), "the agent sends several"),
	limit.Bound("rows_per_deletion", "Rows that one command deletes", limit.Count, int64(MaxDeletes), "several commands delete them; a request that names more is refused (400)"),
	limit.Bound("recoveries_per_command", "Stream jobs that one command restarts", limit.Count, int64(MaxRecover), "several commands restart them"),
	limit.Bound("objects_per_command", "Objects of a stream job that one command creates or removes", limit.Count, int64(MaxResources), "several commands do"),
	limit.Bound("deletions_per_command", "Deleted jobs that one command removes", limit.Count, int64(MaxFinalize), "several commands remove them"),
}
