package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"berth/internal/agent/disk"
	"berth/internal/rest"
)

// The size of the ephemeral_disk as a limit, for agents that are configured so:
// docs/decisions/0011.

// How often disks are looked at, and the most files of one that are.
const (
	diskEvery = 15 * time.Second
	diskFiles = 200_000
)

// limitDisks fails allocations whose directories have outgrown the ephemeral_disk of
// their group, until ctx ends.
func (a *Agent) limitDisks(ctx context.Context) error {
	for a.c.LimitDisks {
		if err := rest.For(ctx, diskEvery); err != nil {
			return err
		}
		for _, h := range a.running() {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			a.limitDisk(h)
		}
	}
	return nil
}

// running returns the allocations that run, in order of ID.
func (a *Agent) running() (out []*held) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, h := range a.allocs {
		if h.runner != nil && !h.over() {
			out = append(out, h)
		}
	}
	slices.SortFunc(out, func(x, y *held) int { return strings.Compare(x.alloc.ID.String(), y.alloc.ID.String()) })
	return out
}

// limitDisk fails an allocation if its directory is larger than it may be.
func (a *Agent) limitDisk(h *held) {
	a.mu.Lock()
	al := h.alloc
	a.mu.Unlock()
	d := al.Job.Group(al.TaskGroup).EphemeralDisk
	if d == nil {
		return
	}
	dir, err := a.dirs.Sub(al.ID.String())
	if err != nil {
		return // it is not made yet
	}
	defer dir.Close()
	most := int64(d.SizeMB) << 20
	used, all, err := disk.Use(dir, most, diskFiles)
	switch {
	case err != nil:
		a.log.Warn("the disk of an allocation cannot be measured", "alloc", al.ID, "error", err)
	case used > most:
		h.runner.Fail(fmt.Sprintf("the allocation has written more than %d MiB, the size of its ephemeral_disk, to its directory", d.SizeMB))
	case !all:
		a.log.Warn("the disk of an allocation is not measured: it has too many files", "alloc", al.ID, "most", diskFiles)
	}
}
