package isolated

import (
	"runtime"
	"strings"
	"testing"

	"berth/internal/agent/driver"
	"berth/internal/agent/driver/drivertest"
	"berth/internal/agent/driver/raw"
)

// leastControls is how many probes have to get out of a task that is not
// isolated. Fewer would mean that the probes are broken: what a machine does not
// even offer to root is a handful.
const leastControls = 60

// got runs all probes in one task of the driver, as root, and returns those that
// got out.
func got(t *testing.T, d driver.Driver, all []drivertest.Probe, env []string) map[string]bool {
	t.Helper()
	s := suite()
	task := s.Alloc(t)(1, nil)
	task.Config = sh(drivertest.ProbeScript(all))
	task.Env = append(append(task.Env, env...), "TASKDIR="+task.Dir, drivertest.ProbePath)
	task.User = "root"
	h, err := d.Start(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := h.Wait(t.Context()); err != nil || !e.Success() {
		t.Fatalf("%+v, %v", e, err)
	}
	return drivertest.GotOut(t, drivertest.Output(t, task, "stdout"))
}

// None of the ways out of drivertest works for a task of exec, run as
// root, and each works without isolation.
func TestNothingEscapes(t *testing.T) {
	d := Exec(Config{})
	needs(t, d)
	if runtime.GOARCH != "amd64" {
		t.Skip("the probes have the numbers of system calls of amd64")
	}
	all, env := drivertest.Probes(), drivertest.Lures(t)
	isolated := got(t, d, all, env)
	for _, p := range all {
		if isolated[p.Name] {
			t.Errorf("%s: a task got out by %s", p.Name, p.Script)
		}
	}
	control := got(t, raw.New(raw.Config{Enabled: true}), all, env)
	var not []string
	for _, p := range all {
		if !control[p.Name] {
			not = append(not, p.Name)
		}
	}
	t.Logf("%d probes, of which this machine refuses %d to root without isolation: %s", len(all), len(not), strings.Join(not, ", "))
	if n := len(all) - len(not); n < leastControls {
		t.Errorf("only %d probes work without isolation; at least %d must", n, leastControls)
	}
}
