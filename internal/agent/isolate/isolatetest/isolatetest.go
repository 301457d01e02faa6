// Package isolatetest finds the helpers that a test has started, so that it can
// kill them.
package isolatetest

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

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
