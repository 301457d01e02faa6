package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"berth/test/bed"
)

// browser is a Chromium, driven over a pipe with its DevTools protocol. It needs
// no port, and it ends when this process ends, however that comes. Messages are
// JSON objects that end with a zero byte.
type browser struct {
	to    *os.File
	group int // process group of all its processes

	mu    sync.Mutex
	last  int
	calls map[int]chan<- reply
	tabs  map[string]*tab // by session
	ended error
}

// reply is what the browser answered to a call, or an event.
type reply struct {
	ID        int
	Method    string
	SessionID string
	Params    json.RawMessage
	Result    json.RawMessage
	Error     *struct{ Message string }
}

// newBrowser starts a Chromium, which ends with the test.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	dir, err := os.MkdirTemp(bed.SuiteDir(), "chromium-")
	if err != nil {
		t.Fatal(err)
	}
	theirIn, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := os.Create(filepath.Join(dir, "log")) // a file: nothing waits for those who hold a pipe
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("chromium", "--headless", "--remote-debugging-pipe", "--user-data-dir="+filepath.Join(dir, "profile"),
		"--no-sandbox", // tests run as root
		"--disable-gpu", "--disable-dev-shm-usage", "--disable-breakpad", "--disable-extensions", "--disable-sync", "--disable-component-update",
		"--disable-background-networking", "--disable-renderer-backgrounding", "--disable-background-timer-throttling",
		"--disable-backgrounding-occluded-windows", "--no-first-run", "--no-default-browser-check", "--password-store=basic", "--mute-audio",
		"--disable-features=Translate,MediaRouter,OptimizationHints,AutofillServerCommunication")
	cmd.Env = append(os.Environ(), "HOME="+dir, "TMPDIR="+dir)
	cmd.ExtraFiles = []*os.File{theirIn, theirOut} // 3 and 4
	cmd.Stdout, cmd.Stderr = said, said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, f := range []*os.File{theirIn, theirOut, said} {
		f.Close()
	}
	b := &browser{to: to, group: cmd.Process.Pid, calls: map[int]chan<- reply{}, tabs: map[string]*tab{}}
	heard := make(chan struct{})
	go func() { defer close(heard); b.listen(from) }()
	t.Cleanup(func() {
		_ = syscall.Kill(-b.group, syscall.SIGKILL)
		_ = cmd.Wait()
		b.left(t)
		to.Close()
		<-heard
		from.Close()
		if t.Failed() {
			text, _ := os.ReadFile(said.Name())
			t.Logf("the browser said:\n%s", text[max(0, len(text)-1000):])
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return b
}

// left waits until no process of the browser is left.
func (b *browser) left(t *testing.T) {
	t.Helper()
	err := bed.Until(context.Background(), "the browser's processes have ended", func() string {
		var alive []string
		all, _ := filepath.Glob("/proc/[0-9]*/stat")
		for _, name := range all {
			text, _ := os.ReadFile(name)
			_, rest, _ := bytes.Cut(text, []byte(") ")) // state, parent, group
			f := strings.Fields(string(rest))
			if len(f) > 2 && f[0] != "Z" && f[0] != "X" && f[2] == strconv.Itoa(b.group) {
				alive = append(alive, filepath.Base(filepath.Dir(name)))
			}
		}
		if len(alive) > 0 {
			_ = syscall.Kill(-b.group, syscall.SIGKILL)
		}
		return strings.Join(alive, " ")
	})
	if err != nil {
		t.Error(err)
	}
}

// listen hands what the browser says to those who wait for it.
func (b *browser) listen(from io.Reader) {
	err := b.read(from)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = fmt.Errorf("the browser has ended: %w", err)
	for id, c := range b.calls {
		delete(b.calls, id)
		close(c)
	}
}

func (b *browser) read(from io.Reader) error {
	var rest []byte
	part := make([]byte, 64<<10)
	for {
		n, err := from.Read(part)
		if err != nil {
			return err
		}
		rest = append(rest, part[:n]...)
		for {
			message, after, whole := bytes.Cut(rest, []byte{0})
			if !whole {
				break
			}
			var r reply
			if err := json.Unmarshal(message, &r); err != nil {
				return err
			}
			rest = after
			b.take(r)
		}
	}
}

// take passes on an answer or an event.
func (b *browser) take(r reply) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.ID == 0 {
		if t := b.tabs[r.SessionID]; t != nil {
			t.event(r)
		}
		return
	}
	if c := b.calls[r.ID]; c != nil {
		delete(b.calls, r.ID)
		c <- r
	}
}

// send calls a method of the protocol and returns where its answer comes. The
// channel is closed if the browser ends.
func (b *browser) send(session, method string, params any) (int, <-chan reply, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended != nil {
		return 0, nil, b.ended
	}
	b.last++
	message := map[string]any{"id": b.last, "method": method}
	if params != nil {
		message["params"] = params
	}
	if session != "" {
		message["sessionId"] = session
	}
	text, err := json.Marshal(message)
	if err != nil {
		return 0, nil, err
	}
	c := make(chan reply, 1)
	b.calls[b.last] = c
	// The browser reads its pipe all the time, so this cannot wait for long.
	_, err = b.to.Write(append(text, 0))
	return b.last, c, err
}

// call calls a method and decodes its answer.
func (b *browser) call(ctx context.Context, session, method string, params, into any) error {
	id, c, err := b.send(session, method, params)
	if err != nil {
		return err
	}
	select {
	case r, ok := <-c:
		switch {
		case !ok:
			return errors.New("the browser has ended")
		case r.Error != nil:
			return fmt.Errorf("%s: %s", method, r.Error.Message)
		case into != nil:
			return json.Unmarshal(r.Result, into)
		}
		return nil
	case <-ctx.Done():
		b.mu.Lock()
		delete(b.calls, id)
		b.mu.Unlock()
		return fmt.Errorf("%s: no answer: %w", method, ctx.Err())
	}
}
