// Package drivertest is what every task driver must do, as tests.
package drivertest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/logs"
	"berth/internal/agent/supervise"
	"berth/internal/eventually"
	"berth/internal/saferoot"
	"berth/op"
)

// Driver is a driver to be tested and the words it has for certain tasks.
type Driver struct {
	New      func() driver.Driver // each is one that an agent made after a restart
	Disabled func() driver.Driver

	Runs    map[string]any                             // runs for a minute at least and ends when asked to
	Deaf    map[string]any                             // the same, but does not end when asked to
	Ends    func(code int) map[string]any              // ends soon with the code
	Prints  func(stdout, stderr string) map[string]any // prints and ends
	Refused []map[string]any                           // configs that must not start

	Codes     []int // that Ends can have besides 9; nil is 0, 1 and 42
	OneStream bool  // nothing that a task prints is on stderr

	// Shell is a task that runs a script in a POSIX shell, in the task's
	// directory; nil for drivers whose tasks are no programs.
	Shell   func(script string) map[string]any
	Limited bool // Task.Limits hold

	// Program is a task that runs the program of that name in its directory local;
	// nil for drivers whose tasks are no programs of the task's directory.
	Program func(name string) map[string]any

	DeafSays   string   // what Deaf prints once it is deaf; "" if it is from the start
	Supervisor []string // command of a supervisor
}

// Run tests a driver.
func Run(t *testing.T, d Driver) {
	t.Run("exits are told, again and again", d.exits)
	t.Run("output is kept", d.output)
	t.Run("stop is gentle, then firm", d.stop)
	t.Run("another agent finds what runs", d.recover)
	t.Run("another agent learns what ended", d.recoverEnded)
	t.Run("what never ran is unknown", d.unknown)
	t.Run("what is wrong is refused for good", d.refused)
	t.Run("what may pass is not refused for good", d.busy)
	t.Run("a disabled driver starts nothing (C42)", d.disabled)
	t.Run("a wait ends with its context", d.cancelled)
	t.Run("fingerprint", d.fingerprint)
	d.capable(t)
}

// Alloc makes an allocation's directory, and a task in it.
func (d *Driver) Alloc(t *testing.T) func(launch uint64, config map[string]any) *driver.Task {
	t.Helper()
	path := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(path, logs.Dir), 0o755))
	for _, dir := range []string{"local", "secrets", "tmp"} {
		must(t, os.MkdirAll(filepath.Join(path, "task", dir), 0o755))
	}
	root, err := saferoot.Open(path)
	must(t, err)
	id := rand.Text()
	sup, err := supervise.OpenDir(root, id, d.Supervisor)
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), eventually.Limit)
		defer cancel()
		if err := sup.EndAll(ctx, 0); err != nil {
			t.Errorf("processes are left: %v", err)
		}
		supervise.Reap()
		must(t, errors.Join(sup.Close(), root.Close()))
	})
	return func(launch uint64, config map[string]any) *driver.Task {
		return &driver.Task{
			AllocID: id, Name: "task", Launch: launch, Config: config, Env: []string{"PATH=/usr/bin:/bin"},
			AllocDir: root, Dir: filepath.Join(path, "task"), Supervisor: sup,
			Logs: supervise.Logs{MaxFiles: 2, MaxSize: 1 << 20}, Cgroup: "berth-test", Grace: time.Second,
		}
	}
}

// must ends the test if err is not nil.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// start starts the task and ends the test if the driver refuses.
func start(t *testing.T, d driver.Driver, task *driver.Task) driver.Handle {
	t.Helper()
	h, err := d.Start(t.Context(), task)
	must(t, err)
	return h
}

// wait returns the task's exit. It gives up after [eventually.Limit], far more
// than any task here takes.
func wait(t *testing.T, h driver.Handle) *driver.Exit {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), eventually.Limit)
	defer cancel()
	e, err := h.Wait(ctx)
	must(t, err)
	return e
}

