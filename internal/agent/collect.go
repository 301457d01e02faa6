package agent

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"berth"
	"berth/internal/rest"
	"berth/op"
)

// Directories of allocations that have ended are kept for people to look into.
// They are removed, the oldest first, when there are too many, when the disk
// is too full, and when somebody asks. Those whose data a replacement takes over,
// or may soon, stay until it has it: docs/nodes.md.

// dataKept is how long the directory of an allocation whose ephemeral_disk is sticky
// stays for a replacement: since the allocation ended, and since its data was last
// asked for.
const dataKept = 5 * time.Minute

// GC says when directories of ended allocations are removed. Zero values are the
// defaults.
type GC struct {
	Interval time.Duration // between looks at the disk; a minute
	Most     int           // directories that are kept; 50
	Disk     float64       // percent of the disk in use above which they go; 80
	Inodes   float64       // percent of its inodes; 70
	Parallel int           // removals at a time; 2
}

// complete fills in the defaults.
func (g *GC) complete() {
	g.Interval = cmp.Or(g.Interval, time.Minute)
	g.Most, g.Parallel = cmp.Or(g.Most, 50), cmp.Or(g.Parallel, 2)
	g.Disk, g.Inodes = cmp.Or(g.Disk, 80), cmp.Or(g.Inodes, 70)
}

// over returns why directories must go, for a disk of so much use; "" if they
// need not.
func (g *GC) over(d *op.HostDisk) string {
	switch {
	case d.UsedPercent > g.Disk:
		return fmt.Sprintf("%.0f %% of the disk is in use, and gc_disk_usage_threshold is %g", d.UsedPercent, g.Disk)
	case d.InodesUsedPercent > g.Inodes:
		return fmt.Sprintf("%.0f %% of the inodes are in use, and gc_inode_usage_threshold is %g", d.InodesUsedPercent, g.Inodes)
	}
	return ""
}

// collect removes directories of ended allocations until ctx ends: those beyond
// the most that are kept as soon as an allocation ends, those of a full disk at
// every interval.
func (a *Agent) collect(ctx context.Context) error {
	tick := time.NewTicker(a.c.GC.Interval)
	defer tick.Stop()
	for {
		select {
		case <-a.someEnded:
			// Those that end together are looked at together.
			_ = rest.For(ctx, time.Second)
		case <-tick.C:
			a.collectForDisk(ctx)
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		a.mu.Lock()
		dead, kept := a.dead(time.Now())
		beyond := max(0, len(dead)+len(kept)-a.c.GC.Most)
		ids := a.claim(dead[:min(len(dead), beyond)])
		a.mu.Unlock()
		_ = a.clear(ids)
	}
}

// collectForDisk removes directories, a few at a time, as long as the disk is too
// full.
func (a *Agent) collectForDisk(ctx context.Context) {
	for ctx.Err() == nil {
		d, err := a.meter.Disk()
		if err != nil {
			a.log.Warn("the disk of the allocations cannot be looked at", "error", err)
			return
		}
		why := a.c.GC.over(d)
		if why == "" {
			return
		}
		a.mu.Lock()
		dead, _ := a.dead(time.Now())
		dead = a.dataLast(dead)
		ids := a.claim(dead[:min(len(dead), a.c.GC.Parallel)])
		a.mu.Unlock()
		if len(ids) == 0 {
			return
		}
		a.log.Info("directories of ended allocations are removed", "why", why, "allocs", ids)
		if a.clear(ids) != nil {
			return
		}
	}
}

// dead returns the allocations that have ended and still have their directories,
// oldest first. kept are those that stay for a replacement. The caller holds mu.
func (a *Agent) dead(now time.Time) (dead, kept []string) {
	for _, id := range slices.Sorted(maps.Keys(a.allocs)) {
		h := a.allocs[id]
		if !h.over() || h.removed || h.claimed {
			continue
		}
		if h.ended.IsZero() { // it cannot be recorded
			h.ended = now
		}
		if h.awaited(now) {
			kept = append(kept, id)
		} else {
			dead = append(dead, id)
		}
	}
	slices.SortStableFunc(dead, func(x, y string) int { return a.allocs[x].ended.Compare(a.allocs[y].ended) })
	return dead, kept
}

// dataLast returns the allocations with those last that may have data for which no
// replacement has come yet. The caller holds mu.
func (a *Agent) dataLast(ids []string) []string {
	last := func(id string) int {
		if h := a.allocs[id]; h.leaves() && h.asked.IsZero() {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(ids, func(x, y string) int { return cmp.Compare(last(x), last(y)) })
	return ids
}

// claim marks directories as being removed, so that nobody else does it and nobody
// takes what is left for the whole. The caller holds mu.
func (a *Agent) claim(ids []string) []string {
	for _, id := range ids {
		a.allocs[id].claimed, a.allocs[id].torn = true, true
	}
	return ids
}

// clear removes directories that were claimed. Those that stay are tried again
// later.
func (a *Agent) clear(ids []string) error {
	var g errgroup.Group
	g.SetLimit(a.c.GC.Parallel)
	for _, id := range ids {
		g.Go(func() error {
			err := a.removeDir(id)
			if err == nil {
				return nil
			}
			a.log.Warn("the directory of an allocation cannot be removed", "alloc", id, "error", err)
			a.mu.Lock()
			defer a.mu.Unlock()
			if h := a.allocs[id]; h != nil {
				h.claimed = false
			}
			return berth.Errorf(berth.Unavailable, "the directory of allocation %s cannot be removed: %w", id, err)
		})
	}
	return g.Wait()
}

// serveCollect removes directories because somebody asks.
func (a *Agent) serveCollect(s *serving) {
	onCall(s, op.AgentCollectNode, func(_ context.Context, q *op.NodeTarget) (*op.Nothing, error) {
		if err := a.isNode(q.NodeID); err != nil {
			return nil, err
		}
		a.mu.Lock()
		dead, kept := a.dead(time.Now())
		ids := a.claim(dead)
		a.mu.Unlock()
		if len(kept) > 0 {
			a.log.Info("directories of ended allocations stay for allocations that may take over their data", "allocs", kept)
		}
		return &op.Nothing{}, a.clear(ids)
	})
	onCall(s, op.AgentCollectAlloc, func(_ context.Context, q *op.AllocTarget) (*op.Nothing, error) {
		a.mu.Lock()
		h := a.allocs[q.AllocID]
		var ids []string
		var err error
		switch {
		case h == nil:
			err = berth.Errorf(berth.NotFound, "allocation %q is not on this node", q.AllocID)
		case !h.over():
			err = berth.Errorf(berth.Invalid, "allocation %s has not ended: only the directory of one that has can be removed", q.AllocID)
		case !h.removed && !h.claimed: // also one that would stay for a replacement: somebody named it
			ids = a.claim([]string{q.AllocID})
		}
		a.mu.Unlock()
		if err != nil {
			return nil, err
		}
		return &op.Nothing{}, a.clear(ids)
	})
}
