package config

import (
	"berth/internal/limit"
)

// Limits of configuration, for docs/limits.md. They are enforced where the
// constants are used.
var _ = []*limit.Limit{
	limit.Bound("configured_servers", "Setting of how many servers a cluster has", limit.Count, int64(maxServers), "the agent does not start"),
	limit.Bound("configuration_files", "Files of a configuration directory", limit.Count, int64(maxFiles), "the agent does not start"),
	limit.Bound("configuration_bytes", "Bytes of a configuration file", limit.Bytes, int64(maxFile), "the agent does not start"),
	limit.Bound("configuration_nesting", "Blocks and lists inside each other in a configuration file", limit.Count, int64(maxNesting), "the agent does not start"),
	limit.Bound("allocations_per_supervisor", "Setting of how many allocations share a supervisor", limit.Count, int64(maxShared), "the agent does not start"),
	limit.Bound("ui_label", "Characters of the label of the web UI", limit.Count, int64(maxLabel), "the agent does not start"),
}