// exits tests that an exit is reported truly, as often as it is asked for, and
// that stopping what has ended is no error.
func (d *Driver) exits(t *testing.T) {
	drv, task := d.New(), d.Alloc(t)
	codes := d.Codes
	if codes == nil {
		codes = []int{0, 1, 42}
	}
	for i, code := range codes {
		h := start(t, drv, task(uint64(i+1), d.Ends(code)))
		for range 2 {
			if e := wait(t, h); e.Code != code || e.Success() != (code == 0) || e.At.IsZero() {
				t.Errorf("%+v, want code %d", e, code)
			}
		}
		must(t, h.Release(t.Context()))
		must(t, h.Stop(t.Context(), syscall.SIGTERM, 0)) // has ended
	}
}

// output tests that both streams are kept, and that nothing is when logs are
// disabled.
func (d *Driver) output(t *testing.T) {
	drv, task := d.New(), d.Alloc(t)
	tk := task(1, d.Prints("to stdout", "to stderr"))
	wait(t, start(t, drv, tk))
	for stream, want := range map[string]string{logs.Stdout: "to stdout", logs.Stderr: "to stderr"} {
		if d.OneStream && stream == logs.Stderr {
			continue
		}
		if got := output(t, tk, stream); got != want {
			t.Errorf("%s: %q", stream, got)
		}
	}
	quiet := task(2, d.Prints("again", "again"))
	quiet.Logs = supervise.Logs{Disabled: true}
	wait(t, start(t, drv, quiet))
	if got := output(t, tk, logs.Stdout); got != "to stdout" {
		t.Errorf("with logs disabled: %q", got)
	}
}

// output returns all that the task has written to the stream.
func output(t *testing.T, task *driver.Task, stream string) string {
	t.Helper()
	dir, err := task.AllocDir.Sub(logs.Dir)
	must(t, err)
	defer dir.Close()
	var b strings.Builder
	must(t, logs.Stream(t.Context(), dir, logs.Request{Task: task.Name, Stream: stream}, func(f *op.StreamFrame) error {
		b.Write(f.Data)
		return nil
	}))
	return b.String()
}

// printed waits until the task has printed text to its standard output.
func printed(t *testing.T, task *driver.Task, text string) {
	t.Helper()
	dir, err := task.AllocDir.Sub(logs.Dir)
	must(t, err)
	defer dir.Close()
	ctx, cancel := context.WithTimeout(t.Context(), eventually.Limit)
	defer cancel()
	var b strings.Builder
	seen := errors.New("seen")
	err = logs.Stream(ctx, dir, logs.Request{Task: task.Name, Stream: logs.Stdout, Follow: true}, func(f *op.StreamFrame) error {
		if b.Write(f.Data); strings.Contains(b.String(), text) {
			return seen
		}
		return nil
	})
	if !errors.Is(err, seen) {
		t.Fatalf("it has not said %q but %q: %v", text, &b, err)
	}
}

// stop tests that a task ends by the signal, and is killed after the timeout if
// it does not.
func (d *Driver) stop(t *testing.T) {
	drv, task := d.New(), d.Alloc(t)
	h := start(t, drv, task(1, d.Runs))
	must(t, h.Stop(t.Context(), syscall.SIGTERM, time.Minute))
	wait(t, h)
	deafTask := task(2, d.Deaf)
	deaf := start(t, drv, deafTask)
	if d.DeafSays != "" {
		printed(t, deafTask, d.DeafSays)
	}
	must(t, deaf.Stop(t.Context(), syscall.SIGTERM, 10*time.Millisecond))
	if e := wait(t, deaf); e.Signal != int(syscall.SIGKILL) {
		t.Errorf("it was not killed: %+v", e)
	}
}

