package external

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/supervise"
)

// pipes are the paths of the pipes that a task writes to.
type pipes struct{ stdout, stderr string }

// pipeNames are the names of a launch's pipes in the supervisor's directory.
func pipeNames(t *driver.Task) (out, err string) {
	n := t.Name + "-" + strconv.FormatUint(t.Launch, 10)
	return "stdout-" + n, "stderr-" + n
}

// startPipes makes the pipes, and the helper that takes from them what the task
// prints. The helper is the launch to the supervisor: when it ends, for whatever
// reason, the supervisor ends all that bears the task's marks.
func startPipes(ctx context.Context, t *driver.Task) (pipes, error) {
	out, errs := pipeNames(t)
	control, err := t.AllocDir.Sub(supervise.ControlDir)
	if err != nil {
		return pipes{}, driver.Recoverable(err)
	}
	defer control.Close()
	for _, name := range []string{out, errs} {
		// The directory is the agent's own, and nobody else can write to it.
		if err := unix.Mkfifo(filepath.Join(control.ProcPath(), name), 0o622); err != nil && !errors.Is(err, unix.EEXIST) {
			return pipes{}, driver.Recoverable(fmt.Errorf("pipe for what the task prints: %w", err))
		}
	}
	_, err = t.Supervisor.StartPipes(ctx, t.Name, t.Launch, out, errs, supervise.Start{
		Logs: t.Logs, Dir: t.Dir, Cgroup: "", Until: supervise.BootTime(t.RunUntil), KillSignal: int(t.KillSignal), KillTimeout: t.Grace,
	})
	if err != nil {
		if berth.KindOf(err) == berth.Unavailable {
			err = fmt.Errorf("%w: %w", driver.ErrUnclear, err)
		}
		return pipes{}, err
	}
	dir := filepath.Join(t.AllocDir.Path(), supervise.ControlDir)
	return pipes{filepath.Join(dir, out), filepath.Join(dir, errs)}, nil
}

// endPipes ends the helper once the task has ended. It first takes what is left
// in the pipes. What still runs of the task is killed.
func endPipes(ctx context.Context, t *driver.Task) error {
	if err := t.Supervisor.Stop(ctx, t.Name, t.Launch, syscall.SIGTERM, 10*time.Second); err != nil {
		return err
	}
	_, err := t.Supervisor.Wait(ctx, t.Name, t.Launch, 0)
	if err != nil && !errors.Is(err, driver.ErrLost) && !errors.Is(err, driver.ErrUnknown) && !errors.Is(err, driver.ErrReboot) {
		return err
	}
	removePipes(t)
	return nil
}

// removePipes removes the pipes.
func removePipes(t *driver.Task) {
	control, err := t.AllocDir.Sub(supervise.ControlDir)
	if err != nil {
		return
	}
	defer control.Close()
	out, errs := pipeNames(t)
	_, _ = control.Remove(out), control.Remove(errs)
}
