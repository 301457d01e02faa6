package isolated

import (
	"runtime"
	"slices"
	"testing"

	"berth/internal/agent/driver/drivertest"
)

// The tests of this file are rows of docs/advisories.md. Each runs those probes of
// drivertest that do what an advisory is about; TestNothingEscapes runs
// all, and shows that they work without isolation.

// none checks that none of the probes of these names gets out of a task of exec.
func none(t *testing.T, names ...string) {
	t.Helper()
	d := Exec(Config{})
	needs(t, d)
	if runtime.GOARCH != "amd64" {
		t.Skip("the probes have the numbers of system calls of amd64")
	}
	var some []drivertest.Probe
	for _, p := range drivertest.Probes() {
		if slices.Contains(names, p.Name) {
			some = append(some, p)
		}
	}
	if len(some) != len(names) {
		t.Fatalf("of the probes %v there are %v", names, some)
	}
	out := got(t, d, some, drivertest.Lures(t))
	for _, name := range names {
		if out[name] {
			t.Errorf("%s: it got out", name)
		}
	}
}

// C33: a task cannot send frames or packets of its own making, so it cannot take
// the place of another on their network.
func TestAdvisory_C33_NoRawSockets(t *testing.T) {
	none(t, "raw-socket", "packet-socket")
}

// C34: a task sees no process and no shared memory of the host.
func TestAdvisory_C34_NoProcessesOfTheHost(t *testing.T) {
	none(t, "see-a-process", "signal-a-process", "trace-a-process", "hold-a-process", "read-the-environment-of-a-process", "read-the-environment-of-the-agent", "read-by-root-of-a-process",
		"shared-memory-of-the-host", "shared-memory-segment", "join-the-processes-of-the-host")
}

// C44: a task that runs as root has none of its rights.
func TestAdvisory_C44_RightsAreDropped(t *testing.T) {
	none(t, "have-capabilities", "gain-capabilities", "gain-rights-by-exec", "become-another-user", "give-a-file-away", "change-the-root", "mount-a-file-system")
}
