package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/driver/docker/dockertest"
	"berth/internal/eventually"
)

// told collects what a driver says of its progress.
type told struct {
	mu  sync.Mutex
	all []string
}

func (p *told) tell(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, s)
}

func (p *told) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.all, "\n")
}

// program is the program of the test image, which all images here have.
var program = sync.OnceValues(dockertest.Archive)

// marked returns the files of an image that prints a mark when it is run with
// shows. No two marks share a layer.
func marked(t *testing.T, mark string) []byte {
	t.Helper()
	b, err := program()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	r, w := tar.NewReader(bytes.NewReader(b)), tar.NewWriter(&out)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = w.WriteHeader(h)
		}
		if err == nil {
			_, err = io.Copy(w, r)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.WriteHeader(&tar.Header{Name: "mark", Mode: 0o644, Size: int64(len(mark))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(mark)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// push pushes an image with a mark.
func push(t *testing.T, r *dockertest.Registry, name, mark string) (digest string) {
	t.Helper()
	digest, err := r.Push(t.Context(), engine, name, marked(t, mark))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { forget(t, r.Host+"/"+name) })
	return digest
}

// forget removes an image from the engine, if it is there.
func forget(t *testing.T, name string) {
	t.Helper()
	if _, err := engine.Client.ImageRemove(context.WithoutCancel(t.Context()), name, client.ImageRemoveOptions{Force: true}); err != nil && !gone(err) {
		t.Error(err)
	}
}

// shows is the config of a task that prints the mark of its image.
func shows(image string, more ...any) map[string]any {
	return with(map[string]any{"image": image, "args": []any{"cat", "/mark"}}, more...)
}

// runs runs a task and returns the mark of its image.
func runs(t *testing.T, d *Driver, tk *driver.Task) string {
	t.Helper()
	_, out := ends(t, d, tk) // of all launches
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return strings.TrimSuffix(strings.TrimPrefix(lines[len(lines)-1], "/mark: "), " <nil>")
}

// Images are pulled by tag and by digest, and again only where the job says so
// or the tag is latest.
func TestPulls(t *testing.T) {
	d, task := New(config(t)), allocs(t)
	r := dockertest.StartRegistry(t, "", "")
	digest := push(t, r, "app:1", "one")
	app := r.Host + "/app"
	launch := uint64(0)
	run := func(config map[string]any) string {
		t.Helper()
		launch++
		return runs(t, d, task(launch, config))
	}
	if got := run(shows(app + ":1")); got != "one" {
		t.Errorf("by tag: %q", got)
	}
	forget(t, app+":1")
	if got := run(shows(app + "@" + digest)); got != "one" {
		t.Errorf("by digest: %q", got)
	}
	forget(t, app+"@"+digest)

	if got := run(shows("http://" + app + ":1")); got != "one" {
		t.Errorf("with a scheme: %q", got)
	}
	older, err := engine.Client.ImageInspect(t.Context(), app+":1")
	if err != nil {
		t.Fatal(err)
	}
	push(t, r, "app:1", "two")
	if _, err := engine.Client.ImageTag(t.Context(), client.ImageTagOptions{Source: older.ID, Target: app + ":1"}); err != nil && !gone(err) {
		t.Fatal(err)
	}
	if gotten, err := engine.Client.ImageInspect(t.Context(), app+":1"); err == nil && gotten.ID == older.ID {
		if got := run(shows(app + ":1")); got != "one" {
			t.Errorf("of an image that is there: %q", got)
		}
	}
	if got := run(shows(app+":1", "force_pull", true)); got != "two" {
		t.Errorf("with force_pull: %q", got)
	}
	for _, mark := range []string{"newest", "even newer"} {
		push(t, r, "app:latest", mark)
		if got := run(shows(app)); got != mark {
			t.Errorf("latest: %q, want %q", got, mark)
		}
	}

	_, err = d.Start(t.Context(), task(launch+1, shows(app+":none")))
	if err == nil || driver.IsRecoverable(err) || !strings.Contains(err.Error(), app+":none") {
		t.Errorf("an image that is not there: %v", err)
	}
	// A registry that cannot be reached may come back.
	_, err = d.Start(t.Context(), task(launch+2, shows("127.0.0.1:1/app:1")))
	if !driver.IsRecoverable(err) {
		t.Errorf("no registry: %v", err)
	}
}

// Credentials come from the task, from a file, or from a helper. Wrong ones are
// an error that says so and is not tried again.
func TestCredentials(t *testing.T) {
	r := dockertest.StartRegistry(t, "ada", "secret")
	push(t, r, "app:1", "private")
	app, dir := r.Host+"/app:1", t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	// A helper reads a registry from stdin.
	helper := func(name, password string) {
		write("docker-credential-"+name, fmt.Sprintf("#!/bin/sh\nread registry\ntest \"$registry\" = %s || { echo 'credentials not found in native keychain'; exit 1; }\necho '{\"ServerURL\":\"x\",\"Username\":\"ada\",\"Secret\":%q}'\n", r.Host, password), 0o755)
	}
	helper("right", "secret")
	helper("wrong", "guess")
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	auths := write("auths.json", fmt.Sprintf(`{"auths": {%q: {"auth": "YWRhOnNlY3JldA=="}}}`, r.Host), 0o600)
	byHelper := write("helpers.json", fmt.Sprintf(`{"credHelpers": {%q: "right"}}`, r.Host), 0o600)
	byStore := write("store.json", `{"credsStore": "right"}`, 0o600)
	others := write("others.json", `{"auths": {"other.example": {"auth": "YWRhOnNlY3JldA=="}}}`, 0o600)
	block := func(password string) []any {
		return []any{"auth", []any{map[string]any{"username": "ada", "password": password}}}
	}
	task, launch := allocs(t), uint64(0)
	for _, tt := range []struct {
		name, file, helper string
		config             []any
		fails              string // what the error says; "" for none
		again              bool   // another try may help
	}{
		{name: "auth block", config: block("secret")},
		{name: "file", file: auths},
		{name: "helper of the file", file: byHelper},
		{name: "store of the file", file: byStore},
		{name: "helper of the agent", helper: "right"},
		{name: "file of others, then the helper", file: others, helper: "right"},
		{name: "the block comes first", file: auths, config: block("guess"), fails: "credentials"},
		{name: "none", fails: "credentials", again: true}, // engines do not say why
		{name: "file of others", file: others, fails: "credentials", again: true},
		{name: "helper that is wrong", helper: "wrong", fails: "credentials"},
		{name: "helper that is not there", helper: "missing", fails: "docker-credential-missing"},
		{name: "file that is not there", file: filepath.Join(dir, "none.json"), fails: "none.json"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			forget(t, app)
			c := config(t)
			c.AuthFile, c.AuthHelper = tt.file, tt.helper
			launch++
			tk := task(launch, shows(app, tt.config...))
			if tt.fails == "" {
				if got := runs(t, New(c), tk); got != "private" {
					t.Errorf("%q", got)
				}
				return
			}
			_, err := New(c).Start(t.Context(), tk)
			if err == nil || driver.IsRecoverable(err) != tt.again || !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("recoverable %v: %v", driver.IsRecoverable(err), err)
			}
			if err != nil && (strings.Contains(err.Error(), "guess") || strings.Contains(err.Error(), "secret")) {
				t.Errorf("the error tells the password: %v", err)
			}
		})
	}
}

