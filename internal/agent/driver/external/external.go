// Package external runs tasks by external task drivers: plugins of the agent that
// speak the protocol which Nomad publishes for drivers.
//
// A driver's tasks outlive its process, as far as the driver can find them again:
// the agent keeps what the driver gave it for each task, and hands it to every new
// process of the plugin. What a task prints goes through two pipes to a helper in
// the allocation's supervisor, which keeps it as it does for other drivers, whether
// agent and plugin run or not.
package external

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/plugin"
	wire "berth/internal/agent/plugin/pluginwire"
)

const (
	askTime       = 30 * time.Second // for calls that only tell something
	attributes    = 256              // of a fingerprint
	attributeText = 1024             // bytes of one of them
)

// Driver implements [driver.Driver] by a plugin.
type Driver struct {
	p      *plugin.Plugin
	schema *wire.Spec
	has    wire.DriverCapabilities
	cancel context.CancelFunc
	done   chan struct{}

	mu   sync.Mutex
	last berth.DriverInfo // as the newest process tells it
}

// New asks a plugin what it can do and returns its driver. Close ends it.
func New(ctx context.Context, p *plugin.Plugin) (*Driver, error) {
	d := &Driver{p: p, done: make(chan struct{})}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	c, err := p.Conn(ctx)
	if err != nil {
		return nil, err
	}
	schema, err := plugin.Call[wire.Schema](ctx, c, wire.DriverService, "TaskConfigSchema", &wire.Empty{})
	if err != nil {
		return nil, err
	}
	can, err := plugin.Call[wire.Capabilities](ctx, c, wire.DriverService, "Capabilities", &wire.Empty{})
	if err != nil {
		return nil, err
	}
	if d.schema = schema.Spec; can.Capabilities != nil {
		d.has = *can.Capabilities
	}
	switch {
	case d.has.FSIsolation == wire.IsolationChroot:
		return nil, berth.Errorf(berth.Invalid, "driver %s wants the agent to build a chroot for its tasks (fs_isolation = chroot), which this agent does not", p.Name)
	case d.has.RemoteTasks:
		return nil, berth.Errorf(berth.Invalid, "driver %s runs tasks on other machines (remote_tasks), which this agent does not support", p.Name)
	}
	s, first, err := d.listen(ctx, c)
	if err != nil {
		return nil, err
	}
	d.note(first)
	lives, end := context.WithCancel(context.Background())
	d.cancel = end
	s.end()
	go d.watch(lives)
	return d, nil
}

// Close ends what watches the plugin.
func (d *Driver) Close() {
	d.cancel()
	<-d.done
}

// prints is the stream of fingerprints.
type prints struct {
	*plugin.Stream[wire.Empty, wire.DriverFingerprint]
	end context.CancelFunc
}

// listen opens the stream of fingerprints and returns it with the first.
func (d *Driver) listen(ctx context.Context, c *plugin.Conn) (*prints, *wire.DriverFingerprint, error) {
	lives, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end)
	defer stop()
	s, err := plugin.Listen[wire.DriverFingerprint](lives, c, wire.DriverService, "Fingerprint", &wire.Empty{})
	if err != nil {
		end()
		return nil, nil, err
	}
	first, err := s.Next()
	if err != nil {
		end()
		return nil, nil, fmt.Errorf("driver %s tells nothing of its health: %w", d.p.Name, err)
	}
	return &prints{s, end}, first, nil
}

// watch notes each fingerprint of each process of the plugin.
func (d *Driver) watch(ctx context.Context) {
	defer close(d.done)
	for {
		c, err := d.p.Conn(ctx)
		if err != nil {
			return
		}
		s, f, err := d.listen(ctx, c)
		if err == nil {
			stop := context.AfterFunc(ctx, s.end)
			for ; err == nil; f, err = s.Next() {
				d.note(f)
			}
			stop()
			s.end()
		}
		select {
		case <-c.Done:
		case <-ctx.Done():
			return
		case <-time.After(time.Second): // it ended the stream, and lives
		}
	}
}

