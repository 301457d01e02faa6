package statetest

import (
	"fmt"
	"time"

	"berth"
	"berth/internal/state"
	"berth/internal/state/codec"

	"pgregory.net/rapid"
)

// Random draws commands that a cluster could see: valid ones, stale ones, and
// ones that must be refused.
type Random struct {
	First int // IDs are numbered from here on
	next  int
	now   int64
}

// Command draws a command for the state it will be applied to.
func (r *Random) Command(t *rapid.T, s *state.Snapshot) state.Command {
	r.now += int64(rapid.IntRange(1, int(time.Minute)).Draw(t, "time"))
	switch rapid.IntRange(0, 44).Draw(t, "kind") {
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
	case 19, 20, 21:
		return r.deletion(t, s)
	case 22:
		return &state.RaiseCore{ID: r.id(), Force: rapid.Bool().Draw(t, "force"), Cause: berth.Cause{Kind: berth.CauseSystem}, Now: r.now}
	case 23:
		if rapid.IntRange(0, 2).Draw(t, "space") == 0 {
			return r.space(t)
		}
		return r.pool(t)
	case 24:
		return &state.SetNodeEligibility{
			ID:          ID[berth.Node](rapid.IntRange(1, 7).Draw(t, "node")),
			Eligibility: rapid.SampledFrom([]string{berth.NodeEligible, berth.NodeEligible, berth.NodeIneligible, "odd"}).Draw(t, "eligibility"),
			Seed:        r.id(), Now: r.now,
		}
	case 27, 28:
		return r.version(t, s)
	case 29, 30, 31:
		return r.service(t, s)
	case 32:
		return r.drain(t, s)
	case 33, 34:
		return r.deployment(t, s)
	case 35, 36:
		return r.family(t, s)
	case 37, 38:
		return r.delete(t, s)
	case 39:
		return r.finalize(t, s)
	case 40, 41, 42, 43, 44:
		return r.Stream(t, s)
	case 25:
		return &state.EvaluateJob{
			Key: berth.JobKey{Namespace: berth.DefaultNamespace, ID: jobName(t)}, Force: rapid.IntRange(0, 3).Draw(t, "force") > 0, Now: r.now,
			Eval: state.EvalSeed{ID: r.id(), TriggeredBy: berth.TriggerJobRegister, Cause: berth.Cause{Kind: berth.CauseUser}},
		}
	}
	// The other kinds, and those that found nothing to work on.
	if rapid.IntRange(0, 3).Draw(t, "operator") == 0 {
		c := &state.SetSchedulerConfig{Enforce: rapid.Bool().Draw(t, "enforce"), Index: s.SchedulerConfig().ModifyIndex}
		c.Config.PauseEvalBroker = rapid.Bool().Draw(t, "pause")
		if rapid.IntRange(0, 3).Draw(t, "preempt") == 0 {
			c.Config.PreemptionConfig.BatchSchedulerEnabled = true
			c.Config.SchedulerAlgorithm = rapid.SampledFrom([]string{"", berth.AlgorithmSpread, "odd"}).Draw(t, "algorithm") // the last is refused
		}
		if rapid.IntRange(0, 3).Draw(t, "autopilot") == 0 {
			a := &state.SetAutopilotConfig{Config: berth.DefaultAutopilotConfig, Enforce: c.Enforce, Index: s.AutopilotConfig().ModifyIndex}
			a.Config.MinQuorum = uint(rapid.IntRange(0, 3).Draw(t, "quorum"))
			a.Config.LastContactThreshold *= time.Duration(rapid.IntRange(0, 2).Draw(t, "contact")) // 0 is refused
			return a
		}
		return c
	}
	return &state.CreateEvals{Now: r.now, Evals: []state.EvalFor{{
		EvalSeed: state.EvalSeed{ID: r.id(), TriggeredBy: berth.TriggerJobRegister, Cause: berth.Cause{Kind: berth.CauseUser}},
		Key:      berth.JobKey{Namespace: berth.DefaultNamespace, ID: jobName(t)}, WaitUntil: r.now,
	}}}
}

