package docker

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"golang.org/x/sync/errgroup"

	"berth/internal/agent/driver"
	"berth/internal/agent/driver/docker/dockertest"
	"berth/internal/agent/logs"
	"berth/internal/agent/supervise"
	"berth/internal/eventually"
)

// counted is what a task that counts prints.
func counted(word string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintln(&b, word, i)
	}
	return b.String()
}

// However often the agent is killed and however old its record is then, each
// line is in the files once. The small files make the writer rotate.
func TestNoLineIsLostOrThereTwice(t *testing.T) {
	d := New(config(t))
	tk := allocs(t)(1, does("count", "400", "2ms"))
	tk.Logs = supervise.Logs{MaxFiles: 50, MaxSize: 500}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	h, err := d.Start(ctx, tk)
	if err != nil {
		t.Fatal(err)
	}
	record := supervise.ControlDir + "/log-task.json"
	old, err := tk.AllocDir.ReadFile(record, 1<<16)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		until := fmt.Sprintf("line %d\n", 40*(i+1))
		eventually.True(t, "it has printed "+until, func() bool { return strings.Contains(printed(t, tk, logs.Stdout), until) })
		h.(*handle).logs.abandon()
		now, err := tk.AllocDir.ReadFile(record, 1<<16)
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 { // as if it had been killed before it recorded more
			if err := tk.AllocDir.Replace(record, old, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		old = now
		if h, err = New(config(t)).Recover(ctx, tk, h.State()); err != nil {
			t.Fatal(err)
		}
	}
	if x, err := h.Wait(ctx); err != nil || !x.Success() {
		t.Errorf("%+v, %v", x, err)
	}
	if got := printed(t, tk, logs.Stdout); got != counted("line", 400) {
		t.Errorf("stdout: %q", got)
	}
	if got := printed(t, tk, logs.Stderr); got != counted("complaint", 400) {
		t.Errorf("stderr: %q", got)
	}
}

// A container runs on while its engine is restarted, and nothing of its output
// is lost. Meanwhile the driver is unhealthy. The container stays until the engine is
// back: what one printed that ended before, the engine itself does not have.
func TestTheEngineIsRestarted(t *testing.T) {
	e := dockertest.Need(t, engine)
	d := New(config(t))
	if info := d.Fingerprint(t.Context()); !info.Healthy || info.Attributes["driver.docker.version"] == "" || info.Attributes["driver.docker.bridge_ip"] == "" {
		t.Errorf("%+v", info)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	tk := allocs(t)(1, does("count", "300", "5ms", "stay"))
	h, err := d.Start(ctx, tk)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Down(); err != nil {
		t.Fatal(err)
	}
	if info := d.Fingerprint(ctx); info.Healthy || !info.Detected || len(info.Attributes) > 0 {
		t.Errorf("%+v", info)
	}
	if _, err := d.Recover(ctx, tk, h.State()); err == nil {
		t.Error("a task was found without an engine")
	}
	if err := e.Up(""); err != nil {
		t.Fatal(err)
	}
	if info := d.Fingerprint(ctx); !info.Healthy {
		t.Errorf("%+v", info)
	}
	eventually.True(t, "it has printed all", func() bool { return strings.Contains(printed(t, tk, logs.Stdout), "line 299\n") })
	if err := h.Stop(ctx, syscall.SIGTERM, time.Minute); err != nil {
		t.Error(err)
	}
	x, err := h.Wait(ctx)
	if err != nil || !x.Success() {
		t.Errorf("%+v, %v", x, err)
	}
	if got := printed(t, tk, logs.Stdout); got != counted("line", 300) {
		t.Errorf("stdout: %q", got)
	}
}

// Containers of this node that nobody asks for are removed; those of others, of
// tasks that are known, and young ones are not.
func TestDanglingContainers(t *testing.T) {
	c := config(t)
	d, other := New(c), c
	other.Node = "another"
	task := allocs(t)
	known, err := d.Start(t.Context(), task(1, does("run")))
	if err != nil {
		t.Fatal(err)
	}
	lost, err := New(c).Start(t.Context(), allocs(t)(1, does("run")))
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := New(other).Start(t.Context(), allocs(t)(1, does("run")))
	if err != nil {
		t.Fatal(err)
	}
	exists := func(h driver.Handle) bool {
		_, err := engine.Client.ContainerInspect(t.Context(), h.(*handle).id, client.ContainerInspectOptions{})
		if err != nil && !gone(err) {
			t.Fatal(err)
		}
		return err == nil
	}
	if err := d.removeDangling(t.Context(), time.Now()); err != nil || !exists(lost) {
		t.Errorf("a young one is gone (%v)", err)
	}
	if err := d.removeDangling(t.Context(), time.Now().Add(time.Hour)); err != nil || exists(lost) || !exists(known) || !exists(foreign) {
		t.Errorf("%v: lost %v, known %v, foreign %v", err, exists(lost), exists(known), exists(foreign))
	}
	if _, err := New(c).Recover(t.Context(), task(1, does("run")), nil); err != nil {
		t.Errorf("by its labels: %v", err)
	}
}

// An engine without live restore ends its containers when it ends. Their exits are
// told when it is back, and nothing is started by itself.
func TestAnEngineThatStopsItsContainers(t *testing.T) {
	e := dockertest.Need(t, engine)
	restart := func(stops bool) {
		t.Helper()
		e.StopsAll = stops
		if err := e.Down(); err != nil {
			t.Fatal(err)
		}
		if err := e.Up(""); err != nil {
			t.Fatal(err)
		}
	}
	restart(true)
	defer restart(false)
	d := New(config(t))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	tk := allocs(t)(1, does("run"))
	h, err := d.Start(ctx, tk)
	if err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the task handles signals", func() bool { return strings.Contains(printed(t, tk, logs.Stdout), "running") })
	began := time.Now()
	restart(true)
	x, err := h.Wait(ctx)
	if err != nil || !x.Success() || x.At.Before(began) {
		t.Errorf("%+v, %v", x, err)
	}
	if got := printed(t, tk, logs.Stdout); got != "running\nended by terminated\n" {
		t.Errorf("%q", got)
	}
	// The same for an agent that was away meanwhile.
	again, err := New(config(t)).Recover(ctx, tk, h.State())
	if err != nil {
		t.Fatal(err)
	}
	if y, err := again.Wait(ctx); err != nil || !y.At.Equal(x.At) || y.Code != x.Code {
		t.Errorf("%+v, %v; was %+v", y, err, x)
	}
	if all, err := d.find(ctx, tk); err != nil || len(all) != 1 {
		t.Errorf("containers %v, %v", all, err)
	}
}

// An image goes when the last container of it is gone, after a delay; one that is
// used again, or by another container, stays.
func TestImagesThatNobodyUses(t *testing.T) {
	c := config(t)
	c.KeepImages, c.ImageDelay = false, time.Millisecond
	d, task := New(c), allocs(t)
	const image = "unused:1"
	if err := engine.Import(t.Context(), image, marked(t, "unused")); err != nil {
		t.Fatal(err)
	}
	there := func() bool {
		_, err := engine.Client.ImageInspect(t.Context(), image)
		if err != nil && !gone(err) {
			t.Fatal(err)
		}
		return err == nil
	}
	var handles []driver.Handle
	for i := range 2 {
		tk := task(1, shows(image))
		tk.Name = fmt.Sprint("task", i)
		h, err := d.Start(t.Context(), tk)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		handles = append(handles, h)
	}
	if err := handles[0].Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.images.mu.Lock()
	timers := len(d.images.timers)
	d.images.mu.Unlock()
	if timers != 0 || !there() {
		t.Errorf("an image that is used: %d timers, there: %v", timers, there())
	}
	if err := handles[1].Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the image is removed", func() bool { return !there() })
}

// A container that something else is removing, as an engine does for an agent
// that has ended meanwhile, is removed without an error.
func TestRemovedTwiceAtOnce(t *testing.T) {
	e := dockertest.Need(t, engine)
	made, err := e.Client.ContainerCreate(t.Context(), client.ContainerCreateOptions{Config: &container.Config{Image: dockertest.Image, Cmd: []string{"deaf"}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Client.ContainerStart(t.Context(), made.ID, client.ContainerStartOptions{}); err != nil {
		t.Fatal(err)
	}
	var all errgroup.Group
	for range 10 {
		all.Go(func() error { return e.Remove(t.Context(), made.ID) })
	}
	if err := all.Wait(); err != nil {
		t.Error(err)
	}
}
