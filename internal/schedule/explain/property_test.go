package explain_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"berth"
	"berth/internal/fit"
	"berth/internal/schedule"
	"berth/internal/schedule/explain"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"

	"pgregory.net/rapid"
)

func nowhere(berth.EvalID) string { return "" }

// drawState is a state that some history led to. Some of its nodes are small,
// so that things find no place.
func drawState(t *rapid.T) *state.Snapshot {
	var draw statetest.Random
	tx := state.Begin(state.New().Snapshot())
	for range rapid.IntRange(1, 40).Draw(t, "commands") {
		tx.Apply(draw.Command(t, tx.Snapshot))
	}
	return tx.Seal()
}

// Whatever the state: no explanation is empty, none changes what it looks at,
// and every change that one proposes really places what is missing.
func TestExplanationsHold(t *testing.T) {
	counts := map[string]int{}
	seldom := func() (out []string) {
		for _, want := range []string{op.WhyRuns, op.WhyRoom, op.WhyStopped, op.WhyPurged, op.WhyScheduler, "less", "drop", "nodes", "and"} {
			if counts[want] == 0 {
				out = append(out, want)
			}
		}
		return out
	}
	for range 20 { // some cases are seldom
		explainDrawn(t, counts)
		if t.Failed() || len(seldom()) == 0 {
			break
		}
	}
	t.Log(counts)
	for _, want := range seldom() {
		t.Errorf("no history came to %q", want)
	}
}

// explainDrawn explains all there is of drawn states, and counts by verdict and
// kind of change.
func explainDrawn(t *testing.T, counts map[string]int) {
	rapid.Check(t, func(t *rapid.T) {
		snap, now := drawState(t), time.Unix(0, int64(rapid.IntRange(0, int(time.Hour)).Draw(t, "now")))
		hash := snap.Hash()
		for _, k := range slices.Collect(func(yield func(berth.JobKey) bool) {
			for i := range 5 {
				if !yield(berth.JobKey{Namespace: berth.DefaultNamespace, ID: berth.JobID(fmt.Sprint("job", i))}) {
					return
				}
			}
		}) {
			x := explain.Job(snap, k, nowhere, now)
			whole(t, snap, x)
			counts[x.Verdict]++
			if snap.Job(k) == nil {
				continue
			}
			// What has a place is placed before anybody can do what is proposed.
			tx := state.Begin(snap)
			decideAll(t, tx, k, now, 1)
			placed := tx.Seal()
			x = explain.Job(placed, k, nowhere, now)
			whole(t, placed, x)
			counts[x.Verdict]++
			for i := range x.Groups {
				proposals(t, placed, k, &x.Groups[i], now, counts)
			}
		}
		for e := range snap.Evals() {
			x := explain.Eval(snap, e, nowhere, now)
			whole(t, snap, x)
			counts["eval: "+x.Verdict]++
		}
		if snap.Hash() != hash {
			t.Fatal("an explanation changed the state it looked at")
		}
		if err := state.CheckFrozen(); err != nil {
			t.Fatal(err)
		}
	})
}

// whole checks that an explanation says something, with numbers where
// something is missing.
func whole(t *rapid.T, snap *state.Snapshot, x *op.Explanation) {
	t.Helper()
	if x.Verdict == "" || x.Summary == "" {
		t.Fatalf("an empty explanation: %+v", x)
	}
	for _, g := range x.Groups {
		if g.Summary == "" {
			t.Fatalf("nothing is said of group %s: %+v", g.Group, g)
		}
		if g.Missing == 0 {
			continue
		}
		if g.Nodes > 0 && len(g.Conditions)+len(g.Shortages) == 0 {
			t.Fatalf("%d are missing and nothing speaks against any of %d nodes: %+v", g.Missing, g.Nodes, g)
		}
		// Other nodes are no help to one that lacks room for what runs on every
		// node.
		j := snap.Job(berth.JobKey{Namespace: x.Namespace, ID: x.JobID})
		if len(g.Changes) == 0 && !j.PerNode() {
			t.Fatalf("%d are missing and nothing would help: %+v", g.Missing, g)
		}
		for _, a := range g.Allocs {
			if a.Text == "" || a.NodeName == "" {
				t.Fatalf("nothing is said of where %s is: %+v", a.Name, a)
			}
		}
	}
	for _, w := range x.Waits {
		if w.Why == "" {
			t.Fatalf("evaluation %s waits for nothing", w.EvalID)
		}
	}
}

