package durable

import (
	"os"
	"path/filepath"
	"testing"
)

// A file is replaced as a whole, also one whose last writer died, and is its
// owner's alone.
func TestReplace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(path+".new", []byte("the start of something longer"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"first", "", "2"} {
		if err := Replace(path, []byte(want)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("read %q, %v; want %q", got, err, want)
		}
	}
	if s, err := os.Stat(path); err != nil || s.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", s.Mode(), err)
	}
	if _, err := os.Lstat(path + ".new"); !os.IsNotExist(err) {
		t.Errorf("%s.new is left: %v", path, err)
	}
}

// If the file cannot be replaced, it stays as it is.
func TestReplaceKeepsTheOldFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	if err := Replace(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path+".new", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Replace(path, []byte("new")); err == nil {
		t.Error("no error")
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "old" {
		t.Errorf("read %q, %v", got, err)
	}
}
