package hostvolume

import (
	"berth/internal/limit"
)

// Limits of host volumes, for docs/limits.md. They are enforced where the
// constants are used.
var _ = []*limit.Limit{
	limit.Bound("volume_plugin_output", "Bytes of the output of a plugin of host volumes", limit.Bytes, int64(maxOutput), "the rest is not read"),
	limit.Bound("volume_plugins", "Files of the directory of plugins of host volumes", limit.Count, int64(maxPlugins), "the rest is not looked at"),
}
