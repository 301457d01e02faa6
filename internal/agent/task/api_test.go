package task

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/agent/secretdir"
	"berth/internal/saferoot"
)

// The socket of a task is made again over whatever the task put in its place, and
// nothing outside changes.
func TestTheSocketOfATask(t *testing.T) {
	t.Run("on disk", func(t *testing.T) { socketOfATask(t, false) })
	t.Run("in memory", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("needs root, to mount")
		}
		socketOfATask(t, true)
	})
}

func socketOfATask(t *testing.T, inMemory bool) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 40)) // beyond what a socket's address can hold
	for _, d := range []string{"app/secrets", "app/local"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := saferoot.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if inMemory {
		if err := secretdir.Mount(root, "app/secrets", 1, 0o700); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = secretdir.Unmount(root, "app/secrets") }()
	}
	at := filepath.Join(dir, "app/secrets/api.sock")
	for name, put := range map[string]func() error{
		"nothing":     func() error { return nil },
		"a link":      func() error { return os.Symlink(outside, at) },
		"a directory": func() error { return os.MkdirAll(at+"/full", 0o700) },
		"a file":      func() error { return os.WriteFile(at, nil, 0o600) },
	} {
		if err := os.RemoveAll(at); err != nil {
			t.Fatal(err)
		}
		if err := put(); err != nil {
			t.Fatal(err)
		}
		ln, err := listenIn(root, "app")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		st, err := os.Lstat(at)
		if err != nil || st.Mode().Type() != os.ModeSocket || st.Mode().Perm() != 0o666 {
			t.Errorf("%s: %v, %v", name, st, err)
		}
		secrets, err := root.Sub("app/secrets")
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("unix", secrets.ProcPath()+"/api.sock")
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else {
			c.Close()
		}
		secrets.Close()
		ln.Close()
	}
	if st, err := os.Stat(outside); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("a file outside: %v, %v", st, err)
	}
	if err := secretdir.Unmount(root, "app/secrets"); err != nil {
		t.Fatal(err)
	}
	// A link in place of the directory is refused.
	if err := os.RemoveAll(filepath.Join(dir, "app/secrets")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), filepath.Join(dir, "app/secrets")); err != nil {
		t.Fatal(err)
	}
	if _, err := listenIn(root, "app"); err == nil {
		t.Error("a link in place of secrets was followed")
	}
}