// holds has requests for manifests or blobs wait until free is called, and counts
// those for manifests.
type holds struct {
	once      sync.Once
	free      chan struct{}
	manifests atomic.Int32
}

func (h *holds) before(part string) func(*http.Request) {
	return func(q *http.Request) {
		if q.Method == http.MethodGet && strings.Contains(q.URL.Path, "/manifests/") {
			h.manifests.Add(1)
		}
		if q.Method == http.MethodGet && strings.Contains(q.URL.Path, part) {
			select {
			case <-h.free:
			case <-q.Context().Done():
			}
		}
	}
}

func (h *holds) release() { h.once.Do(func() { close(h.free) }) }

// Tasks that want one image wait for one pull. Its progress is told, and it is
// given up when nobody waits any more, or it takes too long.
func TestPullsAreShared(t *testing.T) {
	for _, name := range []string{"shared", "slow", "left"} {
		t.Run(name, func(t *testing.T) {
			d := New(config(t))
			d.pulls.every = time.Millisecond
			r, h := dockertest.StartRegistry(t, "", ""), &holds{free: make(chan struct{})}
			push(t, r, "app:1", "waited "+name)
			r.Before = h.before("/blobs/")
			defer h.release()
			app := r.Host + "/app:1"
			waiting := func() (n int) {
				d.pulls.mu.Lock()
				defer d.pulls.mu.Unlock()
				for _, p := range d.pulls.by {
					n += p.waiting
				}
				return n
			}
			switch name {
			case "shared":
				var wg sync.WaitGroup
				defer wg.Wait()
				news := make([]told, 3)
				for i := range news {
					tk := allocs(t)(1, shows(app))
					tk.Progress = news[i].tell
					wg.Go(func() {
						handle, err := d.Start(t.Context(), tk)
						if err != nil {
							t.Error(err)
						} else if _, err := handle.Wait(t.Context()); err != nil {
							t.Error(err)
						}
					})
				}
				eventually.True(t, "all wait for the pull and hear of it", func() bool {
					for i := range news {
						if text := news[i].String(); !strings.Contains(text, "Downloading image "+app) || !strings.Contains(text, "Pulling fs layer") {
							return false
						}
					}
					return waiting() == 3
				})
				h.release()
				wg.Wait()
				if n := h.manifests.Load(); n != 1 {
					t.Errorf("%d pulls", n)
				}
			case "slow":
				_, err := d.Start(t.Context(), allocs(t)(1, shows(app, "image_pull_timeout", "300ms")))
				if !driver.IsRecoverable(err) || !strings.Contains(fmt.Sprint(err), "image_pull_timeout") {
					t.Errorf("%v", err)
				}
			case "left":
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error)
				go func() { _, err := d.Start(ctx, allocs(t)(1, shows(app))); done <- err }()
				eventually.True(t, "the pull is under way", func() bool { return waiting() == 1 })
				cancel()
				if err := <-done; !errors.Is(err, context.Canceled) {
					t.Errorf("%v", err)
				}
			}
			eventually.True(t, "no pull is left", func() bool { return waiting() == 0 })
		})
	}
}

