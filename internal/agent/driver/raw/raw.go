// Package raw is the driver raw_exec: a task is a command of the host, without
// any isolation. It is off unless the agent's own configuration enables it,
// and that is asked again at each start, whatever a server sent.
//
// Tasks run under the supervisor of their allocation (package supervise), in a
// session and, where the machine lets us, a cgroup of their own, by which all
// of a task is ended; neither limits it.
package raw

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/supervise"
	"berth/internal/driverconfig"
	"berth/internal/saferoot"
)

// Name is what jobs call the driver.
var Name = driverconfig.RawExec.Driver

// Driver implements [driver.Driver].
type Driver struct{ enabled atomic.Bool }

// New returns the driver. enabled is what the agent's configuration says.
func New(enabled bool) *Driver {
	d := new(Driver)
	d.enabled.Store(enabled)
	return d
}

// Name implements [driver.Driver].
func (*Driver) Name() string { return Name }

// Capabilities implements [driver.Driver].
func (*Driver) Capabilities() driver.Capabilities {
	return driver.Capabilities{Isolation: driver.NoIsolation, Signals: true}
}

// Fingerprint implements [driver.Driver].
func (d *Driver) Fingerprint(context.Context) berth.DriverInfo {
	if !d.enabled.Load() {
		return berth.DriverInfo{HealthDescription: "disabled"}
	}
	return berth.DriverInfo{
		Attributes: map[string]string{"driver." + Name: "1"}, Detected: true, Healthy: true, HealthDescription: "Healthy",
	}
}

// Start implements [driver.Driver].
func (d *Driver) Start(ctx context.Context, t *driver.Task) (driver.Handle, error) {
	if !d.enabled.Load() {
		return nil, berth.Errorf(berth.Denied, "driver %s is not enabled in this agent's configuration", Name)
	}
	st, err := plan(t)
	if err != nil {
		return nil, err
	}
	l, err := t.Supervisor.Start(ctx, t.Name, t.Launch, *st)
	if err == nil {
		return &handle{t, *l}, nil
	}
	if berth.KindOf(err) == berth.Invalid || driver.Detaching(ctx) {
		return nil, err // the command cannot be run; or the next agent looks what came of it
	}
	// The supervisor may have started it and the answer was lost.
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	l, findErr := t.Supervisor.Find(late, t.Name, t.Launch, t.Grace)
	switch {
	case errors.Is(findErr, driver.ErrUnknown), errors.Is(findErr, driver.ErrLost), errors.Is(findErr, driver.ErrReboot):
		return nil, driver.Recoverable(err) // nothing of it runs
	case findErr != nil:
		return nil, errors.Join(driver.ErrUnclear, err, findErr)
	}
	h := &handle{t, *l}
	if ctx.Err() == nil {
		return h, nil
	}
	err = errors.Join(err, h.Stop(late, syscall.SIGKILL, 0))
	if _, waitErr := h.Wait(late); waitErr != nil && !errors.Is(waitErr, driver.ErrLost) {
		return nil, errors.Join(driver.ErrUnclear, err, waitErr)
	}
	return nil, driver.Recoverable(errors.Join(err, h.Release(late)))
}

// plan turns a task into a start.
func plan(t *driver.Task) (*supervise.Start, error) {
	config, err := driverconfig.RawExec.Read(t.Config)
	if err != nil {
		return nil, err
	}
	command, args, dir := config.String("command"), config.Strings("args"), config.String("work_dir")
	// execve would end the argument there.
	for _, a := range append([]string{command, dir}, args...) {
		if strings.ContainsRune(a, 0) {
			return nil, berth.Errorf(berth.Invalid, "config: %q has a zero byte", a)
		}
	}
	switch {
	case dir == "":
		dir = t.Dir
	case !filepath.IsAbs(dir):
		return nil, berth.Errorf(berth.Invalid, "config.work_dir: %q must be an absolute path", dir)
	}
	path, err := lookup(t, command)
	if err != nil {
		return nil, err
	}
	who, err := credential(t.User)
	if err != nil {
		return nil, err
	}
	return &supervise.Start{Command: path, Args: args, Env: t.Env, Dir: dir, User: who, Logs: t.Logs, Cgroup: t.Cgroup, Cores: t.Cores,
		Until: supervise.BootTime(t.RunUntil), KillSignal: int(t.KillSignal), KillTimeout: t.Grace}, nil
}

