// Package isolated has the drivers exec, java and qemu: a task is a program of the
// host, or of the task's directory, kept from the machine as package isolate
// does it, and limited by cgroups. They differ in what the program is.
package isolated

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/driver/process"
	"berth/internal/agent/isolate"
	"berth/internal/agent/supervise"
	"berth/internal/driverconfig"
)

// DefaultCapabilities are those that jobs may ask for, by cap_add, unless the
// agent's configuration says otherwise. A task has none that it does not ask
// for.
var DefaultCapabilities = []string{
	"audit_write", "chown", "dac_override", "fowner", "fsetid", "kill", "mknod", "net_bind_service", "setfcap", "setgid", "setpcap", "setuid", "sys_chroot",
}

// defaultUser is whom tasks run as that do not say.
const defaultUser = "nobody"

// defaultProcesses is how many processes and threads a task may have at once. A
// fork bomb ends there.
const defaultProcesses = 4096

// Config is what the agent's configuration says of the drivers.
type Config struct {
	Disabled  bool
	AllowCaps []string          // nil is DefaultCapabilities
	HostPID   bool              // tasks that do not say see the processes of the host
	HostIPC   bool              // and its shared memory
	Chroot    map[string]string // what of the host tasks see: place in the tree by path of the host; nil is a default
	Users     process.Rules
	Numbers   *process.Numbers // of tasks that do not say who they run as; nil: they run as nobody
}

// program makes a command and its arguments of a task's config.
type program func(driverconfig.Values) (command string, args []string, err error)

// Driver implements [driver.Driver].
type Driver struct {
	c       Config
	schema  *driverconfig.Schema
	program program
	extra   func(context.Context) (attributes map[string]string, missing string)
}

// Exec returns the driver exec: a task is a command.
func Exec(c Config) *Driver {
	return &Driver{c: c, schema: driverconfig.Exec, program: func(v driverconfig.Values) (string, []string, error) {
		return v.String("command"), v.Strings("args"), nil
	}}
}

// Name implements [driver.Driver].
func (d *Driver) Name() string { return d.schema.Driver }

// Capabilities implements [driver.Driver].
func (*Driver) Capabilities() driver.Capabilities {
	return driver.Capabilities{Isolation: driver.Isolated, Signals: true, Exec: true, Mounts: true, Networks: []string{"bridge", "none", "cni"}}
}

// Fingerprint implements [driver.Driver].
func (d *Driver) Fingerprint(ctx context.Context) berth.DriverInfo {
	attributes := map[string]string{"driver." + d.Name(): "1"}
	missing := d.unfit()
	if missing == "" && d.extra != nil {
		var more map[string]string
		more, missing = d.extra(ctx)
		for k, v := range more {
			attributes[k] = v
		}
	}
	if missing != "" {
		return berth.DriverInfo{HealthDescription: missing}
	}
	return berth.DriverInfo{Attributes: attributes, Detected: true, Healthy: true, HealthDescription: "Healthy"}
}

// unfit returns what the machine lacks for the driver, "" if nothing.
func (d *Driver) unfit() string {
	switch missing := supervise.MissingControllers("cpu", "memory", "pids"); {
	case d.c.Disabled:
		return "disabled"
	case os.Geteuid() != 0:
		return "the agent does not run as root"
	case !isolate.Supported():
		return "the machine's architecture is neither amd64 nor arm64"
	case len(missing) > 0:
		return "the machine lacks the cgroup controllers " + strings.Join(missing, ", ")
	}
	return ""
}

