//go:build faults

package failpoint

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	_ "berth/internal/onethread"
)

func enable(t *testing.T, spec string) {
	t.Helper()
	if err := Enable(spec); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(Reset)
}

func TestAPointThatIsNotSetDoesNothing(t *testing.T) {
	if err := Hit("a"); err != nil {
		t.Fatal(err)
	}
	enable(t, "b=error(x)")
	if err := Hit("a"); err != nil {
		t.Fatal(err)
	}
}

func TestPassesAreCounted(t *testing.T) {
	for spec, want := range map[string]string{
		"p=error":      "x....",
		"p=error(no)*": "xxxxx",
		"p=error@3":    "..x..",
		"p=error@3*":   "..xxx",
	} {
		enable(t, spec)
		got := ""
		for range 5 {
			err := Hit("p")
			switch {
			case err == nil:
				got += "."
			case errors.Is(err, ErrInjected):
				got += "x"
			}
		}
		if got != want {
			t.Errorf("%s: passes %s, want %s", spec, got, want)
		}
		Reset()
	}
}

func TestChancePicks(t *testing.T) {
	enable(t, "p=error*~0.5")
	acted := 0
	for range 1000 {
		if Hit("p") != nil {
			acted++
		}
	}
	if acted < 300 || acted > 700 {
		t.Errorf("acted at %d of 1000 passes", acted)
	}
}

// A process follows its file: what is set there begins and ends while it runs.
func TestPointsOfAFile(t *testing.T) {
	if name := os.Getenv("FAILPOINT_FILE"); name != "" {
		for Hit("p") == nil {
			time.Sleep(time.Millisecond)
		}
		if os.WriteFile(name, nil, 0o600) != nil {
			os.Exit(1)
		}
		for Hit("p") != nil {
			time.Sleep(time.Millisecond)
		}
		os.Exit(0)
	}
	name := filepath.Join(t.TempDir(), "points")
	cmd := exec.Command(os.Args[0], "-test.run=^TestPointsOfAFile$")
	cmd.Env = []string{"FAILPOINT_FILE=" + name, Env + "=@" + name}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte("p=error*"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestDelayWaits(t *testing.T) {
	enable(t, "d=delay(1h)")
	synctest.Test(t, func(t *testing.T) {
		from := time.Now()
		if err := Hit("d"); err != nil || time.Since(from) != time.Hour {
			t.Errorf("waited %v, error %v", time.Since(from), err)
		}
	})
}

func TestHangEndsWithReset(t *testing.T) {
	enable(t, "h=hang")
	done := make(chan error)
	go func() { done <- Hit("h") }()
	for { // until it hangs
		mu.Lock()
		n := points["h"].passes
		mu.Unlock()
		if n == 1 {
			break
		}
	}
	select {
	case <-done:
		t.Fatal("did not hang")
	default:
	}
	Reset()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestExitEndsTheProcess(t *testing.T) {
	if os.Getenv("FAILPOINT_CHILD") != "" {
		_ = Hit("first")
		_ = Hit("last")
		os.Exit(0)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestExitEndsTheProcess$")
	cmd.Env = []string{"FAILPOINT_CHILD=1", Env + "=last=exit"}
	_ = cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != ExitCode {
		t.Fatalf("exit code %d, want %d", got, ExitCode)
	}
}

func TestWrongSpecs(t *testing.T) {
	for _, spec := range []string{"a", "=exit", "a=jump", "a=exit@0", "a=error@x", "a=delay(soon)", "a=error*~0", "a=error*~2", "a=error*~x"} {
		if err := Enable(spec); err == nil {
			t.Errorf("%q was accepted", spec)
			Reset()
		}
	}
}

func BenchmarkOff(b *testing.B) {
	for b.Loop() {
		_ = Hit("nothing")
	}
}
