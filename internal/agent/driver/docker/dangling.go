package docker

import (
	"context"
	"strconv"
	"time"

	"github.com/moby/moby/client"

	"berth/internal/rest"
)

// Watch removes containers of this node that belong to no task any more, every
// period, until ctx ends.
func (d *Driver) Watch(ctx context.Context) error {
	if d.c.Disabled || d.broken != nil || !d.c.Dangling || d.c.DanglingPeriod <= 0 {
		return nil
	}
	for {
		if err := rest.For(ctx, d.c.DanglingPeriod); err != nil {
			return err
		}
		if err := d.removeDangling(ctx, time.Now()); err != nil && ctx.Err() == nil {
			d.log.Debug("containers without a task cannot be looked for", "error", err)
		}
	}
}

// removeDangling removes the containers of this node that nobody has asked for,
// except young ones: their start may be under way.
func (d *Driver) removeDangling(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	f := client.Filters{}.Add("label", labelNode+"="+d.c.Node)
	list, err := d.engine.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: f})
	if err != nil {
		return err
	}
	for _, c := range list.Items {
		n, err := strconv.ParseUint(c.Labels[labelLaunch], 10, 64)
		at := launch{c.Labels[labelAllocID], c.Labels[labelTask], n}
		asked := err != nil || d.claimed(at)
		if c.Labels[labelInfra] != "" {
			asked = d.c.Runs == nil || d.c.Runs(at.alloc)
		}
		switch {
		case asked || d.c.Node == "" || now.Sub(time.Unix(c.Created, 0)) < d.c.DanglingGrace:
		case d.c.DanglingDryRun:
			d.log.Info("a container without a task would be removed", "container", c.ID, "alloc", at.alloc, "task", at.task)
		default:
			d.log.Warn("a container without a task is removed", "container", c.ID, "alloc", at.alloc, "task", at.task)
			if err := d.remove(ctx, c.ID); err != nil {
				d.log.Warn("a container without a task cannot be removed", "container", c.ID, "error", err)
			}
		}
	}
	return nil
}
