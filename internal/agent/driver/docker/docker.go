// Package docker is the driver docker: a task is a container of a Docker engine,
// which the driver reaches through its API. The engine keeps containers while
// the agent is away, and with live restore while it is restarted itself; labels
// say which task a container is of.
//
// Output goes through the engine's log to the files of package logs, see
// follower. What a job may ask of the host is decided by [Config], closed
// by default: no host paths outside the task's directory, no privileged mode,
// no more capabilities than the engine gives by default.
package docker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/moby/moby/client"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/driverconfig"
)

// Name is what jobs call the driver.
var Name = driverconfig.Docker.Driver

// Config is what the agent's configuration says of the driver. [Defaults] are
// those that Nomad documents.
type Config struct {
	Disabled bool
	Endpoint string // of the engine; "" is unix:///var/run/docker.sock
	Node     string // ID of the node: containers of others are left alone

	AuthFile    string   // a config.json of docker with credentials; "" for none
	AuthHelper  string   // name NAME of a program docker-credential-NAME; "" for none
	ExtraLabels []string // names of further labels, such as "job_name"; "*" and "task*" are patterns

	Volumes         bool   // host paths outside the task's directory may be mounted
	SELinuxLabel    string // option of mounts of the allocation's directories: "z" or "Z"
	AllowPrivileged bool
	AllowCaps       []string // capabilities that containers may have; "all" is any
	AllowRuntimes   []string
	PidsLimit       int64 // of each container; 0 is the engine's
	NoLogs          bool  // the output of tasks is not collected
	PullTimeout     time.Duration

	KeepImages      bool          // unused images are not removed
	ImageDelay      time.Duration // from the last use of an image to its removal
	KeepContainers  bool          // ended containers are not removed
	Dangling        bool          // containers of this node without a task are removed
	DanglingDryRun  bool          // they are only logged
	DanglingPeriod  time.Duration // how often the driver looks for them
	DanglingGrace   time.Duration // age below which a container is left alone
	LoggingDefaults Logging

	// Runs reports whether the agent has an allocation that has not ended. Infra
	// containers of others are removed; nil: of none.
	Runs func(alloc string) bool
	Log  *slog.Logger
}

// Logging is a log driver of the engine and its options.
type Logging struct {
	Type   string
	Config map[string]string
}

// DefaultCaps are the capabilities that containers may have by default.
var DefaultCaps = []string{
	"audit_write", "chown", "dac_override", "fowner", "fsetid", "kill", "mknod", "net_bind_service", "setfcap", "setgid", "setpcap", "setuid", "sys_chroot",
}

// Defaults returns the configuration of an agent that says nothing of the
// driver.
func Defaults() Config {
	return Config{
		AllowCaps: slices.Clone(DefaultCaps), AllowRuntimes: []string{"runc", "nvidia"}, PullTimeout: 5 * time.Minute, ImageDelay: 3 * time.Minute,
		Dangling: true, DanglingPeriod: 5 * time.Minute, DanglingGrace: 5 * time.Minute,
	}
}

// Driver implements [driver.Driver].
type Driver struct {
	kind   *Kind
	c      Config
	log    *slog.Logger
	engine *client.Client
	broken error // the endpoint cannot be used at all

	pulls  pulls
	images images

	mu     sync.Mutex
	seen   bool            // the engine answered once
	claims map[launch]bool // launches that somebody may ask for again
}

// launch names one start of a task.
type launch struct {
	alloc, task string
	number      uint64
}

// New returns the driver of Docker's own engines.
func New(c Config) *Driver { return NewOf(Engine, c) }

// SeesMounts reports whether a container sees what the agent mounts in the task's
// directory. The engine of a user who is not root has its own view of the machine's
// mounts, which need not have those that were made after it.
func (d *Driver) SeesMounts(map[string]any) bool {
	if d.engine == nil {
		return false
	}
	path, local := strings.CutPrefix(d.engine.DaemonHost(), "unix://")
	info, err := os.Stat(path)
	if !local || err != nil {
		return false
	}
	of, ok := info.Sys().(*syscall.Stat_t)
	return ok && of.Uid == 0
}

