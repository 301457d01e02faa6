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
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/driver/process"
	"berth/internal/agent/supervise"
	"berth/internal/driverconfig"
	"berth/internal/saferoot"
)

// Name is what jobs call the driver.
var Name = driverconfig.RawExec.Driver

// Config is what the agent's configuration says of the driver.
type Config struct {
	Enabled   bool
	NoCgroups bool     // tasks get no cgroup, so what hides from its session can outlive them
	DeniedEnv []string // variables that tasks do not get; * stands for any text
	Users     process.Rules
}

// Driver implements [driver.Driver].
type Driver struct {
	c       Config
	enabled atomic.Bool
}

// New returns the driver.
func New(c Config) *Driver {
	d := &Driver{c: c}
	d.enabled.Store(c.Enabled)
	return d
}

// Name implements [driver.Driver].
func (*Driver) Name() string { return Name }

// Capabilities implements [driver.Driver].
func (*Driver) Capabilities() driver.Capabilities {
	return driver.Capabilities{Isolation: driver.NoIsolation, Signals: true, Exec: true, Networks: []string{"bridge", "none", "cni"}}
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
	st, err := d.plan(t)
	if err != nil {
		return nil, err
	}
	return process.Start(ctx, t, st)
}

// Recover implements [driver.Driver].
func (d *Driver) Recover(ctx context.Context, t *driver.Task, _ []byte) (driver.Handle, error) {
	return process.Recover(ctx, t, d.plan)
}

// plan turns a task into a start.
func (d *Driver) plan(t *driver.Task) (*supervise.Start, error) {
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
	program, err := lookup(t, command)
	if err != nil {
		return nil, err
	}
	who, err := process.User(t.User)
	if err == nil {
		err = d.c.Users.Check(t.User, who)
	}
	if err != nil {
		return nil, err
	}
	st := &supervise.Start{Command: program, Args: args, Env: without(t.Env, slices.Concat(d.c.DeniedEnv, config.Strings("denied_envvars"))), Dir: dir, User: who,
		Logs: t.Logs, Cgroup: t.Cgroup, Cores: t.Cores, OOMScoreAdj: int(config.Integer("oom_score_adj")),
		Until: supervise.BootTime(t.RunUntil), KillSignal: int(t.KillSignal), KillTimeout: t.Grace}
	if t.Network != nil {
		st.NetNS = t.Network.Namespace
	}
	if d.c.NoCgroups {
		st.Cgroup, st.Cores = "", nil
	}
	return st, nil
}

// without returns the variables whose names match none of the patterns.
func without(env, patterns []string) []string {
	if len(patterns) == 0 {
		return env
	}
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.ContainsFunc(patterns, func(p string) bool { ok, err := path.Match(p, name); return ok && err == nil })
	})
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
