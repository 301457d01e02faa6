package claim

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// One has the folder until it gives it up, and the others are told who.
func TestTake(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "server.lock")
	first, err := Take(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Take(path)
	held, ok := errors.AsType[*HeldError](err)
	if !ok || held.Dir != dir || held.PID != os.Getpid() {
		t.Fatalf("the second is told %v", err)
	}
	if _, err := Take(filepath.Join(dir, "client.lock")); err != nil {
		t.Errorf("another use of the folder: %v", err)
	}
	for range 2 {
		if err := first.Close(); err != nil {
			t.Error(err)
		}
	}
	if second, err := Take(path); err != nil {
		t.Errorf("what was given up cannot be had: %v", err)
	} else if err := second.Close(); err != nil {
		t.Error(err)
	}
}

// What the file says is for people: nothing that stands in it keeps the folder
// from being claimed, and only a process's number is repeated.
func TestTakeWhatever(t *testing.T) {
	for _, text := range []string{"", "4711\n", "-3", "no number", strings.Repeat("9", 500)} {
		path := filepath.Join(t.TempDir(), "server.lock")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Take(path)
		if err != nil {
			t.Fatalf("%.20q: %v", text, err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = Take(path)
		held, ok := errors.AsType[*HeldError](err)
		want := 0
		if text == "4711\n" {
			want = 4711
		}
		if !ok || held.PID != want && len(text) < 20 || strings.Contains(err.Error(), "process") != (held.PID > 0) {
			t.Errorf("%.20q: %v", text, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A folder is claimed as such: nothing appears in it.
func TestTakeDir(t *testing.T) {
	dir := t.TempDir()
	first, err := TakeDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := TakeDir(dir); err == nil || err.Error() != "another agent uses the folder "+dir+"; each needs its own" {
		t.Errorf("the second is told %v", err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
		t.Errorf("in it are %v, %v", list, err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	second, err := TakeDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

func TestTakeRefuses(t *testing.T) {
	_, err := Take(filepath.Join(t.TempDir(), "none", "server.lock"))
	if _, held := errors.AsType[*HeldError](err); err == nil || held {
		t.Errorf("a folder that is not there: %v", err)
	}
}