// NewOf returns the driver of a kind of engine. It talks to the engine only when
// it is asked something.
func NewOf(kind *Kind, c Config) *Driver {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	d := &Driver{kind: kind, c: c, log: c.Log, claims: map[launch]bool{}}
	opts := []client.Opt{client.WithAPIVersionFromEnv()}
	if c.Endpoint == "" {
		opts = append(opts, client.FromEnv)
	} else {
		opts = append(opts, client.WithHost(c.Endpoint))
	}
	d.engine, d.broken = client.New(opts...)
	d.pulls.d, d.pulls.every, d.images.d = d, progressEvery, d
	return d
}

// Name implements [driver.Driver].
func (d *Driver) Name() string { return d.kind.Name }

// Capabilities implements [driver.Driver].
func (d *Driver) Capabilities() driver.Capabilities {
	return driver.Capabilities{Isolation: driver.ImageIsolation, Signals: true, Exec: true, Mounts: true, Labels: true, Networks: d.kind.Networks}
}

// ready refuses what a disabled driver, or one without an engine, cannot do.
func (d *Driver) ready() error {
	if d.c.Disabled {
		return berth.Errorf(berth.Denied, "driver %s is not enabled in this agent's configuration", d.kind.Name)
	}
	if d.broken != nil {
		return berth.Errorf(berth.Invalid, "plugin.%s.config: the address of the engine: %w", d.kind.Plugin, d.broken)
	}
	return nil
}

// askTime bounds a question to the engine that it answers at once.
const askTime = 10 * time.Second

// Fingerprint implements [driver.Driver]. An engine that answered once and does
// not any more is found and unhealthy.
func (d *Driver) Fingerprint(ctx context.Context) berth.DriverInfo {
	if d.c.Disabled {
		return berth.DriverInfo{HealthDescription: "disabled"}
	}
	if d.broken != nil {
		return berth.DriverInfo{HealthDescription: d.broken.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	info, err := d.engine.Info(ctx, client.InfoOptions{})
	d.mu.Lock()
	d.seen = d.seen || err == nil
	seen := d.seen
	d.mu.Unlock()
	if err != nil {
		return berth.DriverInfo{Detected: seen, HealthDescription: "the " + d.kind.Title + " engine does not answer: " + clipped(err)}
	}
	at := "driver." + d.kind.Name
	attrs := map[string]string{
		at: "1", at + ".version": info.Info.ServerVersion, at + ".os_type": info.Info.OSType,
		at + ".runtimes": strings.Join(slices.Sorted(maps.Keys(info.Info.Runtimes)), ","),
	}
	if d.c.AllowPrivileged {
		attrs[at+".privileged.enabled"] = "1"
	}
	if d.c.Volumes {
		attrs[at+".volumes.enabled"] = "1"
	}
	if gw := d.bridge(ctx); gw.IsValid() {
		attrs[at+".bridge_ip"] = gw.String()
	}
	if d.kind.Attributes != nil {
		maps.Copy(attrs, d.kind.Attributes(info.Info))
	}
	maps.DeleteFunc(attrs, func(_, v string) bool { return v == "" })
	return berth.DriverInfo{Attributes: attrs, Detected: true, Healthy: true, HealthDescription: "Healthy"}
}

// bridge returns the gateway of the engine's default network, if it has one.
func (d *Driver) bridge(ctx context.Context) (gw netip.Addr) {
	n, err := d.engine.NetworkInspect(ctx, "bridge", client.NetworkInspectOptions{})
	if err != nil {
		return gw
	}
	for _, c := range n.Network.IPAM.Config {
		if c.Gateway.IsValid() {
			return c.Gateway
		}
	}
	return gw
}

// claim keeps a launch from being taken for one that nobody asks for.
func (d *Driver) claim(l launch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.claims[l] = true
}

// unclaim says that nobody asks for the launch any more.
func (d *Driver) unclaim(l launch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.claims, l)
}

// claimed reports whether somebody may ask for the launch again. Number 0
// stands for any.
func (d *Driver) claimed(l launch) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.claims[l] || d.claims[launch{l.alloc, l.task, 0}]
}

// clipped returns an error as text of bounded length, for people.
func clipped(err error) string { return berth.Clip(err.Error(), 500) }

// late returns a context for what must be done although ctx has ended.
func late(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
}

// errf joins what was tried with an error, so that a task event says both.
func errf(what string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return driver.Recoverable(fmt.Errorf("%s: %w", what, err))
	}
	if wrong(err) {
		return fmt.Errorf("%s: %w", what, err)
	}
	return driver.Recoverable(fmt.Errorf("%s: %w", what, err))
}
