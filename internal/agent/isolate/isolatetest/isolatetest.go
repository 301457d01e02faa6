// Package isolatetest starts the helpers and supervisors of a test, and finds the
// helpers, so that the test can kill them.
package isolatetest

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Command runs the test binary itself with the argument "supervise", on which its
// TestMain becomes a supervisor or a helper. Under the race detector a process
// sleeps for a second before it ends unless told not to.
func Command() []string {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return []string{"/usr/bin/env", "GORACE=atexit_sleep_ms=0", exe, "supervise"}
}

// Exit ends a helper, at once under the race detector too: in its box it cannot
// read the environment in which [Command] tells it so. What the detector found is
// not in its exit code.
func Exit(code int) { syscall.Exit(code) }

// Helpers returns the process IDs of the helpers of this program that do one of the
// given works, such as fetch.Word, once they have begun.
func Helpers(t *testing.T, words ...string) (pids []int) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		line, _ := os.ReadFile(p) // it may have ended
		if args := strings.Split(string(line), "\x00"); len(args) > 2 && args[0] == exe && slices.Contains(words, args[2]) {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(p))); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