// space draws a command that adds or deletes a namespace, one with an illegal name
// among them.
func (r *Random) space(t *rapid.T) state.Command {
	if rapid.IntRange(0, 2).Draw(t, "quota") == 0 {
		return r.quota(t)
	}
	name := rapid.SampledFrom([]string{berth.DefaultNamespace, "team", "no name"}).Draw(t, "namespace")
	if rapid.Bool().Draw(t, "delete") {
		return &state.DeleteNamespaces{Names: []string{name}}
	}
	n := &berth.Namespace{Name: name, Description: rapid.SampledFrom([]string{"", "some"}).Draw(t, "description")}
	if name != berth.DefaultNamespace && rapid.Bool().Draw(t, "pools") {
		n.NodePoolConfiguration = &berth.NamespaceNodePoolConfiguration{Denied: []string{"d*"}}
	}
	if rapid.IntRange(0, 2).Draw(t, "claims") == 0 {
		n.RequiredExtraClaims = map[string]string{"who": "${job.id}"}
	}
	n.Quota = rapid.SampledFrom([]string{"", "small", "small", "none"}).Draw(t, "named quota") // there is no "none"
	return &state.UpsertNamespaces{Namespaces: []*berth.Namespace{n}}
}

// quota draws a command that changes or deletes a quota.
func (r *Random) quota(t *rapid.T) state.Command {
	if rapid.IntRange(0, 4).Draw(t, "delete") == 0 {
		return &state.DeleteQuotas{Names: []string{"small"}}
	}
	limit := func(what string) *int {
		n := rapid.SampledFrom([]int{-1, 0, 0, 1, 3, 500, 5000}).Draw(t, what)
		return &n
	}
	q := &berth.Quota{Name: "small", Limits: []*berth.QuotaLimit{{Region: "global", RegionLimit: &berth.QuotaResources{
		CPU: limit("cpu"), MemoryMB: limit("memory"), Allocations: limit("allocations"), Jobs: limit("jobs"),
		NodePools: []*berth.QuotaResources{{NodePool: "dev", CPU: limit("cpu of dev")}},
	}}}}
	return &state.UpsertQuotas{Quotas: []*berth.Quota{q}, Region: "global"}
}

// pool draws a command that adds or deletes a node pool, one with an illegal
// name among them.
func (r *Random) pool(t *rapid.T) state.Command {
	name := rapid.SampledFrom([]string{berth.DefaultNodePool, "dev", "prod", "spare", "no name"}).Draw(t, "pool")
	if rapid.IntRange(0, 2).Draw(t, "delete") == 0 {
		return &state.DeleteNodePools{Names: []string{name}}
	}
	p := &berth.NodePool{Name: name, Description: rapid.SampledFrom([]string{"", "some"}).Draw(t, "description")}
	if rapid.Bool().Draw(t, "own") {
		over := rapid.Bool().Draw(t, "oversubscribe")
		p.SchedulerConfiguration = &berth.PoolSchedulerConfig{SchedulerAlgorithm: berth.AlgorithmSpread, MemoryOversubscriptionEnabled: &over}
	}
	return &state.UpsertNodePools{Pools: []*berth.NodePool{p}}
}

// id returns an ID that no command had before.
func (r *Random) id() berth.EvalID {
	r.next++
	return ID[berth.Eval](r.First + r.next)
}

// jobName draws one of five names, so that commands often meet.
func jobName(t *rapid.T) berth.JobID {
	return berth.JobID(fmt.Sprint("job", rapid.IntRange(0, 4).Draw(t, "job")))
}

