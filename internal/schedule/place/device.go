package place

import (
	"berth"
	"berth/internal/fit"
)

// prefersDevices reports whether a group prefers some devices over others.
func prefersDevices(g *berth.TaskGroup) bool {
	for _, t := range g.Tasks {
		for i := range t.Resources.Devices {
			if len(t.Resources.Devices[i].Affinities) > 0 {
				return true
			}
		}
	}
	return false
}

// deviceScore returns the device score of a node, between -1 and 1: the weight
// of the preferences that the devices picked on the node meet, relative to the
// weight of all. It must only be called if the group [prefersDevices], because
// it picks the devices.
func deviceScore(w *fit.Request, u *fit.Usage) float64 { return w.DeviceAffinity(u) }
