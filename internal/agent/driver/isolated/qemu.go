package isolated

import (
	"cmp"
	"context"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/driver/process"
	"berth/internal/agent/isolate"
	"berth/internal/agent/supervise"
	"berth/internal/driverconfig"
)

// QemuConfig is what the agent's configuration says of the driver qemu.
type QemuConfig struct {
	Disabled   bool
	ImagePaths []string // directories of the host whose images tasks may use
	Args       []string // options that args may have, such as "-smp"; nil is any
	Users      process.Rules
}

// Qemu is the driver qemu: a task is a virtual machine. QEMU itself is a program
// as of the driver exec, with the task's file tree, no rights, and the limits of
// the task; so what args say, or a machine that breaks out of QEMU does, stays
// in there. It implements [driver.Driver].
type Qemu struct {
	c     QemuConfig
	exec  *Driver
	found qemuFound
	kvm   string // path of KVM's device
}

// qemuProgram runs machines of this architecture on any.
const qemuProgram = "qemu-system-x86_64"

// qemuMemory is what QEMU may use besides the machine's memory.
const qemuMemory = 256 << 20

// Places of QEMU's sockets in the task's directory.
const (
	monitorSocket = "tmp/qemu-monitor.sock"
	agentSocket   = "qa.sock"
)

// NewQemu returns the driver.
func NewQemu(c QemuConfig) *Qemu {
	return &Qemu{c: c, exec: Exec(Config{Disabled: c.Disabled, Users: c.Users}), kvm: kvmDevice}
}

// Name implements [driver.Driver].
func (*Qemu) Name() string { return driverconfig.Qemu.Driver }

// Capabilities implements [driver.Driver]. The isolation is that of QEMU.
func (*Qemu) Capabilities() driver.Capabilities {
	return driver.Capabilities{Isolation: driver.Isolated}
}

// Fingerprint implements [driver.Driver].
func (q *Qemu) Fingerprint(ctx context.Context) berth.DriverInfo {
	missing, version := q.exec.unfit(), ""
	if missing == "" {
		version, missing = q.found.version(ctx)
	}
	if missing != "" {
		return berth.DriverInfo{HealthDescription: missing}
	}
	attributes := map[string]string{"driver.qemu": "1", "driver.qemu.version": version}
	if kvmMissing(q.kvm) == "" {
		attributes["driver.qemu.kvm"] = "1"
	}
	return berth.DriverInfo{Attributes: attributes, Detected: true, Healthy: true, HealthDescription: "Healthy"}
}

// qemuVersion finds the version in what QEMU says of itself.
var qemuVersion = regexp.MustCompile(`version ([0-9.]+)`)

// qemuFound remembers the version of the host's QEMU.
type qemuFound struct {
	mu         sync.Mutex
	path, text string
}