// proposals makes each proposed change by other means than the one who
// proposed it, and lets the scheduler decide, and what it stops end.
func proposals(t *rapid.T, snap *state.Snapshot, k berth.JobKey, g *op.GroupExplanation, now time.Time, counts map[string]int) {
	t.Helper()
	for _, c := range g.Changes {
		if c.Text == "" {
			t.Fatalf("a change without a word: %+v", c)
		}
		tx := state.Begin(snap)
		do := func(cmd state.Command) {
			t.Helper()
			if r := tx.Apply(cmd); r.Err != nil {
				t.Fatalf("%s: %v", c.Text, r.Err)
			}
		}
		for one := &c; one != nil; one = one.And {
			if one.And != nil {
				counts["and"]++
			}
			makes(t, tx.Seal(), k, g.Group, one, now, do)
		}
		left := decideAll(t, tx, k, now, 6)
		if left[g.Group] > 0 {
			t.Fatalf("%s: %d of group %s still have no place: %+v", c.Text, left[g.Group], g.Group, g)
		}
		for name, used := range map[string]bool{"less": c.Less != nil, "drop": len(c.Drop) > 0, "nodes": c.Nodes != nil, "port": c.Port != nil, "wait": c.Stopping > 0} {
			if used {
				counts[name]++
			}
		}
	}
}

// makes makes one proposed change.
func makes(t *rapid.T, snap *state.Snapshot, k berth.JobKey, group string, c *op.Change, now time.Time, do func(state.Command)) {
	t.Helper()
	if c.Less != nil || len(c.Drop) > 0 || c.Datacenter != "" || c.NodePool != "" || c.Port != nil && c.Port.Dynamic {
		do(&state.RegisterJob{Job: changed(snap.Job(k), group, c), Now: now.UnixNano()})
	}
	if c.Port != nil && !c.Port.Dynamic {
		a := snap.Alloc(c.Port.AllocID)
		do(&state.ReportAllocs{Node: a.NodeID, Now: now.UnixNano(), Updates: []state.AllocUpdate{{ID: a.ID, Client: berth.ClientFailed, Tasks: a.Tasks}}})
	}
	if c.Nodes != nil {
		for i := range c.Nodes.Count {
			do(&state.RegisterNode{Node: newNode(snap, c.Nodes, i), Now: now.UnixNano()})
		}
	}
	if p := c.Present; p != nil && p.Eligible {
		do(&state.SetNodeEligibility{ID: p.NodeID, Eligibility: berth.NodeEligible, Now: now.UnixNano()})
	} else if p != nil {
		n := *snap.Node(p.NodeID)
		n.Drivers = maps.Clone(n.Drivers)
		for _, d := range p.Drivers {
			n.Drivers[d] = &berth.DriverInfo{Detected: true, Healthy: true}
		}
		do(&state.RegisterNode{Node: &n, Now: now.UnixNano()})
	}
	if m := c.Misspelt; m != nil {
		j := *snap.Job(k)
		rename := func(list []berth.Constraint) (out []berth.Constraint) {
			for _, c := range list {
				if c.LTarget == m.Attribute {
					c.LTarget = m.Instead
				}
				out = append(out, c)
			}
			return out
		}
		j.Constraints, j.TaskGroups = rename(j.Constraints), slices.Clone(j.TaskGroups)
		i := slices.IndexFunc(j.TaskGroups, func(x *berth.TaskGroup) bool { return x.Name == group })
		changed := *j.TaskGroups[i]
		changed.Constraints, changed.Tasks = rename(changed.Constraints), slices.Clone(changed.Tasks)
		for k := range changed.Tasks {
			task := *changed.Tasks[k]
			task.Constraints = rename(task.Constraints)
			changed.Tasks[k] = &task
		}
		j.TaskGroups[i] = &changed
		do(&state.RegisterJob{Job: &j, Now: now.UnixNano()})
	}
}

// decideAll decides a job again and again, with all that is stopped ending at
// once, and returns what is left without a place.
func decideAll(t *rapid.T, tx *state.Tx, k berth.JobKey, now time.Time, often int) (left map[string]int) {
	t.Helper()
	for n := range often {
		id := statetest.ID[berth.Eval](1<<20 + int(tx.Index))
		tx.Apply(&state.CreateEvals{Now: now.UnixNano(), Evals: []state.EvalFor{{Key: k, EvalSeed: state.EvalSeed{
			ID: id, TriggeredBy: berth.TriggerJobRegister, Cause: berth.Cause{Kind: berth.CauseUser},
		}}}})
		d := schedule.Decide(tx.Seal(), tx.Eval(id), n, now)
		if r := tx.Apply(d.Plan); r.Err != nil || len(d.Plan.Refused) > 0 {
			t.Fatalf("the plan is refused: %v %v", r.Err, d.Plan.Refused)
		}
		if left = d.Plan.End.Queued; len(left) == 0 || n+1 == often {
			return left
		}
		for a := range tx.Seal().AllocsOf(k) {
			if !a.Wanted() && !a.Ended() {
				tx.Apply(&state.ReportAllocs{Node: a.NodeID, Now: now.UnixNano(), Updates: []state.AllocUpdate{{ID: a.ID, Client: berth.ClientComplete, Tasks: a.Tasks}}})
			}
		}
	}
	return left
}

