package task

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth"
)

// A task of another user needs all directories above its own to let it pass. If
// one does not, the error names it, and what to do.
func TestDirectoriesThatLetNobodyPass(t *testing.T) {
	top, err := os.MkdirTemp("/tmp", "passes")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	dir := filepath.Join(top, "data", "alloc", "id")
	if err := os.MkdirAll(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(top, 0o711); err != nil {
		t.Fatal(err)
	}
	const uid = 65534
	if err := passes(dir, "nobody", uid); err != nil {
		t.Errorf("all let pass: %v", err)
	}
	closed := filepath.Join(top, "data")
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	err = passes(dir, "nobody", uid)
	if berth.KindOf(err) != berth.Denied || !strings.Contains(err.Error(), closed+" (mode 0700)") || !strings.Contains(err.Error(), "chmod o+x "+closed) {
		t.Errorf("%s lets nobody pass: %v", closed, err)
	}
	if err := passes(dir, "me", os.Getuid()); err != nil {
		t.Errorf("its owner may pass: %v", err)
	}
}
