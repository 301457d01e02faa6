package agent

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"berth/internal/claim"
)

// Two agents share neither what they know nor the allocations; one that is
// refused holds nothing.
func TestHold(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	first, err := Hold(in("client"), in("alloc"), claim.Wait{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{{"client", "alloc"}, {"client", "alloc2"}, {"client2", "alloc"}} {
		_, err := Hold(in(c[0]), in(c[1]), claim.Wait{})
		held, ok := errors.AsType[*claim.HeldError](err)
		if !ok || held.Dir != in("client") && held.Dir != in("alloc") {
			t.Errorf("%s and %s: %v", c[0], c[1], err)
		}
	}
	second, err := Hold(in("client2"), in("alloc2"), claim.Wait{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []*Folders{first, second, second} {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if st, err := os.Stat(in("alloc")); err != nil || st.Mode().Perm() != 0o711 {
		t.Errorf("tasks of other users cannot pass: %v, %v", st, err)
	}
	if again, err := Hold(in("client"), in("alloc2"), claim.Wait{}); err != nil {
		t.Errorf("what was given up cannot be had: %v", err)
	} else {
		again.Close()
	}
}

// Directories that the agent makes let tasks of other users pass to their own;
// what is the agent's alone stays closed.
func TestDirectoriesLetTasksPass(t *testing.T) {
	data := filepath.Join(t.TempDir(), "var", "berth")
	f, err := Hold(filepath.Join(data, "client"), filepath.Join(data, "alloc"), claim.Wait{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for dir, others := range map[string]os.FileMode{filepath.Dir(data): 0o001, data: 0o001, filepath.Join(data, "client"): 0, filepath.Join(data, "alloc"): 0o001} {
		st, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if st.Mode()&0o007 != others {
			t.Errorf("%s has mode %v", dir, st.Mode())
		}
	}
}
