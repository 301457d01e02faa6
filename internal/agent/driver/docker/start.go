package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/driverconfig"
)

// memory is what State keeps.
type memory struct {
	ID     string // of the container
	Launch uint64
}

// Start implements [driver.Driver].
func (d *Driver) Start(ctx context.Context, t *driver.Task) (driver.Handle, error) {
	if err := d.ready(); err != nil {
		return nil, err
	}
	v, err := d.kind.Read(t)
	if err != nil {
		return nil, err
	}
	if t.Network != nil && len(d.kind.Networks) == 0 {
		return nil, berth.Errorf(berth.Invalid, "network.mode: %q is not supported by the driver %s; use network_mode in its config", t.Network.Mode, d.kind.Name)
	}
	mode := networkMode(v)
	if inGroup(t, v) {
		mode = "container:unknown" // until the image is there
	}
	if _, err := d.create(t, v, "", mode); err != nil {
		return nil, err // before anything is pulled
	}
	at := launch{t.AllocID, t.Name, t.Launch}
	d.claim(at)
	h, err := d.start(ctx, t, v)
	if err != nil && !errors.Is(err, driver.ErrUnclear) && !driver.Detaching(ctx) {
		d.unclaim(at)
	}
	return h, err
}

// start pulls, creates and starts.
func (d *Driver) start(ctx context.Context, t *driver.Task, v driverconfig.Values) (driver.Handle, error) {
	at := launch{t.AllocID, t.Name, t.Launch}
	image, err := d.holdImage(ctx, t, v, at)
	if err != nil {
		return nil, err
	}
	defer d.images.drop(image, at)
	mode, err := d.join(ctx, t, v)
	if err != nil {
		return nil, err
	}
	opts, err := d.create(t, v, image, mode)
	if err != nil {
		return nil, err
	}
	files, err := d.networkFiles(t, v)
	if err != nil {
		return nil, err
	}
	opts.HostConfig.Binds = append(opts.HostConfig.Binds, files...)
	id, err := d.createContainer(ctx, t, opts, int(v.Integer("container_exists_attempts")))
	if err != nil {
		return nil, err
	}
	d.images.use(image, id)
	var f *follower
	if d.collects(t, opts.HostConfig.LogConfig.Type) {
		if f, err = d.follow(t, id, opts.Config.Tty, true); err != nil {
			return nil, d.undo(ctx, image, id, err)
		}
	}
	if _, err := d.engine.ContainerStart(ctx, id, client.ContainerStartOptions{}); err != nil {
		if driver.Detaching(ctx) {
			return nil, err // the next agent looks what came of it
		}
		f.abandon()
		return nil, d.undo(ctx, image, id, errf("start of the container", err))
	}
	f.run()
	return &handle{d: d, launch: at, id: id, image: image, logs: f, signal: t.KillSignal}, nil
}

// undo removes a container that was not started, and returns why.
func (d *Driver) undo(ctx context.Context, image, id string, why error) error {
	ctx, cancel := late(ctx)
	defer cancel()
	err := d.remove(ctx, id)
	d.images.drop(image, id)
	if err != nil {
		return errors.Join(driver.ErrUnclear, why, err)
	}
	return why
}

// remove ends and removes a container with its anonymous volumes. One that is
// gone is removed.
func (d *Driver) remove(ctx context.Context, id string) error {
	_, err := d.engine.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	for wait := 50 * time.Millisecond; taken(err); wait = min(2*wait, time.Second) { // its removal is under way
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
		_, err = d.engine.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	}
	if gone(err) {
		return nil
	}
	return err
}

