package agent

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"berth"
	"berth/internal/agent/logs"
	"berth/internal/agent/ship"
	"berth/internal/rest"
	"berth/op"
)

// logSinks are where the agent sends the output of its tasks.
type logSinks struct {
	configs   map[string]ship.Config
	shippers  []*ship.Shipper // in order of name
	positions *ship.Positions
}

// sinksMeta is the key of the meta of a job, group or task that says which sinks
// its output goes to: names with commas between, or none.
const sinksMeta = "logs.sinks"

// openSinks makes the sinks of the configuration.
func (a *Agent) openSinks() error {
	s := &a.sinks
	if s.configs = a.c.LogSinks; len(s.configs) == 0 {
		return nil
	}
	path := filepath.Join(a.c.StateDir, "log-positions")
	var err error
	if s.positions, err = ship.OpenPositions(path); err != nil {
		a.log.Warn("positions of log sinks are damaged and set aside: output that is kept is sent again", "error", err)
		if err := os.Rename(path, path+".damaged"); err != nil {
			return err
		}
		if s.positions, err = ship.OpenPositions(path); err != nil {
			return err
		}
	}
	host, _ := os.Hostname()
	for _, name := range slices.Sorted(maps.Keys(s.configs)) {
		c := s.configs[name]
		sink, err := c.Open(host)
		if err != nil {
			return fmt.Errorf("log_sink %q: %w", name, err)
		}
		s.shippers = append(s.shippers, ship.New(name, sink, s.positions, a.log))
	}
	return nil
}

// forgetEvery is how often positions of allocations that are gone are forgotten.
const forgetEvery = time.Minute

// shipLogs sends what is queued for the sinks until ctx ends.
func (a *Agent) shipLogs(ctx context.Context) error {
	s := &a.sinks
	if len(s.shippers) == 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	for _, sh := range s.shippers {
		a.wait.Go(func() { _ = sh.Run(a.lives) })
	}
	a.wait.Go(func() { _ = s.positions.Run(a.lives, a.log) })
	for {
		if err := rest.For(ctx, forgetEvery); err != nil {
			return err
		}
		s.positions.Forget(a.Has)
	}
}

// followLogs sends the output of an allocation's tasks to the sinks that want
// it, until all of it is sent or the agent ends.
func (a *Agent) followLogs(al *op.Alloc) {
	g := al.Job.Group(al.TaskGroup)
	if len(a.sinks.shippers) == 0 || g == nil {
		return
	}
	n := a.Node()
	for i := range g.Tasks {
		t := g.Tasks[i]
		if t.LogConfig != nil && t.LogConfig.Disabled {
			continue
		}
		names := sinksOf(al.Job, g, t)
		for _, sh := range a.sinks.shippers {
			c := a.sinks.configs[sh.Name]
			if !c.Wants(sh.Name, al.Namespace, string(al.JobID), names) {
				continue
			}
			for _, stream := range []string{logs.Stdout, logs.Stderr} {
				labels := &ship.Labels{
					Namespace: al.Namespace, Job: string(al.JobID), Group: al.TaskGroup, Task: t.Name, AllocID: al.ID.String(),
					NodeID: n.ID.String(), NodeName: n.Name, Stream: stream,
				}
				a.wait.Go(func() { a.followStream(sh, labels) })
			}
		}
	}
}

// sinksOf returns the sinks that a task names, nil if it says nothing.
func sinksOf(j *berth.Job, g *berth.TaskGroup, t *berth.Task) []string {
	for _, meta := range []map[string]string{t.Meta, g.Meta, j.Meta} {
		text, ok := meta[sinksMeta]
		if !ok {
			continue
		}
		names := []string{}
		for name := range strings.SplitSeq(text, ",") {
			if name = strings.TrimSpace(name); name != "" && name != "none" {
				names = append(names, name)
			}
		}
		return names
	}
	return nil
}

// followRest is how long a stream that cannot be read rests.
const followRest = 5 * time.Second

// followStream sends one stream to one sink.
func (a *Agent) followStream(sh *ship.Shipper, labels *ship.Labels) {
	for {
		err := sh.Follow(a.lives, labels, func(ctx context.Context, from ship.Position, emit func(*op.StreamFrame) error) error {
			return a.Logs(ctx, &op.LogsQuery{AllocID: labels.AllocID, Task: labels.Task, Type: labels.Stream, File: from.File, Offset: from.Offset, Follow: true}, emit)
		})
		if err == nil || a.lives.Err() != nil || berth.KindOf(err) == berth.NotFound { // nothing is kept of it
			return
		}
		a.log.Warn("output cannot be read for a log sink", "error", err)
		if rest.For(a.lives, followRest) != nil {
			return
		}
	}
}

// SinkCounts returns the figures of the log sinks, by name.
func (a *Agent) SinkCounts() map[string]*ship.Counts {
	out := map[string]*ship.Counts{}
	for _, sh := range a.sinks.shippers {
		out[sh.Name] = &sh.Counts
	}
	return out
}