// lookup finds the command: an absolute path is the host's, another one is
// looked for in the task's own directories, then in its PATH.
func lookup(t *driver.Task, command string) (string, error) {
	if filepath.IsAbs(command) {
		return command, executable(command)
	}
	root, err := saferoot.Open(t.Dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	// Links are not followed out of the task's directory.
	clean := strings.TrimPrefix(command, "./")
	for _, p := range []string{"local/" + clean, clean} {
		if st, err := root.Lstat(p); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return filepath.Join(t.Dir, p), nil
		}
	}
	// The task's own PATH, not the agent's.
	if !strings.Contains(command, "/") {
		for _, e := range t.Env {
			list, ok := strings.CutPrefix(e, "PATH=")
			if !ok {
				continue
			}
			for _, dir := range filepath.SplitList(list) {
				if p := filepath.Join(dir, command); filepath.IsAbs(p) && executable(p) == nil {
					return p, nil
				}
			}
		}
	}
	return "", berth.Errorf(berth.Invalid, "config.command: %q is neither in the task's directory nor in its PATH", command)
}

// executable returns nil if p is a file that somebody may execute. Whether the
// task's user may shows when it is started.
func executable(p string) error {
	st, err := os.Stat(p)
	if err != nil {
		return berth.Errorf(berth.Invalid, "config.command: %w", err)
	}
	if st.IsDir() || st.Mode()&0o111 == 0 {
		return berth.Errorf(berth.Invalid, "config.command: %q cannot be executed", p)
	}
	return nil
}

// credential looks up a user by name or number. The agent's own is nil.
func credential(name string) (*supervise.User, error) {
	if name == "" {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		var byID error
		if u, byID = user.LookupId(name); byID != nil {
			return nil, berth.Errorf(berth.Invalid, "user: %w", err)
		}
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, berth.Errorf(berth.Invalid, "user %q: %w", name, err)
	}
	// An agent may always start tasks as its own user, root or not.
	if int(uid) == os.Geteuid() {
		return nil, nil
	}
	if os.Geteuid() != 0 {
		return nil, berth.Errorf(berth.Denied, "user: the agent does not run as root and cannot start tasks as %q", name)
	}
	who := &supervise.User{UID: uint32(uid)}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, berth.Errorf(berth.Invalid, "user %q: %w", name, err)
	}
	who.GID = uint32(gid)
	// The task gets the user's other groups as a login would.
	groups, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("groups of user %q: %w", name, err)
	}
	for _, g := range groups {
		if id, err := strconv.ParseUint(g, 10, 32); err == nil {
			who.Groups = append(who.Groups, uint32(id))
		}
	}
	return who, nil
}

// Recover implements [driver.Driver]. It works when the driver has been
// disabled since: what runs must be watched and stopped.
func (d *Driver) Recover(ctx context.Context, t *driver.Task, _ []byte) (driver.Handle, error) {
	l, err := t.Supervisor.Find(ctx, t.Name, t.Launch, t.Grace)
	if err != nil {
		return nil, err
	}
	return &handle{t, *l}, nil
}

// handle implements [driver.Handle] by asking the allocation's supervisor.
type handle struct {
	t *driver.Task
	l supervise.Launch
}

// Launch implements [driver.Handle].
func (h *handle) Launch() uint64 { return h.l.Number }

// State is for people who look into the agent's records; the supervisor knows
// the rest.
func (h *handle) State() []byte {
	b, _ := json.Marshal(struct { // plain values: no error
		PID       int
		StartTime uint64
	}{h.l.PID, h.l.StartTime})
	return b
}

// Wait implements [driver.Handle]. An exit that was known when the launch was
// found needs no supervisor.
func (h *handle) Wait(ctx context.Context) (*driver.Exit, error) {
	if h.l.Exit != nil {
		return h.l.Exit, nil
	}
	return h.t.Supervisor.Wait(ctx, h.t.Name, h.l.Number, h.t.Grace)
}

// Signal implements [driver.Handle].
func (h *handle) Signal(ctx context.Context, sig syscall.Signal) error {
	return h.t.Supervisor.Signal(ctx, h.t.Name, h.l.Number, sig)
}

// Stop implements [driver.Handle]. It returns when the supervisor has taken the
// order; the end shows in Wait.
func (h *handle) Stop(ctx context.Context, sig syscall.Signal, timeout time.Duration) error {
	if h.l.Exit != nil {
		return nil
	}
	return h.t.Supervisor.Stop(ctx, h.t.Name, h.l.Number, sig, timeout)
}

// Release implements [driver.Handle]: a supervisor all of whose launches are
// released may end.
func (h *handle) Release(ctx context.Context) error {
	return h.t.Supervisor.Release(ctx, h.t.Name, h.l.Number)
}

// Usage implements [driver.Handle]. It is read from the machine, not asked of
// the supervisor, and never fails.
func (h *handle) Usage(context.Context) (driver.Usage, error) {
	return h.t.Supervisor.Usage(&h.l), nil
}
