package agent

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"berth"
	"berth/internal/agent/csi"
	"berth/internal/agent/task"
	"berth/op"
)

// CSI on the node: tasks that are plugins are told to servers, and volumes are
// mounted for allocations once servers say that they may be.

// openCSI reads what was mounted.
func (a *Agent) openCSI() {
	a.csi = csi.Open(csi.Config{Dir: filepath.Join(a.c.StateDir, "csi"), Changed: a.pluginsChanged, Over: a.isOver, Log: a.log})
}

// isOver reports whether nothing of an allocation runs here, and nothing will.
// Until the agent knows what an earlier one ran, nothing is over.
func (a *Agent) isOver(id string) bool {
	if !a.restored.Load() {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	h := a.allocs[id]
	return h == nil || h.over()
}

// pluginsChanged has the node registered again with the plugins that it has now.
func (a *Agent) pluginsChanged() {
	controllers, nodes := a.csi.Plugins()
	a.mu.Lock()
	defer a.mu.Unlock()
	if reflect.DeepEqual(controllers, a.node.CSIControllerPlugins) && reflect.DeepEqual(nodes, a.node.CSINodePlugins) {
		return
	}
	n := *a.node
	n.CSIControllerPlugins, n.CSINodePlugins = controllers, nodes
	a.renode(&n)
}

// watchPlugins watches the tasks of an allocation that are plugins until its
// runner is done.
func (a *Agent) watchPlugins(h *held) {
	for _, t := range h.alloc.Job.Group(h.alloc.TaskGroup).Tasks {
		c := t.CSIPluginConfig
		if c == nil {
			continue
		}
		p := csi.Plugin{Alloc: h.alloc.ID.String(), Task: t.Name, ID: c.ID, Type: c.Type, Health: c.HealthTimeout}
		if d := a.drivers[t.Driver]; d != nil && d.Capabilities().Mounts {
			p.Base = c.StagePublishBaseDir
		}
		p.Gone = func() bool {
			a.mu.Lock()
			defer a.mu.Unlock()
			return h.over()
		}
		p.Restart = func() { _ = h.runner.Restart(t.Name, false) } // it may have ended meanwhile
		ctx, cancel := context.WithCancel(a.lives)
		a.wait.Go(func() {
			defer cancel()
			select {
			case <-h.runner.Done():
			case <-ctx.Done():
			}
		})
		a.wait.Go(func() { a.csi.Watch(ctx, p) })
	}
}

// mountVolumes mounts the CSI volumes of an allocation, and returns their
// directories by the name of the volume block. It waits until servers let it.
func (a *Agent) mountVolumes(ctx context.Context, al *op.Alloc, tell func(string)) (map[string]string, error) {
	g, out := al.Job.Group(al.TaskGroup), map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(g.Volumes)) {
		r := g.Volumes[name]
		if r.Type != berth.VolumeCSI {
			continue
		}
		source := r.SourceFor(task.AllocNumber(al.Name))
		claim, err := a.awaitClaim(ctx, al.ID, source, tell)
		if err != nil {
			return nil, err
		}
		if r.MountOptions != nil {
			claim.Volume.MountOptions = r.MountOptions
		}
		for {
			if out[name], err = a.csi.Mount(ctx, al.ID.String(), claim); err == nil {
				break
			}
			if ctx.Err() != nil || berth.KindOf(err) != berth.Unavailable {
				return nil, err
			}
			tell(fmt.Sprintf("Waiting to mount CSI volume %s: %v", source, err)) // its plugin may be starting again
			select {
			case <-time.After(claimRetry):
			case <-ctx.Done():
			}
		}
	}
	return out, nil
}

// claimRetry is how long the agent waits before it asks again, if servers cannot
// answer.
const claimRetry = time.Second

// awaitClaim waits until servers say that a volume may be mounted.
func (a *Agent) awaitClaim(ctx context.Context, id berth.AllocID, volume string, tell func(string)) (*op.GrantedClaim, error) {
	in := &op.ReadClaim{NodeID: a.id, AllocID: id, VolumeID: volume}
	var index uint64
	told := ""
	for {
		in.Query = a.query()
		in.AllowStale, in.MinQueryIndex, in.MaxQueryTime = false, index, time.Minute
		out, err := op.Call(ctx, a.c.Servers, op.GetClaim, in)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil && berth.KindOf(err) != berth.Unavailable && berth.KindOf(err) != "":
			return nil, err
		case err != nil:
			a.log.Warn("servers do not say whether a CSI volume may be mounted", "alloc", id, "volume", volume, "error", err)
			select {
			case <-time.After(claimRetry):
			case <-ctx.Done():
			}
			continue
		case out.Published:
			return out, nil
		}
		if message := fmt.Sprintf("Waiting for CSI volume %s: %s", volume, out.Waits); message != told {
			tell(message)
			told = message
		}
		index = out.Index
	}
}

// serveCSI answers what servers ask of plugins.
func (a *Agent) serveCSI(s *serving) {
	onCall(s, op.CallCSI, func(ctx context.Context, in *op.AgentCSI) (*op.CSIDone, error) {
		if err := a.isNode(in.NodeID); err != nil {
			return nil, err
		}
		return a.csi.Call(ctx, in)
	})
}
