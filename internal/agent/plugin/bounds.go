package plugin

import (
	"berth/internal/limit"
)

// Limits of plugins, for docs/limits.md. They are enforced where the constants
// are used.
var _ = []*limit.Limit{
	limit.Bound("plugins", "Programs in the directory of plugins", limit.Count, int64(maxPlugins), "the agent does not start"),
	limit.Bound("plugin_devices", "Devices that a device plugin offers", limit.Count, int64(maxDevices), "the others are not offered"),
}