// An archive in the task's directory is loaded instead of a pull.
func TestLoad(t *testing.T) {
	d, tk := New(config(t)), allocs(t)(1, shows("loaded:1", "load", "app.tar"))
	if err := engine.Import(t.Context(), "loaded:1", marked(t, "loaded")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { forget(t, "loaded:1") })
	out, err := engine.Client.ImageSave(t.Context(), []string{"loaded:1"})
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(out)
	if err := errors.Join(err, out.Close(), tk.AllocDir.Replace("task/local/app.tar", b, 0o644)); err != nil {
		t.Fatal(err)
	}
	forget(t, "loaded:1")
	if got := runs(t, d, tk); got != "loaded" {
		t.Errorf("%q", got)
	}
	if err := tk.AllocDir.Replace("task/local/broken.tar", []byte("no archive"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(tk.Dir, "local", "link.tar")); err != nil {
		t.Fatal(err)
	}
	for i, tt := range []struct{ image, load, says string }{
		{"other:1", "app.tar", "does not contain the image other:1"},
		{"loaded:1", "none.tar", "config.load"},
		{"loaded:1", "../../etc/passwd", "config.load"},
		{"loaded:1", "link.tar", "config.load"},
		{"loaded:1", "broken.tar", "config.load"},
	} {
		again := *tk
		again.Launch, again.Config = uint64(i+2), shows(tt.image, "load", tt.load)
		if _, err := d.Start(t.Context(), &again); err == nil || !strings.Contains(err.Error(), tt.says) || driver.IsRecoverable(err) {
			t.Errorf("%s: recoverable %v, %v", tt.load, driver.IsRecoverable(err), err)
		}
	}
}

// Names of images that are none are refused before an engine is asked.
func TestNamesOfImages(t *testing.T) {
	for name, want := range map[string]string{
		"redis": "redis:latest", "redis:7": "redis:7", "https://registry.example:5000/a/b:1": "registry.example:5000/a/b:1", "docker.io/library/redis:7": "redis:7",
		"UPPER": "", "a b": "", "": "", "x:" + strings.Repeat("a", 200): "",
	} {
		got, _, err := parseImage(name)
		if got != want || (err == nil) != (want != "") || err != nil && berth.KindOf(err) != berth.Invalid {
			t.Errorf("%.40q: %q, %v", name, got, err)
		}
	}
}
