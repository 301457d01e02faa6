//go:build !faults

package failpoint

import (
	"fmt"
	"os"
)

// Enabled reports whether this build has fault points.
const Enabled = false

// Check returns an error if the environment asks for fault points, which this
// build does not have.
func Check() error {
	if os.Getenv(Env) == "" {
		return nil
	}
	return fmt.Errorf("%s is set, but this build has no fault points: unset it, or build with -tags faults", Env)
}

// Hit does nothing.
func Hit(string) error { return nil }

// On reports whether any point is set: none is.
func On() bool { return false }
