package statetest

import (
	"fmt"
	"time"

	"berth"
	"berth/state"

	"pgregory.net/rapid"
)

// Random draws commands that a cluster could see: good ones, stale ones, and
// ones that must be refused.
type Random struct {
	next int // numbers IDs
	now  int64
}

// Command draws a command that looks at the state it will meet.
func (r *Random) Command(t *rapid.T, s *state.Snapshot) state.Command {
	r.now += int64(rapid.IntRange(1, int(time.Minute)).Draw(t, "time"))
	switch rapid.IntRange(0, 19).Draw(t, "kind") {
	case 0, 1:
		return r.node(t, s)
	case 2:
		return r.status(t, s)
	case 3, 4, 5:
		return r.register(t, s)
	case 6:
		return r.stop(t, s)
	case 7, 8, 9, 10, 11, 12:
		return r.plan(t, s)
	case 13, 14, 15, 16:
		return r.report(t, s)
	case 17:
		if e := r.eval(t, s); e != nil {
			return &state.FailEval{ID: e.ID, Why: "drawn", FollowUp: r.id(), Wait: r.now + 5, Now: r.now}
		}
	case 18:
		if e := r.eval(t, s); e != nil {
			return &state.CancelEvals{IDs: []berth.EvalID{e.ID}, Why: "drawn", Now: r.now}
		}
	}
	return &state.CreateEvals{Now: r.now, Evals: []state.EvalFor{{
		EvalSeed: state.EvalSeed{ID: r.id(), TriggeredBy: berth.TriggerJobRegister, Cause: berth.Cause{Kind: berth.CauseUser}},
		Key:      berth.JobKey{Namespace: berth.DefaultNamespace, ID: jobName(t)}, WaitUntil: r.now,
	}}}
}

func (r *Random) id() berth.EvalID {
	r.next++
	return ID[berth.Eval](r.next)
}

func jobName(t *rapid.T) berth.JobID {
	return berth.JobID(fmt.Sprint("job", rapid.IntRange(0, 4).Draw(t, "job")))
}

func (r *Random) node(t *rapid.T, _ *state.Snapshot) state.Command {
	n := rapid.IntRange(1, 6).Draw(t, "node")
	// A node does not shrink here: what runs on one that does is over its room,
	// and nobody's fault.
	c := AddNode(n, int64(n%4+1)*1000, 4000, func(n *berth.Node) {
		n.Meta = map[string]string{"rack": rapid.SampledFrom([]string{"r1", "r2"}).Draw(t, "rack")}
		n.Status = rapid.SampledFrom([]string{berth.NodeInit, berth.NodeReady}).Draw(t, "status")
		if rapid.Bool().Draw(t, "reserves") {
			n.ReservedResources.Networks.ReservedHostPorts = "22,80-90"
		}
	})
	if rapid.IntRange(0, 9).Draw(t, "impostor") == 0 {
		c.Node.SecretID = "guessed"
	}
	c.Seed, c.Now = r.id(), r.now
	return c
}

func (r *Random) status(t *rapid.T, _ *state.Snapshot) state.Command {
	return &state.SetNodeStatus{
		ID:     ID[berth.Node](rapid.IntRange(1, 7).Draw(t, "node")),
		Status: rapid.SampledFrom([]string{berth.NodeReady, berth.NodeDown, "odd"}).Draw(t, "status"),
		Seed:   r.id(), Now: r.now,
	}
}

