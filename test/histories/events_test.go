package histories

import (
	"fmt"
	"slices"
	"time"

	"berth"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

const (
	jobNames = 6
	nodeMost = 6
)

// event lets one thing happen; false is that it could not.
func (h *history) event() bool {
	if h.term.log.Tip().SchedulerConfig().PauseEvalBroker && h.chance.IntN(6) == 0 {
		return h.pause(false)
	}
	switch p := h.chance.IntN(100); {
	case p < 16:
		return h.register()
	case p < 22:
		return h.stop()
	case p < 24:
		return h.lookAgain()
	case p < 34:
		return h.registerNode()
	case p < 41:
		return h.turnNode()
	case p < 44:
		return h.turnEligible()
	case p < 74:
		return h.report()
	case p < 90:
		return h.change()
	case p < 93:
		return h.replaceWorker()
	case p < 95:
		return h.endTerm()
	case p < 96:
		return h.stage(&state.RaiseCore{
			ID: h.id(), Force: h.chance.IntN(2) == 0, Cause: berth.Cause{Kind: berth.CauseUser}, Now: now(),
		})
	}
	switch h.chance.IntN(6) {
	case 0, 1:
		return h.pause(true)
	case 2:
		return h.allowEviction(!h.evicts)
	}
	h.tell("nothing")
	time.Sleep(time.Duration(h.chance.Int64N(int64(limits.NackTimeout))))
	return true
}

func now() int64 { return time.Now().UnixNano() }

func (h *history) id() (id berth.EvalID) {
	for i := range id {
		id[i] = byte(h.chance.Uint32())
	}
	return id
}

// stage orders commands and does not wait for them.
func (h *history) stage(cmds ...state.Command) bool {
	p, err := h.term.log.Stage(cmds...)
	if err != nil {
		h.failf("the log is lost: %v", err)
		return false
	}
	for i, r := range p.Results {
		h.tell("%T: %v", cmds[i], r.Err)
	}
	return true
}

func (h *history) key() berth.JobKey {
	return jobKeys[h.chance.IntN(len(jobKeys))]
}

func (h *history) seedOf(trigger string) state.EvalSeed {
	return state.EvalSeed{ID: h.id(), TriggeredBy: trigger, Cause: berth.Cause{Kind: berth.CauseUser}}
}

// register registers a job, changes one, or registers one as it is.
func (h *history) register() bool {
	k := h.key()
	old, typ := h.term.log.Tip().Job(k), ""
	if old != nil {
		typ = old.Type
	}
	for d := range h.term.log.Tip().DeploymentsOf(k) {
		if d.Active() && h.chance.IntN(4) > 0 { // most may come to their ends
			return false
		}
	}
	j := h.job(k, typ)
	if old != nil && h.chance.IntN(4) == 0 {
		again := *old
		j = &again
	}
	c := &state.RegisterJob{Job: j, Now: now(), Eval: h.seedOf(berth.TriggerJobRegister)}
	h.tell("register %s %s, priority %d, %d groups", j.ID, j.Type, j.Priority, len(j.TaskGroups))
	return h.stage(c)
}

func (h *history) stop() bool {
	keys := slices.Concat(jobKeys, family)
	c := &state.StopJob{Key: keys[h.chance.IntN(len(keys))], Purge: h.chance.IntN(2) == 0, Now: now()}
	j := h.term.log.Tip().Job(c.Key)
	if j == nil {
		return false
	}
	if j.Schedulable() && j.Periodic == nil {
		c.Eval = h.seedOf(berth.TriggerJobDeregister)
	}
	h.tell("stop %s, purge %v", c.Key.ID, c.Purge)
	return h.stage(c)
}

func (h *history) lookAgain() bool {
	c := &state.CreateEvals{Evals: []state.EvalFor{{EvalSeed: h.seedOf(berth.TriggerJobRegister), Key: h.key()}}, Now: now()}
	if h.chance.IntN(2) == 0 {
		c.Evals[0].Priority = 1 + h.chance.IntN(100)
	}
	return h.stage(c)
}

// registerNode registers a new node, or one again that changed, or did not.
func (h *history) registerNode() bool {
	n := 1 + h.chance.IntN(nodeMost)
	node := statetest.Node(n, int64(1000*(1+n%3)), int64(1000*(1+n%2)), func(x *berth.Node) {
		if n%3 == 0 {
			x.NodeResources.MinDynamicPort, x.NodeResources.MaxDynamicPort = 20000, 20001
		}
		x.Meta = map[string]string{"rack": fmt.Sprint("r", 1+h.chance.IntN(2))}
		x.Datacenter = fmt.Sprint("dc", 1+n%2)
		if h.chance.IntN(3) > 0 {
			x.Status = berth.NodeInit
		}
		if h.chance.IntN(12) == 0 {
			x.SchedulingEligibility = berth.NodeIneligible
		}
		x.Drivers["mock_driver"].Healthy = h.chance.IntN(6) > 0
	})
	if old := h.term.log.Tip().Node(node.ID); old != nil {
		node.SchedulingEligibility = old.SchedulingEligibility
		if h.chance.IntN(3) == 0 { // as it was
			same := *old
			node = &same
		}
	}
	h.tell("node %s %s %s", node.Name, node.Status, node.Meta["rack"])
	return h.stage(&state.RegisterNode{Node: node, Seed: h.id(), Now: now()})
}

// turnNode makes a node ready, or disconnected, or down.
func (h *history) turnNode() bool {
	n := h.someNode()
	if n == nil {
		return false
	}
	for x := range h.term.log.Tip().Nodes() { // who is away tends to come back
		if x.Status == berth.NodeDisconnected && h.chance.IntN(2) == 0 {
			n = x
		}
	}
	c := &state.SetNodeStatus{ID: n.ID, Status: berth.NodeReady, Seed: h.id(), Now: now()}
	switch p := h.chance.IntN(6); {
	case n.Status == berth.NodeReady && p > 3 || n.Status == berth.NodeDisconnected && p > 4:
		c.Status = berth.NodeDown
	case n.Status == berth.NodeReady && p > 1:
		c.Status = berth.NodeDisconnected
	}
	h.tell("node %s is %s", n.Name, c.Status)
	return h.stage(c)
}

// turnEligible lets an operator say that a node takes nothing new, or does.
func (h *history) turnEligible() bool {
	n := h.someNode()
	if n == nil {
		return false
	}
	c := &state.SetNodeEligibility{ID: n.ID, Eligibility: berth.NodeEligible, Seed: h.id(), Now: now()}
	if n.SchedulingEligibility == berth.NodeEligible {
		c.Eligibility = berth.NodeIneligible
	}
	h.tell("node %s is %s", n.Name, c.Eligibility)
	return h.stage(c)
}

func (h *history) someNode() *berth.Node {
	nodes := slices.Collect(h.term.log.Tip().Nodes())
	if len(nodes) == 0 {
		return nil
	}
	return nodes[h.chance.IntN(len(nodes))]
}

// report lets the agent of a node say how its allocations fare. What it knows
// can be older than what servers know.
func (h *history) report() bool {
	n := h.someNode()
	if n == nil || n.Status != berth.NodeReady && h.chance.IntN(6) > 0 {
		return false
	}
	c := &state.ReportAllocs{Node: n.ID, Now: now()}
	s := h.store.Snapshot()
	for _, a := range h.allocsOn(s, n) {
		u := state.AllocUpdate{ID: a.ID, Client: a.Client}
		switch p := h.chance.IntN(100); {
		case a.Wanted() && waitsForRoom(s, a):
			continue
		case !a.Wanted() && p < 70:
			u.Client = berth.ClientComplete
		case !a.Wanted() && p < 80:
			u.Client = berth.ClientFailed
		case a.Client == berth.ClientUnknown && p >= 17 && (!ends(a.Job) || p > 30):
			u.Client = berth.ClientRunning
		case a.Client == berth.ClientPending && p < 60:
			u.Client = berth.ClientRunning
		case p < 15:
			u.Client = berth.ClientFailed
		case p < 17:
			u.Client = berth.ClientLost
		case p < 40 && (ends(a.Job) || p < 20):
			u.Client = berth.ClientComplete
		case asks(a) && p < 80:
			feels(a, &u, p < 70)
		default:
			continue
		}
		h.tell("%s on %s is %s", a.Name(), n.Name, u.Client)
		c.Updates = append(c.Updates, u)
	}
	if len(c.Updates) == 0 {
		return false
	}
	h.hear(c)
	return h.stage(c)
}

// ends reports whether what a job runs is done some time.
func ends(j *berth.Job) bool { return j.Type == berth.TypeBatch || j.Type == berth.TypeSysbatch }

// waitsForRoom reports whether an agent holds an allocation back until those that
// it evicted have ended.
func waitsForRoom(s *state.Snapshot, a *berth.Alloc) bool {
	return slices.ContainsFunc(a.Rest().Evicted, func(id berth.AllocID) bool {
		v := s.Alloc(id)
		return v != nil && v.Occupies()
	})
}

// hear notes what an agent says has ended.
func (h *history) hear(c *state.ReportAllocs) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, u := range c.Updates {
		if u.Client.Ended() {
			h.over[u.ID] = true
		}
	}
}