// note keeps a fingerprint.
func (d *Driver) note(f *wire.DriverFingerprint) {
	info := berth.DriverInfo{
		Detected: f.Health != wire.Undetected, Healthy: f.Health == wire.Healthy, HealthDescription: berth.Clip(f.HealthDescription, attributeText), Attributes: map[string]string{},
	}
	for k, v := range f.Attributes {
		if text := Text(v); k != "" && len(k) <= 256 && len(info.Attributes) < attributes {
			info.Attributes[k] = berth.Clip(text, attributeText)
		}
	}
	if info.Detected {
		info.Attributes["driver."+d.p.Name] = "1"
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = info
}

// Text returns the value of an attribute as the attributes of a node have it.
func Text(a *wire.Attribute) string {
	s := ""
	switch {
	case a == nil:
	case a.String != nil:
		s = *a.String
	case a.Int != nil:
		s = strconv.FormatInt(*a.Int, 10)
	case a.Float != nil:
		s = strconv.FormatFloat(*a.Float, 'g', -1, 64)
	case a.Bool != nil:
		s = strconv.FormatBool(*a.Bool)
	}
	if a != nil && a.Unit != "" {
		s += " " + a.Unit
	}
	return s
}

// Name implements [driver.Driver].
func (d *Driver) Name() string { return d.p.Name }

// Capabilities implements [driver.Driver].
func (d *Driver) Capabilities() driver.Capabilities {
	c := driver.Capabilities{Isolation: driver.NoIsolation, Signals: d.has.SendSignals, Exec: d.has.Exec, Mounts: d.has.NoMounts == 0}
	if d.has.FSIsolation == wire.IsolationImage {
		c.Isolation = driver.ImageIsolation
	}
	for _, m := range d.has.NetworkModes {
		if m == wire.NetworkGroup && !d.has.MustCreateNetwork {
			c.Networks = []string{berth.NetworkBridge, "cni", "none"}
		}
	}
	return c
}

// Fingerprint implements [driver.Driver].
func (d *Driver) Fingerprint(context.Context) berth.DriverInfo {
	c, why := d.p.Running()
	d.mu.Lock()
	defer d.mu.Unlock()
	info := d.last
	info.Attributes = maps.Clone(info.Attributes)
	if c == nil {
		info.Healthy, info.HealthDescription = false, "its plugin does not run"
		if why != nil {
			info.HealthDescription += ": " + berth.Clip(why.Error(), 300)
		}
	}
	return info
}

// Start implements [driver.Driver].
func (d *Driver) Start(ctx context.Context, t *driver.Task) (driver.Handle, error) {
	config, err := plugin.Encode("config", d.schema, t.Config)
	if err != nil {
		return nil, err
	}
	if info := d.Fingerprint(ctx); !info.Detected {
		return nil, berth.Errorf(berth.Invalid, "driver %s cannot be used on this node: %s", d.p.Name, info.HealthDescription)
	}
	asked, cancel := context.WithTimeout(ctx, askTime)
	c, err := d.p.Conn(asked)
	cancel()
	if err != nil {
		return nil, driver.Recoverable(err)
	}
	pipes, err := startPipes(ctx, t)
	if err != nil {
		return nil, err
	}
	conf := taskConfig(t, config, pipes)
	got, err := plugin.Call[wire.StartedTask](ctx, c, wire.DriverService, "StartTask", &wire.StartTask{Task: conf})
	if err != nil {
		return nil, d.undo(ctx, t, c, conf.ID, err)
	}
	if got.Result != wire.StartSuccess || got.Handle == nil {
		err := d.undo(ctx, t, c, conf.ID, fmt.Errorf("the driver says: %s", berth.Clip(got.Error, 1000)))
		if got.Result == wire.StartRetry {
			err = driver.Recoverable(err)
		}
		return nil, err
	}
	h := &handle{d: d, t: t, id: conf.ID, told: got.Handle, on: c.Number}
	h.told.Config = conf // what it was started with, whatever the driver made of it
	return h, nil
}

// undo sees to it that nothing of a start that failed runs, and returns why it
// failed. While the agent goes away it leaves all to the next one.
func (d *Driver) undo(ctx context.Context, t *driver.Task, c *plugin.Conn, id string, why error) error {
	if driver.Detaching(ctx) {
		return why
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTime)
	defer cancel()
	// The driver may not know the task. That is as well.
	_, _ = plugin.Call[wire.Empty](ctx, c, wire.DriverService, "DestroyTask", &wire.DestroyTask{TaskID: id, Force: true})
	if err := endPipes(ctx, t); err != nil {
		return fmt.Errorf("%w: %w; and %w", driver.ErrUnclear, why, err)
	}
	if berth.KindOf(why) == berth.Unavailable { // its process ended meanwhile
		return driver.Recoverable(why)
	}
	return why
}

// taskID names a launch to a driver.
func taskID(t *driver.Task) string {
	return t.AllocID + "/" + t.Name + "/" + strconv.FormatUint(t.Launch, 10)
}

// taskConfig is what a driver is told of a task.
func taskConfig(t *driver.Task, config []byte, p pipes) *wire.TaskConfig {
	const mib = 1 << 20
	c := &wire.TaskConfig{
		ID: taskID(t), Name: t.Name, Config: config, Env: map[string]string{}, DeviceEnv: t.DeviceEnv, User: t.User, AllocDir: t.AllocDir.Path(),
		Stdout: p.stdout, Stderr: p.stderr, AllocID: t.AllocID,
		Group: t.Job.Group, JobName: t.Job.Name, JobID: t.Job.ID, Namespace: t.Job.Namespace, ParentJobID: t.Job.Parent, NodeID: t.Job.NodeID, NodeName: t.Job.NodeName,
		Resources: &wire.TaskResources{
			Allocated: &wire.AllocatedResources{
				CPU:    &wire.AllocatedCPU{Shares: t.Limits.CPUShares},
				Memory: &wire.AllocatedMemory{MemoryMB: t.Limits.Memory / mib, MemoryMaxMB: t.Limits.MemoryMax / mib},
			},
			Linux: &wire.LinuxResources{CPUShares: t.Limits.CPUShares, MemoryLimit: max(t.Limits.Memory, t.Limits.MemoryMax)},
		},
	}
	if t.Limits.CPUTotal > 0 {
		c.Resources.Linux.PercentTicks = float64(t.Limits.CPUShares) / float64(t.Limits.CPUTotal)
	}
	var cores []string
	for _, n := range t.Cores {
		cores = append(cores, strconv.Itoa(int(n)))
	}
	c.Resources.Linux.CPUSet = strings.Join(cores, ",")
	// With the marks the agent finds what runs of the task even if the driver has
	// forgotten it.
	for _, v := range t.Supervisor.Marked(t.Env, t.Name) {
		k, v, _ := strings.Cut(v, "=")
		c.Env[k] = v
	}
	for _, m := range t.Mounts {
		c.Mounts = append(c.Mounts, &wire.Mount{TaskPath: m.Destination, HostPath: m.Source, ReadOnly: m.ReadOnly, Propagation: m.Propagation})
	}
	for _, m := range t.Devices {
		c.Devices = append(c.Devices, &wire.Device{TaskPath: m.Destination, HostPath: m.Source, Permissions: m.Permissions})
	}
	for _, m := range t.Ports {
		c.Resources.Ports = append(c.Resources.Ports, &wire.Port{Label: m.Label, Value: int32(m.Value), To: int32(m.To), HostIP: m.HostIP})
	}
	if n := t.Network; n != nil {
		c.Network = &wire.NetworkIsolation{Mode: wire.NetworkGroup, Path: n.Namespace, Hosts: &wire.HostsConfig{Hostname: n.Hostname}}
		if n.DNS != nil {
			c.DNS = &wire.DNSConfig{Servers: n.DNS.Servers, Searches: n.DNS.Searches, Options: n.DNS.Options}
		}
	}
	return c
}