// Start implements [driver.Driver].
func (d *Driver) Start(ctx context.Context, t *driver.Task) (driver.Handle, error) {
	if why := d.unfit(); why != "" {
		return nil, berth.Errorf(berth.Denied, "driver %s cannot start tasks on this node: %s", d.Name(), why)
	}
	st, err := d.plan(t)
	if err != nil {
		return nil, err
	}
	if err := own(t, st.User); err != nil {
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
	config, err := d.schema.Read(t.Config)
	if err != nil {
		return nil, err
	}
	command, args, err := d.program(config)
	if err != nil {
		return nil, err
	}
	for _, a := range append([]string{command, config.String("work_dir")}, args...) {
		if strings.ContainsRune(a, 0) { // execve would end the argument there
			return nil, berth.Errorf(berth.Invalid, "config: %q has a zero byte", a)
		}
	}
	spec, err := d.spec(t, config)
	if err != nil {
		return nil, err
	}
	who, err := d.user(t)
	if err != nil {
		return nil, err
	}
	st := &supervise.Start{
		Command: command, Args: args, Env: environment(t, who), User: who, Logs: t.Logs, Cgroup: t.Cgroup, Cores: t.Cores, Isolate: spec,
		OOMScoreAdj: int(config.Integer("oom_score_adj")),
		Limits: supervise.Limits{
			CPUShares: t.Limits.CPUShares, Memory: t.Limits.Memory, MemoryMax: t.Limits.MemoryMax,
			MaxProcesses: defaultProcesses, Devices: true,
		},
		Until: supervise.BootTime(t.RunUntil), KillSignal: int(t.KillSignal), KillTimeout: t.Grace,
	}
	for _, m := range t.Devices {
		st.Limits.MoreDevices = append(st.Limits.MoreDevices, m.Source+" "+m.Permissions)
	}
	if t.Limits.MaxProcesses > 0 {
		st.Limits.MaxProcesses = t.Limits.MaxProcesses
	}
	return st, nil
}

// user returns who the task runs as.
func (d *Driver) user(t *driver.Task) (*supervise.User, error) {
	if t.User == "" && d.c.Numbers != nil {
		n, err := d.c.Numbers.Of(t.AllocDir, t.Name)
		return &supervise.User{UID: n, GID: n}, err
	}
	name := cmp.Or(t.User, defaultUser)
	who, err := process.User(name)
	if err != nil {
		return nil, err
	}
	if who == nil { // the agent's own, which is root
		who = &supervise.User{}
	}
	return who, d.c.Users.Check(name, who)
}

// spec returns how the task is isolated.
func (d *Driver) spec(t *driver.Task, config driverconfig.Values) (*isolate.Spec, error) {
	s := &isolate.Spec{Root: t.Dir, Alloc: filepath.Join(t.AllocDir.Path(), "alloc"), Binds: d.binds(), WorkDir: config.String("work_dir"), Files: map[string]string{}}
	if s.WorkDir != "" && !filepath.IsAbs(s.WorkDir) {
		return nil, berth.Errorf(berth.Invalid, "config.work_dir: %q must be an absolute path in the task's file tree", s.WorkDir)
	}
	var err error
	if s.HostPID, err = host(config, "pid_mode", d.c.HostPID); err != nil {
		return nil, err
	}
	if s.HostIPC, err = host(config, "ipc_mode", d.c.HostIPC); err != nil {
		return nil, err
	}
	if s.Capabilities, err = d.capabilities(config.Strings("cap_add"), config.Strings("cap_drop")); err != nil {
		return nil, err
	}
	for _, m := range t.Mounts {
		if !filepath.IsAbs(m.Destination) || filepath.Clean(m.Destination) == "/" {
			return nil, berth.Errorf(berth.Invalid, "volume_mount.destination: %q must be an absolute path below the root", m.Destination)
		}
		s.Mounts = append(s.Mounts, isolate.Mount{Source: m.Source, Destination: m.Destination, ReadOnly: m.ReadOnly, Propagation: m.Propagation})
	}
	for _, m := range t.Devices {
		s.Devices = append(s.Devices, isolate.Bind{Source: m.Source, Destination: m.Destination})
	}
	if n := t.Network; n != nil {
		s.NetNS, s.Hostname = n.Namespace, n.Hostname
		if text := n.HostsFile(); text != "" {
			s.Files["hosts"] = text
		}
		if text := n.ResolvFile(); text != "" {
			s.Files["resolv.conf"] = text
		}
		if n.Hostname != "" {
			s.Files["hostname"] = n.Hostname + "\n"
		}
	}
	return s, nil
}

// host reads pid_mode or ipc_mode.
func host(config driverconfig.Values, key string, def bool) (bool, error) {
	switch v := config.String(key); v {
	case "":
		return def, nil
	case "host", "private":
		return v == "host", nil
	default:
		return false, berth.Errorf(berth.Invalid, "config.%s: must be private or host, got %q", key, v)
	}
}

// capabilities returns what the task is to have: what it adds less what it
// drops, all of which the agent must allow.
func (d *Driver) capabilities(add, drop []string) ([]string, error) {
	names := d.c.AllowCaps
	if names == nil {
		names = DefaultCapabilities
	}
	allowed, err := isolate.Capabilities(names)
	if err != nil {
		return nil, err
	}
	want, err := isolate.Capabilities(add)
	if err != nil {
		return nil, berth.Errorf(berth.Invalid, "config.cap_add: %w", err)
	}
	not, err := isolate.Capabilities(drop)
	if err != nil {
		return nil, berth.Errorf(berth.Invalid, "config.cap_drop: %w", err)
	}
	want = slices.DeleteFunc(want, func(c string) bool { return slices.Contains(not, c) })
	for _, c := range want {
		if !slices.Contains(allowed, c) {
			return nil, berth.Errorf(berth.Denied, "config.cap_add: %s is not allowed on this node (allow_caps of plugin %q)", strings.ToLower(strings.TrimPrefix(c, "CAP_")), d.Name())
		}
	}
	return want, nil
}

// own gives the task's directories to its user.
func own(t *driver.Task, who *supervise.User) error {
	name := filepath.Base(t.Dir)
	for _, dir := range []string{name, name + "/local", name + "/secrets", name + "/tmp"} {
		if err := t.AllocDir.Chown(dir, int(who.UID), int(who.GID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