// createContainer creates the container. What earlier launches of the task left
// is removed first, since the name is the same.
func (d *Driver) createContainer(ctx context.Context, t *driver.Task, opts *client.ContainerCreateOptions, attempts int) (string, error) {
	if attempts == 0 {
		attempts = 5
	}
	for try := 1; ; try++ {
		all, err := d.find(ctx, t)
		if err != nil {
			return "", errf("looking for earlier containers of the task", err)
		}
		for _, c := range all {
			if c.launch > t.Launch {
				return "", fmt.Errorf("a container of launch %d exists, and this is launch %d", c.launch, t.Launch)
			}
			if err := d.remove(ctx, c.id); err != nil {
				return "", errf("removing an earlier container of the task", err)
			}
		}
		made, err := d.engine.ContainerCreate(ctx, *opts)
		switch {
		case err == nil:
			return made.ID, nil
		case driver.Detaching(ctx):
			return "", err
		case taken(err) && try < attempts && ctx.Err() == nil:
			select {
			case <-time.After(time.Duration(try) * 100 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		case ctx.Err() != nil:
			// The engine may have made it before it saw that we had gone.
			if e := d.removeLaunch(ctx, t); e != nil {
				return "", errors.Join(driver.ErrUnclear, err, e)
			}
		}
		if gone(err) && d.lacks(ctx, opts.Config.Image) {
			return "", driver.Recoverable(fmt.Errorf("the image was removed while the task started: %w", err))
		}
		return "", errf("creation of the container", err)
	}
}

// lacks reports whether the engine certainly does not have an image.
func (d *Driver) lacks(ctx context.Context, image string) bool {
	_, err := d.engine.ImageInspect(ctx, image)
	return gone(err)
}

// removeLaunch removes what a launch may have left.
func (d *Driver) removeLaunch(ctx context.Context, t *driver.Task) error {
	ctx, cancel := late(ctx)
	defer cancel()
	all, err := d.find(ctx, t)
	for _, c := range all {
		if c.launch == t.Launch {
			err = errors.Join(err, d.remove(ctx, c.id))
		}
	}
	return err
}

// found is a container of a task.
type found struct {
	id, image string
	launch    uint64
}

// find returns the containers of a task.
func (d *Driver) find(ctx context.Context, t *driver.Task) (out []found, err error) {
	f := client.Filters{}.Add("label", labelAllocID+"="+t.AllocID, labelTask+"="+t.Name)
	list, err := d.engine.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: f})
	if err != nil {
		return nil, err
	}
	for _, c := range list.Items {
		n, err := strconv.ParseUint(c.Labels[labelLaunch], 10, 64)
		if err == nil && c.Labels[labelAllocID] == t.AllocID && c.Labels[labelTask] == t.Name {
			out = append(out, found{c.ID, c.ImageID, n})
		}
	}
	return out, nil
}

// Recover implements [driver.Driver].
func (d *Driver) Recover(ctx context.Context, t *driver.Task, state []byte) (driver.Handle, error) {
	if err := d.ready(); err != nil {
		return nil, err
	}
	at := launch{t.AllocID, t.Name, t.Launch}
	d.claim(at)
	h, err := d.recover(ctx, t, state)
	if errors.Is(err, driver.ErrUnknown) || errors.Is(err, driver.ErrLost) || err == nil && t.Launch == 0 {
		d.unclaim(at)
	}
	if err != nil {
		return nil, err
	}
	d.claim(h.launch)
	return h, nil
}

// recover looks for the container of a launch.
func (d *Driver) recover(ctx context.Context, t *driver.Task, state []byte) (*handle, error) {
	var m memory
	if state != nil {
		if err := json.Unmarshal(state, &m); err != nil {
			d.log.Warn("what is recorded of a container is damaged; looking for it by its labels", "alloc", t.AllocID, "task", t.Name, "error", err)
		}
	}
	all, err := d.find(ctx, t)
	if err != nil {
		return nil, fmt.Errorf("the %s engine cannot be asked: %w", d.kind.Title, err)
	}
	var it found
	for _, c := range all {
		if (t.Launch == 0 || c.launch == t.Launch) && c.launch >= it.launch {
			it = c
		}
	}
	if it.id == "" {
		if m.ID != "" && (t.Launch == 0 || t.Launch == m.Launch) {
			return nil, fmt.Errorf("%w: its container was removed", driver.ErrLost)
		}
		return nil, driver.ErrUnknown
	}
	got, err := d.engine.ContainerInspect(ctx, it.id, client.ContainerInspectOptions{})
	switch {
	case gone(err):
		return nil, fmt.Errorf("%w: its container was removed", driver.ErrLost)
	case err != nil:
		return nil, fmt.Errorf("the %s engine cannot be asked: %w", d.kind.Title, err)
	}
	c := got.Container
	if c.State != nil && c.State.Status == container.StateCreated {
		if m.ID == it.id {
			return nil, fmt.Errorf("%w: its container is not running", driver.ErrLost)
		}
		// The agent ended between creation and start.
		if err := d.remove(ctx, it.id); err != nil {
			return nil, err
		}
		return nil, driver.ErrUnknown
	}
	d.images.use(c.Image, it.id)
	h := &handle{d: d, launch: launch{t.AllocID, t.Name, it.launch}, id: it.id, image: c.Image, signal: t.KillSignal}
	if c.HostConfig != nil && d.collects(t, c.HostConfig.LogConfig.Type) {
		at := *t
		at.Launch = it.launch
		if h.logs, err = d.follow(&at, it.id, c.Config != nil && c.Config.Tty, false); err != nil {
			return nil, fmt.Errorf("the task's log files: %w", err)
		}
		h.logs.run()
	}
	return h, nil
}
