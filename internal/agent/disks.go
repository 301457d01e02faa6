package agent

import (
	"context"
	"fmt"
	"time"

	"berth"
	"berth/internal/agent/disk"
	"berth/internal/saferoot"
	"berth/op"
)

// The data that allocations leave to those that replace them.

// unwantedWait is how long an allocation waits until the one that it replaces is
// told to stop. Both come with one plan, though not at one moment.
const unwantedWait = 5 * time.Second

// takeDisk gives an allocation the data of the one that it replaces, before the
// first of its tasks starts. If there is none to be had, it starts without, and
// its tasks' history says so. The error is one of the node itself, or ctx's.
func (a *Agent) takeDisk(ctx context.Context, al *op.Alloc, to *saferoot.Root, tell func(typ, message string)) error {
	g := al.Job.Group(al.TaskGroup)
	if d := g.EphemeralDisk; d == nil || !d.Sticky || al.PreviousAllocation.IsZero() || disk.Taken(to) {
		return nil
	}
	err := a.takeFrom(ctx, al, g, to, func(message string) { tell(berth.EventWaiting, message) })
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		tell(berth.EventTaskSetup, "Took over the data of allocation "+al.PreviousAllocation.String())
	default:
		a.log.Warn("an allocation starts without the data of the one that it replaces", "alloc", al.ID, "previous", al.PreviousAllocation, "error", err)
		tell(berth.EventTaskSetup, fmt.Sprintf("Starts without the data of allocation %s: %v", al.PreviousAllocation, err))
	}
	return disk.Finish(to)
}

// takeFrom gets the data from wherever it is.
func (a *Agent) takeFrom(ctx context.Context, al *op.Alloc, g *berth.TaskGroup, to *saferoot.Root, tell func(string)) error {
	prev := al.PreviousAllocation.String()
	a.mu.Lock()
	h := a.allocs[prev]
	a.mu.Unlock()
	if h == nil {
		if !g.EphemeralDisk.Migrate {
			return &disk.Missing{Why: "it was on another node, and ephemeral_disk.migrate is false"}
		}
		took, err := disk.Copy{
			From: func(ctx context.Context, p op.DiskPart) (*op.DiskAnswer, error) { return a.diskPart(ctx, al.ID, p) },
			Dirs: op.DiskDirs(g), Tell: tell, Bytes: int64(g.EphemeralDisk.SizeMB) << 20,
		}.Run(ctx, to)
		if took.LeftOut > 0 {
			a.log.Warn("links that lead out of an allocation's data were not taken over", "alloc", al.ID, "links", took.LeftOut)
		}
		return err
	}
	if err := a.hasEnded(ctx, h, tell); err != nil {
		return err
	}
	return a.moveFrom(h, prev, to, op.DiskDirs(g))
}

// errDirGone is for an allocation whose directory is gone, or about to be.
var errDirGone = &disk.Missing{Why: "its directory is gone"}

// moveFrom moves data from the directory of an allocation that has ended. Nobody
// removes that meanwhile.
func (a *Agent) moveFrom(h *held, id string, to *saferoot.Root, dirs []string) error {
	a.mu.Lock()
	whole := h.whole()
	h.claimed = h.claimed || whole
	a.mu.Unlock()
	if !whole {
		return errDirGone
	}
	err := a.move(id, to, dirs)
	a.mu.Lock()
	h.claimed, h.moved, h.asked = false, err == nil, time.Now()
	a.mu.Unlock()
	return err
}

// move moves data from the directory of an allocation.
func (a *Agent) move(id string, to *saferoot.Root, dirs []string) error {
	from, err := a.dirs.Sub(id)
	if err != nil {
		return errDirGone
	}
	defer from.Close()
	return disk.Move(from, to, dirs)
}

// hasEnded waits until an allocation of this node has ended. One that is not to
// end is not waited for.
func (a *Agent) hasEnded(ctx context.Context, h *held, tell func(string)) error {
	over := func() (over, wanted bool) {
		a.mu.Lock()
		defer a.mu.Unlock()
		return h.over(), h.alloc.DesiredStatus == berth.DesiredRun && !h.alloc.ClientStatus.Ended()
	}
	for began := time.Now(); ; {
		done, wanted := over()
		if done {
			return nil
		}
		if wanted && time.Since(began) >= unwantedWait {
			return &disk.Missing{Why: "it goes on beside this one"}
		}
		tell("Waiting for the previous allocation to stop, whose data this one takes over")
		var ended <-chan struct{}
		if !wanted {
			ended = h.runner.Done()
		}
		wait, cancel := context.WithTimeout(ctx, time.Second)
		select {
		case <-ended:
		case <-wait.Done():
		}
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// diskPart asks servers for a part of the data that an allocation takes over.
func (a *Agent) diskPart(ctx context.Context, id berth.AllocID, p op.DiskPart) (*op.DiskAnswer, error) {
	q := a.query()
	q.AllowStale = false // an old state may not have the allocation yet
	return op.Call(ctx, a.c.Servers, op.GetDisk, &op.ReadDisk{NodeID: a.id, AllocID: id, Part: p, Query: q})
}

// serveDisks answers servers that ask for data of an allocation of this node.
func (a *Agent) serveDisks(s *serving) {
	onCall(s, op.AgentReadDisk, func(_ context.Context, q *op.AgentDisk) (*op.DiskAnswer, error) {
		a.mu.Lock()
		h := a.allocs[q.AllocID]
		var al *op.Alloc
		over := false
		if h != nil {
			h.asked, al, over = time.Now(), h.alloc, h.over()
		}
		a.mu.Unlock()
		switch {
		case h == nil:
			return &op.DiskAnswer{State: op.DiskMissing, Why: "its node does not know it any more"}, nil
		case !over:
			return &op.DiskAnswer{State: op.DiskInUse, Why: "it has not ended"}, nil
		case !op.InDiskDirs(al.Job.Group(al.TaskGroup), q.Part.Path):
			return nil, berth.Errorf(berth.Denied, "Path: %q is not data of the group", berth.Clip(q.Part.Path, 128))
		}
		return a.readDisk(h, q)
	})
}

// readDisk returns a part of the data in the directory of an allocation that has
// ended.
func (a *Agent) readDisk(h *held, q *op.AgentDisk) (*op.DiskAnswer, error) {
	gone := &op.DiskAnswer{State: op.DiskMissing, Why: errDirGone.Why}
	dir, err := a.dirs.Sub(q.AllocID)
	if err != nil {
		return gone, nil
	}
	defer dir.Close()
	out, err := disk.Read(dir, q.Part)
	// Looked at afterwards: what was read while the directory was being removed may
	// lack something.
	a.mu.Lock()
	whole := h.whole() && !h.moved
	a.mu.Unlock()
	if !whole {
		return gone, nil
	}
	return out, err
}
