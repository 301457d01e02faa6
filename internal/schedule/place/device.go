package place

import (
	"berth"
	"berth/internal/fit"
)

// prefersDevices says whether a group prefers some devices over others.
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

// deviceScore is the scorer for devices: the weight of what the group prefers
// that the devices have which it would be given on the node, in proportion to
// all it prefers. Between -1 and 1; 0 says nothing. To be asked if the
// group [prefersDevices] alone: it works out what would be given.
func deviceScore(w *fit.Request, u *fit.Usage) float64 { return w.DeviceAffinity(u) }