// version returns the version, or what is missing.
func (f *qemuFound) version(ctx context.Context) (text, missing string) {
	path, err := exec.LookPath(qemuProgram)
	if err != nil {
		return "", "there is no " + qemuProgram + " in the agent's PATH"
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.path == path {
		return f.text, ""
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return "", qemuProgram + " cannot be run: " + berth.Clip(err.Error(), 200)
	}
	m := qemuVersion.FindSubmatch(out)
	if m == nil {
		return "", qemuProgram + " does not tell its version"
	}
	f.path, f.text = path, string(m[1])
	return f.text, ""
}

// Start implements [driver.Driver].
func (q *Qemu) Start(ctx context.Context, t *driver.Task) (driver.Handle, error) {
	if why := q.exec.unfit(); why != "" {
		return nil, berth.Errorf(berth.Denied, "driver %s cannot start tasks on this node: %s", q.Name(), why)
	}
	v, err := driverconfig.Qemu.Read(t.Config)
	if err != nil {
		return nil, err
	}
	disk, err := q.image(t, v.String("image_path"))
	if err != nil {
		return nil, err
	}
	st, err := q.start(t, v, disk)
	if err != nil {
		return nil, err
	}
	if err := own(t, st.User); err != nil {
		return nil, err
	}
	if err := disk.own(t, st.User); err != nil {
		return nil, err
	}
	h, err := process.Start(ctx, t, st)
	if err != nil {
		return nil, err
	}
	return &machine{h, t, v.Bool("graceful_shutdown")}, nil
}

// Recover implements [driver.Driver].
func (q *Qemu) Recover(ctx context.Context, t *driver.Task, _ []byte) (driver.Handle, error) {
	v, err := driverconfig.Qemu.Read(t.Config)
	if err != nil {
		return nil, err
	}
	h, err := process.Recover(ctx, t, nil) // a machine has no commands beside it
	if err != nil {
		return nil, err
	}
	return &machine{h, t, v.Bool("graceful_shutdown")}, nil
}

// start turns a task into the start of QEMU.
func (q *Qemu) start(t *driver.Task, v driverconfig.Values, disk *disk) (*supervise.Start, error) {
	args, err := q.args(t, v, disk)
	if err != nil {
		return nil, err
	}
	list := make([]any, len(args))
	for i, a := range args {
		list[i] = a
	}
	program := *t
	program.Config = map[string]any{"command": qemuProgram, "args": list}
	st, err := q.exec.plan(&program)
	if err != nil {
		return nil, err
	}
	// What is written to an image that is not changed goes there. QEMU takes /tmp,
	// written like this, for /var/tmp, which the tree does not have.
	st.Env = slices.DeleteFunc(slices.Clone(st.Env), func(v string) bool { return strings.HasPrefix(v, "TMPDIR=") })
	st.Env = append(st.Env, "TMPDIR=/tmp/.")
	if disk.outside {
		st.Isolate.Binds = append(st.Isolate.Binds, isolate.Bind{Source: disk.path, Destination: disk.path})
	}
	if v.String("accelerator") == "kvm" {
		if err := giveKVM(q.kvm, st); err != nil {
			return nil, err
		}
	}
	if t.Limits.Memory > 0 {
		st.Limits.MemoryMax = max(t.Limits.Memory, t.Limits.MemoryMax) + qemuMemory
	}
	return st, nil
}

// args returns the arguments of QEMU.
func (q *Qemu) args(t *driver.Task, v driverconfig.Values, disk *disk) ([]string, error) {
	kind := v.String("drive_interface")
	if kind == "" {
		kind = "ide"
	}
	drive := "file=" + quoted(disk.path) + ",format=" + disk.format + ",if=" + kind
	if disk.outside {
		drive += ",snapshot=on"
	}
	accelerator := cmp.Or(v.String("accelerator"), "tcg")
	out := []string{"-machine", "type=pc,accel=" + accelerator, "-name", quoted(t.Name + "-" + t.AllocID), "-drive", drive, "-nographic"}
	if mib := t.Limits.Memory >> 20; mib > 0 {
		out = append(out, "-m", strconv.FormatInt(mib, 10)+"M")
	}
	if v.Bool("graceful_shutdown") {
		out = append(out, "-qmp", "unix:/"+monitorSocket+",server=on,wait=off")
	}
	if v.Bool("guest_agent") {
		out = append(out, "-chardev", "socket,path=/"+agentSocket+",server=on,wait=off,id=qga0", "-device", "virtio-serial",
			"-device", "virtserialport,chardev=qga0,name=org.qemu.guest_agent.0")
	}
	forward, err := forwards(t, v.Map("port_map"))
	if err != nil {
		return nil, err
	}
	if forward != "" {
		out = append(out, "-netdev", "user,id=user.0"+forward, "-device", "virtio-net-pci,netdev=user.0")
	}
	for i, a := range v.Strings("args") {
		if name := "-" + strings.TrimLeft(a, "-"); q.c.Args != nil && strings.HasPrefix(a, "-") && !slices.Contains(q.c.Args, name) && !slices.Contains(q.c.Args, a) {
			return nil, berth.Errorf(berth.Denied, "config.args[%d]: %q is not allowed on this node (args_allowlist of plugin \"qemu\")", i, berth.Clip(a, 64))
		}
		out = append(out, a)
	}
	return out, nil
}

// quoted writes a comma as QEMU's options want it.
func quoted(s string) string { return strings.ReplaceAll(s, ",", ",,") }