// node draws a registration of one of six nodes. Some have a wrong secret or
// pool, and are refused.
func (r *Random) node(t *rapid.T, _ *state.Snapshot) state.Command {
	n := rapid.IntRange(1, 6).Draw(t, "node")
	// A node must not shrink here: it would be overcommitted through no fault
	// of the state.
	c := AddNode(n, int64(n%4+1)*1000, 4000, func(n *berth.Node) {
		n.Meta = map[string]string{"rack": rapid.SampledFrom([]string{"r1", "r2"}).Draw(t, "rack")}
		n.Status = rapid.SampledFrom([]string{berth.NodeInit, berth.NodeReady}).Draw(t, "status")
		if n.ID == ID[berth.Node](6) {
			n.NodePool = rapid.SampledFrom([]string{"dev", "prod", "", berth.AllNodePool}).Draw(t, "pool") // the last is refused
		}
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

// status draws a change of a node's status. The node may be unknown, and the
// status illegal.
func (r *Random) status(t *rapid.T, _ *state.Snapshot) state.Command {
	return &state.SetNodeStatus{
		ID:     ID[berth.Node](rapid.IntRange(1, 7).Draw(t, "node")),
		Status: rapid.SampledFrom([]string{berth.NodeReady, berth.NodeDown, "odd"}).Draw(t, "status"),
		Seed:   r.id(), Now: r.now,
	}
}

// register draws a job of any type but stream. Some have an unknown namespace
// or pool, or enforce a wrong index.
func (r *Random) register(t *rapid.T, s *state.Snapshot) state.Command {
	j := &berth.Job{
		Region: berth.DefaultRegion, Namespace: berth.DefaultNamespace, ID: jobName(t), Name: "a job",
		Type:     rapid.SampledFrom([]string{berth.TypeService, berth.TypeBatch, berth.TypeService, berth.TypeBatch, berth.TypeSystem, berth.TypeSysbatch}).Draw(t, "type"),
		Priority: rapid.IntRange(1, 100).Draw(t, "priority"), Datacenters: []string{"*"}, NodePool: berth.DefaultNodePool,
	}
	if rapid.IntRange(0, 9).Draw(t, "lost namespace") == 0 {
		j.Namespace = "nowhere"
	}
	if rapid.IntRange(0, 9).Draw(t, "elsewhere") == 0 {
		j.NodePool = rapid.SampledFrom([]string{"dev", berth.AllNodePool, "spare"}).Draw(t, "pool")
	}
	for g := range rapid.IntRange(1, 3).Draw(t, "groups") {
		restart := berth.RestartPolicy{Attempts: 2, Interval: time.Minute, Mode: berth.RestartFail}
		group := &berth.TaskGroup{
			Name: fmt.Sprint("g", g), Count: rapid.IntRange(0, 4).Draw(t, "count"), RestartPolicy: &restart,
			ReschedulePolicy: policy(t), Constraints: constraints(t), Affinities: affinities(t),
			EphemeralDisk: &berth.EphemeralDisk{SizeMB: 100},
			Tasks: []*berth.Task{{
				Name: "task", Driver: "mock_driver", RestartPolicy: &restart, LogConfig: &berth.LogConfig{MaxFiles: 1, MaxFileSizeMB: 1},
				Config:    map[string]any{"exit_code": int64(rapid.IntRange(0, 500).Draw(t, "exit"))},
				Resources: &berth.Resources{CPU: rapid.IntRange(1, 20).Draw(t, "cpu") * 100, MemoryMB: 100},
			}},
		}
		if rapid.Bool().Draw(t, "ports") {
			group.Networks = []berth.NetworkResource{{Mode: "host", DynamicPorts: []berth.Port{{Label: "http"}}}}
			if rapid.Bool().Draw(t, "two") {
				group.Networks[0].DynamicPorts = rapid.Permutation([]berth.Port{{Label: "http"}, {Label: "rpc"}}).Draw(t, "order")
			}
			if rapid.Bool().Draw(t, "static") {
				group.Networks[0].ReservedPorts = []berth.Port{{Label: "admin", Value: rapid.IntRange(80, 95).Draw(t, "port")}}
			}
		}
		if !j.PerNode() && rapid.IntRange(0, 3).Draw(t, "scaling") == 0 {
			group.Scaling = &berth.ScalingPolicy{Max: int64(rapid.IntRange(4, 5).Draw(t, "max")), Type: berth.ScalingHorizontal, Enabled: true}
		}
		if j.Type == berth.TypeService {
			group.Update = update(t)
		}
		if j.PerNode() { // the handler only lets these in
			group.Affinities, group.ReschedulePolicy = nil, nil
			if j.Type == berth.TypeSystem {
				group.Count = min(group.Count, 1)
				if n := rapid.IntRange(0, 2).Draw(t, "parallel"); n > 0 {
					group.Update = &berth.UpdateStrategy{MaxParallel: n, Stagger: 30 * time.Second}
				}
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

// policy draws a reschedule policy that validation accepts.
func policy(t *rapid.T) *berth.ReschedulePolicy {
	p := &berth.ReschedulePolicy{
		Delay: 5 * time.Second, MaxDelay: time.Hour, Unlimited: rapid.Bool().Draw(t, "unlimited"),
		DelayFunction: rapid.SampledFrom([]string{berth.DelayConstant, berth.DelayExponential, berth.DelayFibonacci}).Draw(t, "function"),
	}
	if !p.Unlimited {
		p.Attempts, p.Interval = rapid.IntRange(0, 3).Draw(t, "attempts"), time.Hour
	}
	return p
}

// constraints draws from a short list, often none.
func constraints(t *rapid.T) []berth.Constraint {
	return rapid.SampledFrom([][]berth.Constraint{
		nil, nil, nil, {{LTarget: "${meta.rack}", Operand: berth.OpEqual, RTarget: "r1"}}, {{Operand: berth.OpDistinctHosts}},
		{{LTarget: "${meta.rack}", Operand: berth.OpDistinctProperty, RTarget: "2"}},
		{{LTarget: "${attr.unique.hostname}", Operand: berth.OpRegexp, RTarget: "n[1-4]"}},
	}).Draw(t, "constraints")
}

// affinities draws from a short list, half of the time none.
func affinities(t *rapid.T) []berth.Affinity {
	return rapid.SampledFrom([][]berth.Affinity{
		nil, nil, {{LTarget: "${meta.rack}", Operand: berth.OpEqual, RTarget: "r2", Weight: 50}},
		{{LTarget: "${node.unique.name}", Operand: berth.OpEqual, RTarget: "n1", Weight: -100}},
	}).Draw(t, "affinities")
}

// stop draws a stop of a job, which may not exist.
func (r *Random) stop(t *rapid.T, _ *state.Snapshot) state.Command {
	return &state.StopJob{
		Key:   berth.JobKey{Namespace: berth.DefaultNamespace, ID: jobName(t)},
		Purge: rapid.Bool().Draw(t, "purge"), NoShutdownDelay: rapid.Bool().Draw(t, "no delay"), Now: r.now,
		Eval: state.EvalSeed{ID: r.id(), TriggeredBy: berth.TriggerJobDeregister, Cause: berth.Cause{Kind: berth.CauseUser}},
	}
}

// eval draws an evaluation, usually an open one.
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

// begins draws a new term or, in some, the log version that servers know since.
func (r *Random) begins(t *rapid.T, s *state.Snapshot) state.Command {
	if s.Term > 0 && rapid.IntRange(0, 3).Draw(t, "raises") == 0 {
		c := &state.RaiseLogVersion{To: codec.LogVersion}
		c.Stamp(s.Term)
		return c
	}
	return &state.BeginTerm{Term: s.Term + 1, Cluster: ID[state.Cluster](int(s.Term) + 1)}
}

// report draws what a node reports about its allocations. One in ten reports
// has an allocation that may be of another node.
func (r *Random) report(t *rapid.T, s *state.Snapshot) state.Command {
	c := &state.ReportAllocs{Node: ID[berth.Node](rapid.IntRange(1, 6).Draw(t, "node")), Now: r.now}
	for a := range s.AllocsOn(c.Node) {
		if rapid.Bool().Draw(t, "report") {
			continue
		}
		at := time.Unix(0, r.now)
		u := state.AllocUpdate{ID: a.ID, Client: berth.ClientStatus(rapid.IntRange(0, 5).Draw(t, "client"))}
		u.Tasks = state.PackTaskStates(map[string]*berth.TaskState{"task": {
			State: berth.TaskRunning, StartedAt: at, Events: []berth.TaskEvent{berth.NewTaskEvent(berth.EventStarted, at)},
		}})
		if rapid.Bool().Draw(t, "described") {
			u.Description = "as drawn"
		}
		if rapid.IntRange(0, 3).Draw(t, "feels") == 0 {
			healthy := rapid.IntRange(0, 3).Draw(t, "healthy") > 0
			u.Deployment = &berth.AllocDeploymentStatus{Healthy: &healthy, Timestamp: at.UTC()}
		}
		c.Updates = append(c.Updates, u)
	}
	// Of another node, so most of these are refused.
	if rapid.IntRange(0, 9).Draw(t, "another's") == 0 {
		for a := range s.Allocs() {
			c.Updates = append(c.Updates, state.AllocUpdate{ID: a.ID})
			break
		}
	}
	return c
}

// deletion draws rows to delete: usually all that are free, sometimes with some
// that are not, or without some that the others depend on.
func (r *Random) deletion(t *rapid.T, s *state.Snapshot) state.Command {
	c, w := &state.DeleteRows{}, state.NewSweep(s)
	c.Stamp(s.Term)
	reckless := rapid.IntRange(0, 4).Draw(t, "reckless") == 0
	// Take most of what is free; a reckless command also takes rows that must
	// stay, and is refused.
	take := func(why string) bool {
		return rapid.IntRange(0, 7).Draw(t, "leave out") > 0 && (why == "" || reckless && rapid.IntRange(0, 3).Draw(t, "dare") == 0)
	}
	if rapid.Bool().Draw(t, "jobs") {
		for j := range s.Jobs(berth.AllNamespaces, "") {
			if take(w.Job(j)) {
				c.Jobs = append(c.Jobs, state.JobRef{Key: j.Key(), UID: j.UID})
			}
		}
	}
	for a := range s.Allocs() {
		if take(w.Alloc(a)) {
			c.Allocs = append(c.Allocs, a.ID)
		}
	}
	for e := range s.Evals() {
		if take(w.Eval(e)) {
			c.Evals = append(c.Evals, e.ID)
		}
	}
	for d := range s.Deployments() {
		if take(w.Deployment(d)) {
			c.Deployments = append(c.Deployments, d.ID)
		}
	}
	for n := range s.Nodes() {
		if take(w.Node(n)) {
			c.Nodes = append(c.Nodes, n.ID)
		}
	}
	return c
}