// changed returns a job with a change made, as a user would edit it.
func changed(old *berth.Job, group string, c *op.Change) *berth.Job {
	j := *old
	drop := func(list []berth.Constraint) (out []berth.Constraint) {
		for _, x := range list {
			if !slices.Contains(c.Drop, x.String()) {
				out = append(out, x)
			}
		}
		return out
	}
	j.Constraints = drop(j.Constraints)
	if c.Datacenter != "" {
		j.Datacenters = append(slices.Clone(j.Datacenters), c.Datacenter)
	}
	if c.NodePool != "" {
		j.NodePool = c.NodePool
	}
	j.TaskGroups = nil
	for _, og := range old.TaskGroups {
		if og.Name != group {
			j.TaskGroups = append(j.TaskGroups, og)
			continue
		}
		g := *og
		g.Constraints, g.Tasks = drop(g.Constraints), nil
		for _, ot := range og.Tasks {
			task, r := *ot, *ot.Resources
			task.Constraints, task.Resources = drop(task.Constraints), &r
			if l := c.Less; l != nil {
				if to, ok := l.Tasks[task.Name]; ok && l.Dimension == fit.DimCPU {
					r.CPU = int(to)
				} else if ok {
					r.MemoryMB = int(to)
				}
			}
			g.Tasks = append(g.Tasks, &task)
		}
		if l := c.Less; l != nil && l.Dimension == fit.DimDisk {
			g.EphemeralDisk = &berth.EphemeralDisk{SizeMB: int(l.To)}
		}
		if p := c.Port; p != nil && p.Dynamic {
			g.Networks = nil
			for _, nw := range og.Networks {
				var static []berth.Port
				dynamic := slices.Clone(nw.DynamicPorts)
				for _, x := range nw.ReservedPorts {
					if x.Value == p.Port {
						dynamic = append(dynamic, berth.Port{Label: x.Label, To: x.To})
					} else {
						static = append(static, x)
					}
				}
				nw.ReservedPorts, nw.DynamicPorts = static, dynamic
				g.Networks = append(g.Networks, nw)
			}
		}
		j.TaskGroups = append(j.TaskGroups, &g)
	}
	return &j
}

// newNode is a node as an operator would add it who reads the change.
func newNode(snap *state.Snapshot, m *op.MoreNodes, i int) *berth.Node {
	n := statetest.Node(100+i, m.Room.CPU, m.Room.MemoryMB)
	n.NodeResources.Disk.DiskMB = m.Room.DiskMB
	n.Drivers = map[string]*berth.DriverInfo{}
	if like := snap.Node(m.Like); like != nil {
		r := *like.NodeResources
		k := like.ReservedResources
		r.Cpu.CpuShares = max(r.Cpu.CpuShares, m.Room.CPU+int64(k.Cpu.CpuShares))
		r.Memory.MemoryMB = max(r.Memory.MemoryMB, m.Room.MemoryMB+int64(k.Memory.MemoryMB))
		r.Disk.DiskMB = max(r.Disk.DiskMB, m.Room.DiskMB+int64(k.Disk.DiskMB))
		n.NodeResources, n.ReservedResources = &r, k
		if len(m.Ports) > 0 {
			n.ReservedResources = &berth.NodeReservedResources{Cpu: k.Cpu, Memory: k.Memory, Disk: k.Disk}
		}
		n.Meta = map[string]string{}
		for k, v := range like.Meta {
			n.Meta[k] = v
		}
		for d, info := range like.Drivers {
			n.Drivers[d] = info
		}
	} else {
		n.Attributes, n.Meta = map[string]string{}, map[string]string{}
	}
	n.Datacenter, n.NodePool, n.NodeClass = m.Datacenter, m.NodePool, m.NodeClass
	for _, d := range m.Drivers {
		n.Drivers[d] = &berth.DriverInfo{Detected: true, Healthy: true}
	}
	give := func(target, value string) {
		switch name := target[2 : len(target)-1]; {
		case name[:5] == "meta.":
			n.Meta[name[5:]] = value
		case name[:5] == "attr.":
			n.Attributes[name[5:]] = value
		}
	}
	for target, value := range m.Set {
		give(target, value)
	}
	for _, target := range m.Distinct {
		give(target, fmt.Sprint("own-", i))
	}
	return n
}
