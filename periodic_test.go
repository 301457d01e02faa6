package berth_test

import (
	"slices"
	"testing"

	"berth"
)

func TestLocalPath(t *testing.T) {
	for _, bad := range []string{"", "/x", "../x", "a/../../x", "a//b", ".", "..", "a\\b", "a\x00"} {
		if berth.LocalPath(bad) {
			t.Errorf("%q is a path of the task's own", bad)
		}
	}
	if !slices.ContainsFunc([]string{"a", "a/b.json", "..a"}, berth.LocalPath) {
		t.Error("a path of the task's own is refused")
	}
}
