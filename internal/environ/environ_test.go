package environ

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
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

// A process has no environment for a moment while it executes a program, and an
// environment of many variables takes longer to be set up and to be read. What is
// read is that of one program, and all of it.
func TestAProcessThatExecutesAnother(t *testing.T) {
	for others, looks := range map[int]int{0: 5_000, 100: 2_500, 20_000: 200} {
		t.Run(strconv.Itoa(others), func(t *testing.T) {
			env := []string{`loop=exec /bin/sh -c "$loop"`}
			for i := range others {
				env = append(env, fmt.Sprintf("V%d=%d", i, i))
			}
			pid := start(t, `eval "$loop"`, append(env, "MARK=here")...)
			without := 0
			for i := range looks {
				if env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ"); err == nil && !marked(env) {
					without++
				}
				if env := Of(pid); !marked(env) {
					t.Fatalf("look %d: the mark is not in the environment of %d bytes", i, len(env))
				}
			}
			t.Logf("a plain look did not see the mark %d times", without)
		})
	}
}

// marked reports whether an environment has the variable that the tests look for.
func marked(env []byte) bool { return slices.Contains(strings.Split(string(env), "\x00"), "MARK=here") }

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