// allocsOn returns the allocations of a node that have not ended, in the order
// of their age.
func (h *history) allocsOn(s *state.Snapshot, n *berth.Node) (out []*berth.Alloc) {
	for a := range s.AllocsOn(n.ID) {
		if !a.Ended() {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b *berth.Alloc) int {
		return int(a.CreateIndex) - int(b.CreateIndex) + (int(a.Ordinal)-int(b.Ordinal))*btoi(a.CreateIndex == b.CreateIndex)
	})
	return out
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// obey lets every agent that is heard do what it is told; if it is all well with
// them, what runs comes to its end, or becomes healthy.
func (h *history) obey(well bool) {
	s := h.store.Snapshot()
	for n := range s.Nodes() {
		c := &state.ReportAllocs{Node: n.ID, Now: now()}
		for _, a := range h.allocsOn(s, n) {
			switch {
			case n.Status != berth.NodeReady:
			case !a.Wanted():
				c.Updates = append(c.Updates, state.AllocUpdate{ID: a.ID, Client: berth.ClientComplete})
			case waitsForRoom(s, a):
			case a.Client == berth.ClientPending || a.Client == berth.ClientUnknown:
				c.Updates = append(c.Updates, state.AllocUpdate{ID: a.ID, Client: berth.ClientRunning})
			case well && a.Client == berth.ClientRunning && ends(a.Job):
				c.Updates = append(c.Updates, state.AllocUpdate{ID: a.ID, Client: berth.ClientComplete})
			case well && asks(a):
				u := state.AllocUpdate{ID: a.ID, Client: berth.ClientRunning}
				feels(a, &u, true)
				c.Updates = append(c.Updates, u)
			}
		}
		if len(c.Updates) > 0 {
			h.hear(c)
			h.stage(c)
		}
	}
}

// pause lets an operator pause the broker, or go on.
func (h *history) pause(yes bool) bool {
	h.tell("pause %v", yes)
	if yes {
		h.took(paused)
	}
	return h.configure(yes)
}

// allowEviction lets an operator say that jobs of every type may evict others,
// or none.
func (h *history) allowEviction(yes bool) bool {
	h.tell("eviction %v", yes)
	h.evicts = yes
	return h.configure(h.term.log.Tip().SchedulerConfig().PauseEvalBroker)
}

func (h *history) configure(pause bool) bool {
	return h.stage(&state.SetSchedulerConfig{Config: berth.SchedulerConfig{PauseEvalBroker: pause, PreemptionConfig: berth.PreemptionConfig{
		SystemSchedulerEnabled: h.evicts, SysBatchSchedulerEnabled: h.evicts, BatchSchedulerEnabled: h.evicts, ServiceSchedulerEnabled: h.evicts,
	}}})
}

// replaceWorker lets a worker die, with what it holds, and starts another.
func (h *history) replaceWorker() bool {
	i := h.chance.IntN(len(h.term.kill))
	h.tell("worker %d dies", i)
	h.term.kill[i]()
	h.term.kill = slices.Delete(h.term.kill, i, i+1)
	h.hire()
	h.took(workersDied)
	return true
}

// endTerm ends the term and begins another after a while.
func (h *history) endTerm() bool {
	keep := h.chance.IntN(3)
	h.tell("the term ends; %d entries are kept", keep)
	h.end(keep)
	h.took(termsEnded)
	if h.chance.IntN(2) == 0 {
		time.Sleep(time.Duration(h.chance.Int64N(int64(30 * time.Second))))
	}
	h.begin()
	return true
}
