// Package podman is the driver podman: a task is a container of podman, which
// the driver reaches through a socket that podman serves. podman speaks Docker's
// API there, so containers are started, followed, stopped and found again by
// package docker; here are the words of podman's own config, and the sockets:
// an agent may have several, each of another user.
package podman

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/driver/docker"
	"berth/internal/driverconfig"
)

// Name is what jobs call the driver.
var Name = driverconfig.Podman.Driver

// Plugin is the name of the driver's block in the agent's configuration.
const Plugin = "nomad-driver-podman"

// DefaultSocket is the name of the socket of tasks that name none.
const DefaultSocket = "default"

// Config is what the agent's configuration says of the driver.
type Config struct {
	// Engine is what holds for all sockets. Its Endpoint is not used.
	Engine docker.Config
	// Sockets are the addresses of the sockets by their name; empty for the one
	// where podman serves by default.
	Sockets map[string]string
}

// Defaults returns the configuration of an agent that says nothing of the
// driver. Unlike Nomad's it mounts no host paths outside the task's directory.
func Defaults() Config {
	c := docker.Defaults()
	c.KeepImages = true
	return Config{Engine: c}
}

// Driver implements [driver.Driver].
type Driver struct {
	disabled bool
	sockets  map[string]*docker.Driver
	names    []string // of the sockets, the default one first
}

// New returns the driver. It talks to podman only when it is asked something.
func New(c Config) *Driver {
	d := &Driver{disabled: c.Engine.Disabled, sockets: map[string]*docker.Driver{}}
	paths := c.Sockets
	if len(paths) == 0 {
		paths = map[string]string{DefaultSocket: ""}
	}
	for name, path := range paths {
		conf := c.Engine
		conf.Endpoint = endpoint(path)
		d.sockets[name] = docker.NewOf(kind, conf)
		d.names = append(d.names, name)
	}
	slices.SortFunc(d.names, func(a, b string) int {
		switch {
		case a == DefaultSocket:
			return -1
		case b == DefaultSocket:
			return 1
		}
		return strings.Compare(a, b)
	})
	return d
}

// endpoint returns the address of a socket. Documentation writes it with two
// slashes and with three; both mean a path from the root. "" is where podman
// serves for the agent's user.
func endpoint(path string) string {
	if path == "" {
		path = "/run/podman/podman.sock"
		if uid := os.Geteuid(); uid != 0 {
			path = fmt.Sprintf("/run/user/%d/podman/podman.sock", uid)
		}
	}
	if rest, ok := strings.CutPrefix(path, "unix:"); ok {
		path = rest
	} else if strings.Contains(path, "://") {
		return path // another kind of address
	}
	return "unix:///" + strings.TrimLeft(path, "/")
}

// Name implements [driver.Driver].
func (*Driver) Name() string { return Name }

// Capabilities implements [driver.Driver].
func (d *Driver) Capabilities() driver.Capabilities { return d.sockets[d.names[0]].Capabilities() }

// socket returns the driver of the socket that a task names.
func (d *Driver) socket(t *driver.Task) (*docker.Driver, error) {
	v, err := driverconfig.Podman.Read(t.Config)
	if err != nil {
		return nil, err
	}
	name := v.String("socket")
	if name == "" {
		name = DefaultSocket
	}
	s := d.sockets[name]
	if s == nil {
		return nil, berth.Errorf(berth.Invalid, "config.socket: this node has no socket %q: want one of %s", berth.Clip(name, 64), strings.Join(d.names, ", "))
	}
	return s, nil
}

// SeesMounts reports whether a container of this config sees what the agent mounts in
// the task's directory; see [docker.Driver.SeesMounts].
func (d *Driver) SeesMounts(config map[string]any) bool {
	name, _ := config["socket"].(string)
	s := d.sockets[cmp.Or(name, DefaultSocket)]
	return s != nil && s.SeesMounts(config)
}

// Start implements [driver.Driver].
func (d *Driver) Start(ctx context.Context, t *driver.Task) (driver.Handle, error) {
	if d.disabled {
		return nil, berth.Errorf(berth.Denied, "driver %s is not enabled in this agent's configuration", Name)
	}
	s, err := d.socket(t)
	if err != nil {
		return nil, err
	}
	return s.Start(ctx, t)
}

// Recover implements [driver.Driver].
func (d *Driver) Recover(ctx context.Context, t *driver.Task, state []byte) (driver.Handle, error) {
	s, err := d.socket(t)
	if err != nil {
		return nil, err
	}
	return s.Recover(ctx, t, state)
}

// Watch removes containers of this node that belong to no task any more, until
// ctx ends.
func (d *Driver) Watch(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, s := range d.sockets {
		g.Go(func() error { return s.Watch(ctx) })
	}
	return g.Wait()
}

// Fingerprint implements [driver.Driver]. Attributes of the default socket are
// driver.podman.KEY, those of another driver.podman.NAME.KEY. The driver is
// healthy while podman answers on all sockets.
func (d *Driver) Fingerprint(ctx context.Context) berth.DriverInfo {
	out := berth.DriverInfo{Healthy: true, HealthDescription: "Healthy"}
	var wrong []string
	at := "driver." + Name
	for i, name := range d.names {
		info := d.sockets[name].Fingerprint(ctx)
		out.Detected = out.Detected || info.Detected
		if !info.Healthy {
			out.Healthy = false
			if len(d.names) > 1 {
				info.HealthDescription = fmt.Sprintf("socket %q: %s", name, info.HealthDescription)
			}
			wrong = append(wrong, info.HealthDescription)
		}
		for k, v := range info.Attributes {
			if out.Attributes == nil {
				out.Attributes = map[string]string{}
			}
			if rest, ok := strings.CutPrefix(k, at+"."); ok && i > 0 {
				k = at + "." + name + "." + rest
			}
			out.Attributes[k] = v
		}
	}
	if len(wrong) > 0 {
		out.HealthDescription = strings.Join(wrong, "; ")
	}
	return out
}

// errNoTLS is why tls_verify = false is refused.
var errNoTLS = errors.New("false is not supported: list the registry as insecure in registries.conf of the node")
