package docker

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"berth/internal/agent/driver"
	"berth/internal/agent/driver/docker/dockertest"
	"berth/internal/agent/logs"
	"berth/internal/agent/supervise"
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
		for !strings.Contains(printed(t, tk, logs.Stdout), until) {
			if ctx.Err() != nil {
				t.Fatalf("it has not printed %q", until)
			}
			time.Sleep(5 * time.Millisecond)
		}
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
// is lost. Meanwhile the driver is unhealthy.
func TestTheEngineIsRestarted(t *testing.T) {
	e := dockertest.Need(t, engine)
	d := New(config(t))
	if info := d.Fingerprint(t.Context()); !info.Healthy || info.Attributes["driver.docker.version"] == "" || info.Attributes["driver.docker.bridge_ip"] == "" {
		t.Errorf("%+v", info)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	tk := allocs(t)(1, does("count", "300", "10ms"))
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
	make := allocs(t)
	known, err := d.Start(t.Context(), make(1, does("run")))
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
	if _, err := New(c).Recover(t.Context(), make(1, does("run")), nil); err != nil {
		t.Errorf("by its labels: %v", err)
	}
}