func (r *Random) register(t *rapid.T, s *state.Snapshot) state.Command {
	j := &berth.Job{
		Region: berth.DefaultRegion, Namespace: berth.DefaultNamespace, ID: jobName(t), Name: "a job",
		Type:     rapid.SampledFrom([]string{berth.TypeService, berth.TypeBatch}).Draw(t, "type"),
		Priority: rapid.IntRange(1, 100).Draw(t, "priority"), Datacenters: []string{"*"}, NodePool: berth.DefaultNodePool,
	}
	if rapid.IntRange(0, 9).Draw(t, "lost namespace") == 0 {
		j.Namespace = "nowhere"
	}
	for g := range rapid.IntRange(1, 3).Draw(t, "groups") {
		restart := berth.RestartPolicy{Attempts: 2, Interval: time.Minute, Mode: berth.RestartFail}
		group := &berth.TaskGroup{
			Name: fmt.Sprint("g", g), Count: rapid.IntRange(0, 4).Draw(t, "count"), RestartPolicy: &restart,
			ReschedulePolicy: &berth.ReschedulePolicy{Unlimited: true, Delay: 5 * time.Second, DelayFunction: berth.DelayConstant},
			EphemeralDisk:    &berth.EphemeralDisk{SizeMB: 100},
			Tasks: []*berth.Task{{
				Name: "task", Driver: "mock_driver", RestartPolicy: &restart, LogConfig: &berth.LogConfig{MaxFiles: 1, MaxFileSizeMB: 1},
				Config:    map[string]any{"exit_code": int64(rapid.IntRange(0, 500).Draw(t, "exit"))},
				Resources: &berth.Resources{CPU: rapid.IntRange(1, 20).Draw(t, "cpu") * 100, MemoryMB: 100},
			}},
		}
		if rapid.Bool().Draw(t, "ports") {
			group.Networks = []berth.NetworkResource{{Mode: "host", DynamicPorts: []berth.Port{{Label: "http"}}}}
			if rapid.Bool().Draw(t, "static") {
				group.Networks[0].ReservedPorts = []berth.Port{{Label: "admin", Value: rapid.IntRange(80, 95).Draw(t, "port")}}
			}
		}
		j.TaskGroups = append(j.TaskGroups, group)
	}
	c := &state.RegisterJob{Job: j, Now: r.now, Eval: state.EvalSeed{
		ID: r.id(), TriggeredBy: berth.TriggerJobRegister, Cause: berth.Cause{Kind: berth.CauseUser},
	}}
	c.PreserveCounts = rapid.Bool().Draw(t, "preserve counts")
	if rapid.Bool().Draw(t, "enforce") {
		c.Enforce = true
		if old := s.Job(j.Key()); old != nil && rapid.Bool().Draw(t, "at index") {
			c.Index = old.JobModifyIndex
		}
	}
	if rapid.Bool().Draw(t, "submission") {
		c.Submission = &berth.JobSubmission{Source: "job {}", Format: "hcl2"}
	}
	return c
}

func (r *Random) stop(t *rapid.T, _ *state.Snapshot) state.Command {
	return &state.StopJob{
		Key:   berth.JobKey{Namespace: berth.DefaultNamespace, ID: jobName(t)},
		Purge: rapid.Bool().Draw(t, "purge"), NoShutdownDelay: rapid.Bool().Draw(t, "no delay"), Now: r.now,
		Eval: state.EvalSeed{ID: r.id(), TriggeredBy: berth.TriggerJobDeregister, Cause: berth.Cause{Kind: berth.CauseUser}},
	}
}

