package driverconfig

import (
	"slices"

	"github.com/agext/levenshtein"
)

// foreign are well-known drivers of Nomad that Berth's agents do not have. Tasks
// that name them are accepted and wait for a node that has the driver.
var foreign = []string{
	"containerd-driver", "exec2", "firecracker-task-driver", "iis", "jail-task-driver", "nomad-driver-ch", "nspawn", "pot",
	"rkt", "singularity", "virt", "win_iis",
}

// Foreign returns the names of well-known drivers that Berth's agents do not
// have, in order.
func Foreign() []string { return slices.Clone(foreign) }

// IsForeign reports whether a name is that of such a driver.
func IsForeign(name string) bool { return slices.Contains(foreign, name) }

// Similar returns the known driver whose name is most like a name, or "" if none
// is. more are drivers besides Berth's own and the well-known ones.
func Similar(name string, more []string) string {
	best, least := "", max(1, len(name)/3)+1
	known := slices.Concat(Drivers(), foreign, more)
	slices.Sort(known)
	for _, k := range known {
		if n := levenshtein.Distance(name, k, nil); n < least {
			best, least = k, n
		}
	}
	return best
}
