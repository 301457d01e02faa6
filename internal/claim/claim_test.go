package claim

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// One has the folder until it gives it up, and the others are told who.
func TestTake(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "server.lock")
	first, err := Take(path, Wait{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Take(path, Wait{})
	held, ok := errors.AsType[*HeldError](err)
	if !ok || held.Dir != dir || held.PID != os.Getpid() {
		t.Fatalf("the second is told %v", err)
	}
	if _, err := Take(filepath.Join(dir, "client.lock"), Wait{}); err != nil {
		t.Errorf("another use of the folder: %v", err)
	}
	for range 2 {
		if err := first.Close(); err != nil {
			t.Error(err)
		}
	}
	if second, err := Take(path, Wait{}); err != nil {
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
		c, err := Take(path, Wait{})
		if err != nil {
			t.Fatalf("%.20q: %v", text, err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = Take(path, Wait{})
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
	first, err := TakeDir(dir, Wait{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := TakeDir(dir, Wait{}); err == nil || err.Error() != "another agent uses the directory "+dir+"; each agent needs its own" {
		t.Errorf("the second is told %v", err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
		t.Errorf("in it are %v, %v", list, err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	second, err := TakeDir(dir, Wait{})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

func TestTakeRefuses(t *testing.T) {
	_, err := Take(filepath.Join(t.TempDir(), "none", "server.lock"), Wait{})
	if _, held := errors.AsType[*HeldError](err); err == nil || held {
		t.Errorf("a folder that is not there: %v", err)
	}
}

// waiting is a log that closes the channel when a claim says that it waits.
func waiting() (Wait, <-chan struct{}, *bytes.Buffer) {
	said, out := make(chan struct{}), new(bytes.Buffer)
	return Wait{Most: time.Hour, Log: slog.New(slog.NewTextHandler(writer(func(b []byte) (int, error) {
		out.Write(b)
		close(said) // panics if it is said twice
		return len(b), nil
	}), nil))}, said, out
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// A child that the last agent was just starting when it was killed has copies
// of all its files, the claim's too, until it executes its own program.
func TestAClaimWaitsForWhatIsLeftOfTheLastProcess(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "client.lock")
	for name, take := range map[string]func(Wait) (*Claim, error){
		"file":   func(w Wait) (*Claim, error) { return Take(path, w) },
		"folder": func(w Wait) (*Claim, error) { return TakeDir(dir, w) },
	} {
		first, err := take(Wait{})
		if err != nil {
			t.Fatal(err)
		}
		child := exec.Command("sleep", "1000")
		child.ExtraFiles = []*os.File{first.file}
		if err := errors.Join(child.Start(), first.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := take(Wait{}); !errors.As(err, new(*HeldError)) {
			t.Errorf("%s: without waiting: %v", name, err)
		}
		if _, err := take(Wait{Most: 1}); !errors.As(err, new(*HeldError)) {
			t.Errorf("%s: after waiting in vain: %v", name, err)
		}
		w, said, log := waiting()
		done := make(chan error)
		go func() {
			second, err := take(w)
			if err == nil {
				err = second.Close()
			}
			done <- err
		}()
		<-said
		_ = child.Process.Kill()
		_ = child.Wait()
		if err := <-done; err != nil {
			t.Errorf("%s: after the last holder has ended: %v", name, err)
		}
		if !strings.Contains(log.String(), "dir="+dir) {
			t.Errorf("%s: the log says %s", name, log)
		}
	}
}

// What a process starts outlives it without its claims.
func TestNoProgramInheritsAClaim(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "client.lock")
	file, err := Take(path, Wait{})
	if err != nil {
		t.Fatal(err)
	}
	folder, err := TakeDir(dir, Wait{})
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command("sleep", "1000")
	if err := errors.Join(child.Start(), file.Close(), folder.Close()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	}()
	if file, err = Take(path, Wait{}); err != nil {
		t.Fatal(err)
	}
	if folder, err = TakeDir(dir, Wait{}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(file.Close(), folder.Close()); err != nil {
		t.Error(err)
	}
}
