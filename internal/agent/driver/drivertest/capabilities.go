package drivertest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/logs"
	"berth/internal/eventually"
)

// What drivers do that can do more than the least, by their capabilities.

// Output returns all that the task has written to the stream.
func Output(t *testing.T, task *driver.Task, stream string) string { return output(t, task, stream) }

// Printed waits until a task has printed a text.
func Printed(t *testing.T, task *driver.Task, text string) { printed(t, task, text) }

// capable runs the tests of a driver whose tasks are programs.
func (d *Driver) capable(t *testing.T) {
	if d.Shell == nil {
		return // its tasks are no programs
	}
	has := d.New().Capabilities()
	t.Run("all of a task ends with it", d.tree)
	if has.Signals {
		t.Run("signals reach the task", d.signals)
	}
	if has.Exec {
		t.Run("commands run beside a task", d.exec)
		t.Run("commands beside a task end with their context", d.execCanceled)
	}
	if has.Mounts {
		t.Run("directories are mounted", d.mounts)
		t.Run("what is mounted later is seen, or not", d.propagation)
	}
	if d.Limited {
		t.Run("memory is limited", d.memory)
		t.Run("processes are limited", d.processes)
	}
}

// tree tests that what left the task's session and cleared its environment ends
// with the task, also beside one that goes on.
func (d *Driver) tree(t *testing.T) {
	drv, task := d.New(), d.Alloc(t)
	sibling := task(1, d.Runs)
	sibling.Name = "sibling"
	must(t, os.MkdirAll(filepath.Join(filepath.Dir(sibling.Dir), "sibling", "local"), 0o755))
	sibling.Dir = filepath.Join(filepath.Dir(sibling.Dir), "sibling")
	beside := start(t, drv, sibling)
	number := strconv.FormatInt(time.Now().UnixNano(), 10) // to be found by
	mine := task(1, d.Shell("env -i setsid sleep "+number+" & env -i setsid sleep "+number+" & exit 3"))
	h := start(t, drv, mine)
	if e := wait(t, h); e.Code != 3 {
		t.Errorf("%+v", e)
	}
	if n := running(t, "sleep\x00"+number+"\x00"); n != 0 {
		t.Errorf("%d processes are left", n)
	}
	must(t, beside.Stop(t.Context(), 9, 0))
	wait(t, beside)
}

// running counts the processes of the machine with a command line.
func running(t *testing.T, command string) (n int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, p := range all {
		if line, err := os.ReadFile(p); err == nil && string(line) == command {
			n++
		}
	}
	return n
}

// signals tests that a signal reaches a handler, and ends a task without one.
func (d *Driver) signals(t *testing.T) {
	drv, task := d.New(), d.Alloc(t)
	handles := task(1, d.Shell("trap 'echo hup; exit 4' HUP; echo ready; while :; do sleep 0.05; done"))
	h := start(t, drv, handles)
	printed(t, handles, "ready")
	must(t, h.Signal(t.Context(), 1))
	if e := wait(t, h); e.Code != 4 {
		t.Errorf("%+v", e)
	}
	h = start(t, drv, task(2, d.Shell("exec sleep 1000")))
	must(t, h.Signal(t.Context(), 10))
	if e := wait(t, h); e.Signal != 10 {
		t.Errorf("without a handler: %+v", e)
	}
}

// exec tests output, exit code, input and terminals of commands beside a task.
func (d *Driver) exec(t *testing.T) {
	task := d.Alloc(t)
	h := start(t, d.New(), task(1, d.Shell("echo mark > local/mark; echo ready; exec sleep 1000")))
	printed(t, task(1, nil), "ready")
	found, err := d.New().Recover(t.Context(), task(1, d.Runs), h.State())
	must(t, err)
	run := func(e *driver.Exec) (int, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		return found.(driver.Execer).Exec(ctx, e)
	}
	var out, errs bytes.Buffer
	code, err := run(&driver.Exec{
		Command: []string{"sh", "-c", "read x; echo got $x; cat local/mark; echo bad >&2; exit 7"}, Stdin: strings.NewReader("input\n"), Stdout: &out, Stderr: &errs,
	})
	if err != nil || code != 7 || out.String() != "got input\nmark\n" || errs.String() != "bad\n" {
		t.Errorf("%d, %v, %q, %q", code, err, &out, &errs)
	}
	out.Reset()
	sizes := make(chan driver.TerminalSize, 1)
	sizes <- driver.TerminalSize{Rows: 33, Columns: 77}
	script := "test -t 0 && test -t 1 || exit 9; while test \"$(stty size)\" != '33 77'; do sleep 0.05; done; echo sized; kill -9 $$"
	code, err = run(&driver.Exec{Command: []string{"sh", "-c", script}, TTY: true, Stdout: &out, Resize: sizes})
	if err != nil || code != 137 || strings.TrimSpace(out.String()) != "sized" {
		t.Errorf("terminal: %d, %v, %q", code, err, &out)
	}
	if _, err := run(&driver.Exec{Command: []string{"no-such-command"}}); berth.KindOf(err) != berth.Invalid {
		t.Errorf("a command that is not there: %v", err)
	}
	must(t, h.Stop(t.Context(), 9, 0))
	wait(t, h)
	if _, err := run(&driver.Exec{Command: []string{"true"}}); err == nil {
		t.Error("a command ran beside a task that has ended")
	}
}

