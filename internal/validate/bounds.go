package validate

import (
	"berth"
	"berth/internal/limit"
)

// Limits of other objects that people write, for docs/limits.md. They are enforced where the
// constants are used.
var _ = []*limit.Limit{
	limit.Bound("variable_path", "Bytes of the path of a variable", limit.Bytes, int64(berth.MaxVariablePath), "the request is refused (400)"),
	limit.Bound("variable_bytes", "Bytes of the names and values of a variable's items", limit.Bytes, int64(berth.MaxVariableSize), "413"),
	limit.Bound("variable_lock_ttl", "Time to live of the lock of a variable", limit.Time, int64(berth.MaxLockTTL), "the request is refused (400)"),
	limit.Bound("volume_topologies", "Topologies that a CSI volume is asked for in", limit.Count, int64(maxTopologies), "the request is refused (400)"),
	limit.Bound("csi_plugin_text", "Bytes of the name, version and node ID that a CSI plugin says", limit.Bytes, int64(maxPluginText), "the plugin is not healthy"),
	limit.Bound("volume_parameters", "Parameters of a volume", limit.Count, int64(maxVolumeMap), "the request is refused (400)"),
	limit.Bound("volume_text", "Bytes of a key or value of a volume", limit.Bytes, int64(maxVolumeText), "the request is refused (400)"),
	limit.Bound("volume_capabilities", "Capabilities of a volume", limit.Count, int64(maxVolumeCapabilities), "the request is refused (400)"),
	limit.Bound("volume_capacity", "Capacity that a volume may ask for", limit.Bytes, int64(MaxVolumeBytes), "the request is refused (400)"),
	limit.Bound("namespace_description", "Bytes of the description of a namespace", limit.Bytes, int64(maxNamespaceDescription), "the request is refused (400)"),
	limit.Bound("extra_claims", "Extra claims that a namespace defines", limit.Count, int64(maxClaims), "the request is refused (400)"),
	limit.Bound("extra_claim_text", "Bytes of the text of an extra claim, as a namespace defines it", limit.Bytes, int64(maxClaimText), "the request is refused (400)"),
	limit.Bound("extra_claim_value", "Bytes of an extra claim in an identity", limit.Bytes, int64(maxClaimValue), "the job is refused (400); if its namespace changes later, its identities are not signed"),
	limit.Bound("node_pool_description", "Bytes of the description of a node pool", limit.Bytes, int64(maxPoolDescription), "the request is refused (400)"),
	limit.Bound("node_pool_name", "Bytes of the name of a node pool", limit.Bytes, int64(maxPoolName), "the request is refused (400)"),
	limit.Bound("starts_per_node", "Setting of how many starts a node may have at a time", limit.Count, int64(maxStartsPerNode), "the request is refused (400)"),
	limit.Bound("quota_description", "Bytes of the description of a quota", limit.Bytes, int64(maxQuotaDescription), "the request is refused (400)"),
	limit.Bound("quota_limits", "Regions of a quota, and node pools and devices in each", limit.Count, int64(maxQuotaLimits), "the request is refused (400)"),
	limit.Bound("acl_links", "Policies or roles of a token or role", limit.Count, int64(maxACLLinks), "the request is refused (400)"),
}