// eval draws an evaluation, mostly one that is open.
func (r *Random) eval(t *rapid.T, s *state.Snapshot) *berth.Eval {
	var all []*berth.Eval
	for e := range s.Evals() {
		if !e.Terminal() || len(all) < 3 {
			all = append(all, e)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return rapid.SampledFrom(all).Draw(t, "eval")
}

func (r *Random) plan(t *rapid.T, s *state.Snapshot) state.Command {
	e := r.eval(t, s)
	if e == nil {
		return &state.BeginTerm{Term: s.Term + 1}
	}
	c := &state.ApplyPlan{Eval: e.ID, Now: r.now}
	c.Stamp(s.Term)
	if j := s.Job(e.Key()); j != nil {
		c.JobVersion = j.Version
		for range rapid.IntRange(0, 6).Draw(t, "places") {
			g := rapid.IntRange(0, len(j.TaskGroups)-1).Draw(t, "group")
			group := j.TaskGroups[g]
			p := berth.Placement{
				Group: g, Index: uint32(rapid.IntRange(0, max(group.Count-1, 0)).Draw(t, "index")),
				NodeID: ID[berth.Node](rapid.IntRange(1, 7).Draw(t, "node")),
				Score:  rapid.Float32Range(-1, 1).Draw(t, "score"),
			}
			for range state.WantOf(group).Dynamic {
				p.Ports = append(p.Ports, uint16(rapid.IntRange(20000, 20010).Draw(t, "port")))
			}
			c.Place = append(c.Place, p)
		}
		for a := range s.AllocsOf(j.Key()) {
			switch rapid.IntRange(0, 6).Draw(t, "stop") {
			case 0:
				c.Stop = append(c.Stop, berth.AllocStop{ID: a.ID, Description: berth.StopSurplus})
			case 1:
				c.Stop = append(c.Stop, berth.AllocStop{ID: a.ID, Description: "something else", Client: berth.ClientLost})
			case 2:
				if now := j.Group(a.Group.Name); now != nil && state.WantOf(now).Ask == state.WantOf(a.Group).Ask && len(now.Networks) == len(a.Group.Networks) && int(a.Index) < now.Count && len(now.Networks) == 0 {
					c.Update = append(c.Update, a.ID)
				}
			}
		}
	}
	if rapid.Bool().Draw(t, "ends") {
		c.End = r.end(t, e)
	}
	if rapid.Bool().Draw(t, "explains") {
		c.Explain = map[string]*berth.AllocMetric{"g0": {NodesEvaluated: 3, NodesAvailable: map[string]int{"dc1": 3}}}
	}
	return c
}

func (r *Random) end(t *rapid.T, e *berth.Eval) *state.EvalEnd {
	end := &state.EvalEnd{
		Status: berth.EvalComplete, SnapshotIndex: 7,
		Timeline: berth.Timeline{Enqueued: r.now - 5, Dequeued: r.now - 3, Deliveries: 1},
	}
	if rapid.Bool().Draw(t, "misses") {
		end.Failed = map[string]*berth.AllocMetric{"g0": {NodesExhausted: 1, DimensionExhausted: map[string]int{"cpu": 1}}}
		end.Queued = map[string]int{"g0": 1}
		end.Missed = &berth.Missed{Classes: map[string]bool{"v1:1": true}, Dimensions: []string{"cpu"}}
		if e.Status == berth.EvalBlocked {
			end.Status = berth.EvalBlocked
		} else {
			end.Blocked = &state.NewEval{ID: r.id(), TriggeredBy: berth.TriggerQueuedAllocs}
		}
	}
	return end
}

func (r *Random) report(t *rapid.T, s *state.Snapshot) state.Command {
	c := &state.ReportAllocs{Node: ID[berth.Node](rapid.IntRange(1, 6).Draw(t, "node")), Now: r.now}
	for a := range s.AllocsOn(c.Node) {
		if rapid.Bool().Draw(t, "report") {
			continue
		}
		at := time.Unix(0, r.now)
		u := state.AllocUpdate{ID: a.ID, Client: berth.ClientStatus(rapid.IntRange(0, 5).Draw(t, "client"))}
		u.Tasks = berth.PackTaskStates(map[string]*berth.TaskState{"task": {
			State: berth.TaskRunning, StartedAt: at, Events: []berth.TaskEvent{berth.NewTaskEvent(berth.EventStarted, at)},
		}})
		if rapid.Bool().Draw(t, "described") {
			u.Description = "as drawn"
		}
		c.Updates = append(c.Updates, u)
	}
	if rapid.IntRange(0, 9).Draw(t, "another's") == 0 {
		for a := range s.Allocs() {
			c.Updates = append(c.Updates, state.AllocUpdate{ID: a.ID})
			break
		}
	}
	return c
}
