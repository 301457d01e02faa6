package environ

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// start starts a shell that runs a script until the test ends.
func start(t *testing.T, script string, env ...string) (pid int) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Env = env
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd.Process.Pid
}

// cmdline is what a process executes, with its arguments.
func cmdline(pid int) string {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	return string(b)
}

// A process has no environment for a moment while it executes a program.
func TestAProcessThatExecutesAnother(t *testing.T) {
	pid := start(t, `eval "$loop"`, `loop=exec /bin/sh -c "$loop"`, "MARK=here")
	without := 0
	for i := range 5_000 {
		if env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ"); err == nil && len(env) == 0 {
			without++
		}
		if env := "\x00" + string(Of(pid)); !strings.Contains(env, "\x00MARK=here\x00") {
			t.Fatalf("look %d: the environment is %q", i, env)
		}
	}
	t.Logf("a plain look saw none %d times", without)
}

// An environment of no variables is not waited for.
func TestNone(t *testing.T) {
	pid := start(t, "exec /usr/bin/env -i /bin/sleep 1000")
	for !strings.HasPrefix(cmdline(pid), "/bin/sleep") {
		time.Sleep(time.Millisecond)
	}
	ended := exec.Command("/bin/true")
	if err := ended.Start(); err != nil {
		t.Fatal(err)
	}
	for zombie := false; !zombie; {
		_, err := os.Readlink("/proc/" + strconv.Itoa(ended.Process.Pid) + "/exe")
		zombie = err != nil
	}
	for name, pid := range map[string]int{"no variables": pid, "one that has ended": ended.Process.Pid, "nobody": 1 << 30} {
		began := time.Now()
		for range 100 { // far less than waiting 100 times
			if env := Of(pid); len(env) > 0 {
				t.Errorf("%s: %q", name, env)
			}
		}
		if took := time.Since(began); took > 50*wait {
			t.Errorf("%s: it waits: %v", name, took)
		}
	}
	if err := ended.Wait(); err != nil {
		t.Error(err)
	}
}
