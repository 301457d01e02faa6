package eventually

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// NoLeaks waits until no goroutines are left except those that options ignore,
// and returns an error that describes them if some are left after Limit. goleak
// alone waits less than half a second, which is not enough for a goroutine that
// ends at a timeout of its own.
func NoLeaks(options ...goleak.Option) error {
	for end := time.Now().Add(Limit); ; {
		if err := goleak.Find(options...); err == nil || time.Now().After(end) {
			return err
		}
	}
}

// Main runs the tests of a package and ends the process. It fails if the tests
// leave goroutines behind.
func Main(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := NoLeaks(); err != nil {
			fmt.Fprintln(os.Stderr, "the tests passed and left goroutines behind:", err)
			code = 1
		}
	}
	os.Exit(code)
}