// recover tests that another instance of the driver finds a launch by its
// number, or the newest by 0, and can stop it.
func (d *Driver) recover(t *testing.T) {
	task := d.Alloc(t)
	old := start(t, d.New(), task(3, d.Runs))
	for _, launch := range []uint64{3, 0} {
		h, err := d.New().Recover(t.Context(), task(launch, d.Runs), old.State())
		must(t, err)
		if h.Launch() != 3 {
			t.Errorf("launch %d", h.Launch())
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if e, err := h.Wait(ctx); err == nil {
			t.Fatalf("it ended: %+v", e)
		}
		cancel()
	}
	h, err := d.New().Recover(t.Context(), task(3, d.Runs), old.State())
	must(t, err)
	must(t, h.Stop(t.Context(), syscall.SIGTERM, time.Minute))
	wait(t, h)
}

// recoverEnded tests that another instance of the driver reports the same exit
// at the same time.
func (d *Driver) recoverEnded(t *testing.T) {
	task := d.Alloc(t)
	old := start(t, d.New(), task(1, d.Ends(9)))
	first := wait(t, old)
	h, err := d.New().Recover(t.Context(), task(1, d.Ends(9)), old.State())
	must(t, err)
	if e := wait(t, h); e.Code != 9 || !e.At.Equal(first.At) {
		t.Errorf("%+v, was %+v", e, first)
	}
	must(t, h.Release(t.Context()))
}

// unknown tests that a launch that never was is ErrUnknown, not an error that
// is tried again.
func (d *Driver) unknown(t *testing.T) {
	task := d.Alloc(t)
	for _, launch := range []uint64{0, 1} {
		if _, err := d.New().Recover(t.Context(), task(launch, d.Runs), nil); !errors.Is(err, driver.ErrUnknown) {
			t.Errorf("launch %d: %v", launch, err)
		}
	}
}

// refused tests that a wrong config is an error that says something and is not
// recoverable.
func (d *Driver) refused(t *testing.T) {
	task := d.Alloc(t)
	for i, config := range append(d.Refused, map[string]any{"no_such_setting": "x"}) {
		_, err := d.New().Start(t.Context(), task(uint64(i+1), config))
		if err == nil || driver.IsRecoverable(err) {
			t.Errorf("%v: %v", config, err)
		}
		if strings.TrimSpace(fmt.Sprint(err)) == "" {
			t.Errorf("%v: the error says nothing", config)
		}
	}
}

// busy tests that a program that cannot be started now, since it is being written,
// is an error that is recoverable, and that it starts later.
func (d *Driver) busy(t *testing.T) {
	if d.Program == nil {
		t.Skip("its tasks are no programs")
	}
	task := d.Alloc(t)
	text, err := os.ReadFile("/bin/true")
	must(t, err)
	f, err := os.OpenFile(filepath.Join(task(1, nil).Dir, "local", "program"), os.O_CREATE|os.O_WRONLY, 0o755)
	must(t, err)
	_, err = f.Write(text)
	must(t, err)
	if _, err := d.New().Start(t.Context(), task(1, d.Program("program"))); !driver.IsRecoverable(err) {
		t.Errorf("recoverable %v: %v", driver.IsRecoverable(err), err)
	}
	must(t, f.Close())
	if e := wait(t, start(t, d.New(), task(2, d.Program("program")))); !e.Success() {
		t.Errorf("%+v", e)
	}
}

// disabled tests that a driver that is not enabled neither starts a task nor
// shows itself to constraints.
func (d *Driver) disabled(t *testing.T) {
	drv, task := d.Disabled(), d.Alloc(t)
	if _, err := drv.Start(t.Context(), task(1, d.Runs)); berth.KindOf(err) != berth.Denied || driver.IsRecoverable(err) {
		t.Errorf("%v", err)
	}
	if info := drv.Fingerprint(t.Context()); info.Detected || info.Healthy || len(info.Attributes) > 0 {
		t.Errorf("%+v", info)
	}
}

// cancelled tests that the end of a wait's context ends the wait alone: the
// task runs on.
func (d *Driver) cancelled(t *testing.T) {
	drv, task := d.New(), d.Alloc(t)
	h := start(t, drv, task(1, d.Runs))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, err := h.Usage(t.Context()); err != nil {
		t.Error(err)
	}
	must(t, h.Stop(t.Context(), syscall.SIGKILL, 0))
	wait(t, h)
}

// fingerprint tests that an enabled driver is healthy and has the attribute by
// which constraints find it.
func (d *Driver) fingerprint(t *testing.T) {
	drv := d.New()
	info := drv.Fingerprint(t.Context())
	if !info.Detected || !info.Healthy || info.Attributes["driver."+drv.Name()] != "1" {
		t.Errorf("%+v", info)
	}
}