// execCanceled tests that the end of its context ends a command, and not the
// task.
func (d *Driver) execCanceled(t *testing.T) {
	task := d.Alloc(t)
	h := start(t, d.New(), task(1, d.Runs))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &cancels{cancel: cancel}
	if _, err := h.(driver.Execer).Exec(ctx, &driver.Exec{Command: []string{"sh", "-c", "echo ready; exec sleep 1000"}, Stdout: out}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	must(t, h.Stop(t.Context(), 9, 0))
	wait(t, h)
}

// cancels ends a context with the first output.
type cancels struct{ cancel context.CancelFunc }

func (c *cancels) Write(b []byte) (int, error) {
	c.cancel()
	return len(b), nil
}

// mounts tests that directories of the host are where the task wants them, and
// read-only where it does not get to write.
func (d *Driver) mounts(t *testing.T) {
	free, fixed := t.TempDir(), t.TempDir()
	must(t, os.Chmod(free, 0o777))
	must(t, os.Chmod(fixed, 0o777))
	must(t, os.WriteFile(filepath.Join(fixed, "in"), []byte("data"), 0o644))
	task := d.Alloc(t)(1, d.Shell("cat /data/fixed/in; echo x > /data/fixed/out && exit 8; cat /data/fixed/in > /data/free/out"))
	task.Mounts = []driver.Mount{{Source: free, Destination: "/data/free", Propagation: "private"}, {Source: fixed, Destination: "/data/fixed", ReadOnly: true}}
	if e := wait(t, start(t, d.New(), task)); !e.Success() {
		t.Errorf("%+v", e)
	}
	if got := output(t, task, logs.Stdout); got != "data" {
		t.Errorf("%q", got)
	}
	if b, err := os.ReadFile(filepath.Join(free, "out")); err != nil || string(b) != "data" {
		t.Errorf("%q, %v", b, err)
	}
}

// memory tests that a task that needs more than its limit is killed, and that
// its exit says so; and that another is not blamed for it.
func (d *Driver) memory(t *testing.T) {
	drv, task := d.New(), d.Alloc(t)
	hungry := task(1, d.Shell("exec tail /dev/zero"))
	hungry.Limits = driver.Limits{CPUShares: 100, Memory: 16 << 20, MemoryMax: 32 << 20}
	if e := wait(t, start(t, drv, hungry)); !e.OOMKilled || e.Signal != 9 {
		t.Errorf("%+v", e)
	}
	modest := task(2, d.Shell("exit 137"))
	modest.Limits.Memory = 32 << 20
	if e := wait(t, start(t, drv, modest)); e.OOMKilled || e.Code != 137 {
		t.Errorf("%+v", e)
	}
}

// processes tests that a task gets no more processes than its limit.
func (d *Driver) processes(t *testing.T) {
	task := d.Alloc(t)(1, d.Shell("n=0; while test $n -lt 40; do sleep 1000 & n=$((n+1)); done; echo many"))
	task.Limits.MaxProcesses = 20
	if e := wait(t, start(t, d.New(), task)); e.Success() {
		t.Errorf("%+v", e)
	}
	if got := output(t, task, logs.Stdout); got != "" {
		t.Errorf("%q", got)
	}
}

// propagation tests which mounts below a volume a task sees: those made while it runs
// on the host only if its mount says so.
func (d *Driver) propagation(t *testing.T) {
	volume := t.TempDir()
	must(t, unix.Mount("volume", volume, "tmpfs", 0, "mode=777"))
	t.Cleanup(func() { must(t, unix.Unmount(volume, unix.MNT_DETACH)) })
	must(t, unix.Mount("", volume, "", unix.MS_SHARED, ""))
	late := filepath.Join(volume, "late")
	must(t, os.Mkdir(late, 0o755))
	task := d.Alloc(t)(1, d.Shell("echo x > /data/closed/ready; until test -e /data/closed/go; do sleep 0.1; done; cat /data/open/late/f; test ! -e /data/closed/late/f"))
	task.Mounts = []driver.Mount{
		{Source: volume, Destination: "/data/open", ReadOnly: true, Propagation: "host-to-task"}, {Source: volume, Destination: "/data/closed", Propagation: "private"},
	}
	h := start(t, d.New(), task)
	eventually.True(t, "the task runs", func() bool { _, err := os.Stat(filepath.Join(volume, "ready")); return err == nil })
	must(t, unix.Mount("late", late, "tmpfs", 0, ""))
	must(t, os.WriteFile(filepath.Join(late, "f"), []byte("came later"), 0o644))
	must(t, os.WriteFile(filepath.Join(volume, "go"), nil, 0o644))
	if e := wait(t, h); !e.Success() {
		t.Errorf("%+v", e)
	}
	if got := output(t, task, logs.Stdout); got != "came later" {
		t.Errorf("%q", got)
	}
}
