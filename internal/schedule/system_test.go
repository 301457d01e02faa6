package schedule_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/schedule"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/internal/validate"

	"pgregory.net/rapid"
)

// The stories of jobs that run on every node: each line happens, the
// evaluations that it raised are decided, and what each came to is shown.
//
//	node n1 cpu=4000 | nodes 3        see statetest.NodesOf; one that is there registers anew
//	job log type=system …             registers it, see statetest.JobOf
//	stop log [purge]
//	fail log                          its deployment is failed by hand
//	fare log n1 running               what the agent says of what it runs there; log.g if it is of that group
//	down n1, up n1, away n1           the node's status
//	ineligible n1, eligible n1
//	drain n1, undrain n1              a drain whose deadline has come; the node takes new work again
//	eval log                          a user evaluates it
//	wait 30s
//	retry                             what waits for a node is looked at again
//	late                              the next plan meets a node that changed since
//	csi data                          the CSI volume, of the plugin "disk", is registered; it can be used in each way
//	returned data                     the claims on it of what has ended are gone
//	show log                          what there is of it
//	sizes log                         how many instances its newest deployment wants
func TestPerNodeStories(t *testing.T) {
	statetest.Stories(t, "testdata/system.txt", func(t *testing.T) func(input string) string {
		w := &nodeWorld{gcWorld: gcWorld{t: t, now: time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC), names: map[any]string{}}}
		w.snap = state.New().Snapshot()
		return func(input string) string {
			w.out.Reset()
			for _, l := range statetest.Lines(t, input) {
				w.line(l)
			}
			return w.out.String()
		}
	})
}

type nodeWorld struct {
	gcWorld
	out  strings.Builder
	late bool
}

func (w *nodeWorld) line(l *statetest.Line) {
	key := berth.JobKey{Namespace: berth.DefaultNamespace, ID: berth.JobID(l.Word(0))}
	now := w.now.UnixNano()
	switch l.Verb {
	case "node", "nodes":
		for _, n := range statetest.NodesOf(w.t, l) {
			w.apply(&state.RegisterNode{Node: n, Seed: w.seed("").ID, Now: now})
			w.decide()
		}
	case "fare":
		w.fares(l.Word(0), l.Word(1), l.Word(2))
	case "down", "up", "away":
		status := map[string]string{"down": berth.NodeDown, "up": berth.NodeReady, "away": berth.NodeDisconnected}[l.Verb]
		w.apply(&state.SetNodeStatus{ID: w.node(l.Word(0)), Status: status, Seed: w.seed("").ID, Now: now})
	case "eligible", "ineligible":
		w.apply(&state.SetNodeEligibility{ID: w.node(l.Word(0)), Eligibility: l.Verb, Seed: w.seed("").ID, Now: now})
	case "drain":
		w.apply(&state.UpdateDrain{ID: w.node(l.Word(0)), Spec: &berth.DrainSpec{Deadline: -1}, Seed: w.seed("").ID, Now: now})
		c := &state.MigrateAllocs{Node: w.node(l.Word(0)), Seed: w.seed("").ID, Now: now}
		for a := range w.snap.AllocsOn(c.Node) {
			if a.Live() {
				c.Allocs = append(c.Allocs, a.ID)
			}
		}
		w.apply(c)
	case "undrain":
		w.apply(&state.UpdateDrain{ID: w.node(l.Word(0)), MarkEligible: true, Seed: w.seed("").ID, Now: now})
	case "eval":
		w.apply(&state.CreateEvals{Evals: []state.EvalFor{{EvalSeed: w.seed(berth.TriggerJobRegister), Key: key}}, Now: now})
	case "wait":
		d, err := time.ParseDuration(l.Word(0))
		if err != nil {
			w.t.Fatal(err)
		}
		w.now = w.now.Add(d)
	case "retry":
		w.retry()
	case "late":
		w.late = true
		return
	case "csi":
		v := &berth.CSIVolume{Namespace: berth.DefaultNamespace, ID: l.Word(0), Name: l.Word(0), ExternalID: "x", PluginID: "disk"}
		for _, mode := range validate.CSIAccess() {
			v.RequestedCapabilities = append(v.RequestedCapabilities, berth.VolumeCapability{AccessMode: mode, AttachmentMode: berth.AttachFilesystem})
		}
		w.apply(&state.PutCSIVolume{Volume: v, Now: now})
	case "returned":
		for c := range w.snap.ClaimsOfCSI(berth.DefaultNamespace, l.Word(0)) {
			for _, from := range []string{state.ClaimReleasing, state.ClaimDetached} {
				if c := w.snap.CSIClaim(c.Namespace, c.VolumeID, c.AllocID); c != nil && c.State == from {
					w.apply(&state.StepCSIClaim{Namespace: c.Namespace, VolumeID: c.VolumeID, AllocID: c.AllocID, From: from})
				}
			}
		}
	case "sizes":
		d := w.snap.NewestDeployment(key, w.snap.Job(key).UID)
		for _, g := range slices.Sorted(maps.Keys(d.TaskGroups)) {
			fmt.Fprintf(&w.out, "%s is %s, %s wants %d, %d of them canaries\n", key.ID, d.Status, g, d.TaskGroups[g].DesiredTotal, d.TaskGroups[g].DesiredCanaries)
		}
		return
	case "show":
		w.show(key)
	case "job":
		w.apply(&state.RegisterJob{Job: statetest.JobOf(w.t, l), Eval: w.seed(berth.TriggerJobRegister), Now: now})
	case "fail":
		for d := range w.snap.DeploymentsOf(key) {
			if d.Active() {
				w.apply(&state.FailDeployment{ID: d.ID, Description: berth.DeploymentUserFailed, Now: now})
			}
		}
	case "stop":
		w.apply(&state.StopJob{Key: key, Purge: l.Has("purge"), Eval: w.seed(berth.TriggerJobDeregister), Now: now})
	default:
		w.t.Fatalf("what is %q?", l.Verb)
	}
	w.decide()
}

func (w *nodeWorld) node(name string) berth.NodeID {
	return statetest.ID[berth.Node](statetest.NodeNumber(w.t, name))
}

// fares reports of the newest allocation of a job, or of job.group, on a node.
func (w *nodeWorld) fares(name, node, status string) {
	w.t.Helper()
	job, group, _ := strings.Cut(name, ".")
	var newest *berth.Alloc
	for a := range w.snap.Allocs() {
		if string(a.Job.ID) == job && (group == "" || a.Group.Name == group) && a.NodeID == w.node(node) && !a.Ended() {
			newest = a
		}
	}
	if newest == nil {
		w.t.Fatalf("nothing of %s runs on %s", name, node)
	}
	u := state.AllocUpdate{ID: newest.ID}
	if err := u.Client.UnmarshalText([]byte(status)); err != nil {
		w.t.Fatal(err)
	}
	w.apply(&state.ReportAllocs{Node: newest.NodeID, Updates: []state.AllocUpdate{u}, Now: w.now.UnixNano()})
}

// decide decides the evaluations that are due, the oldest first.
func (w *nodeWorld) decide() {
	for {
		var due []*berth.Eval
		for e := range w.snap.OpenEvals(berth.EvalPending) {
			if e.WaitUntil <= w.now.UnixNano() {
				due = append(due, e)
			}
		}
		if len(due) == 0 {
			return
		}
		slices.SortFunc(due, func(a, b *berth.Eval) int {
			return cmp.Or(cmp.Compare(a.CreateIndex, b.CreateIndex), strings.Compare(string(a.JobID), string(b.JobID)))
		})
		w.decideOne(due[0])
	}
}

// retry looks again at what waits for room, in order of nodes.
func (w *nodeWorld) retry() {
	waits := slices.SortedFunc(w.snap.OpenEvals(berth.EvalBlocked), func(a, b *berth.Eval) int {
		return cmp.Or(strings.Compare(string(a.JobID), string(b.JobID)), strings.Compare(w.on(a.NodeID), w.on(b.NodeID)))
	})
	for _, e := range waits {
		if e = w.snap.Eval(e.ID); e.Status == berth.EvalBlocked {
			w.decideOne(e)
		}
	}
}

func (w *nodeWorld) decideOne(e *berth.Eval) {
	var said []string
	for attempt := range 5 {
		d := schedule.Decide(w.snap, e, attempt, w.now)
		if w.late { // it was decided on a state of long ago
			w.late = false
			d.Plan.End.SnapshotIndex = w.snap.Node(d.Plan.Place[0].NodeID).ModifyIndex - 1
		}
		before := w.snap
		w.apply(d.Plan)
		said = append(said, w.did(before, d.Plan)...)
		if len(d.Plan.Refused) == 0 {
			break
		}
		said = append(said, fmt.Sprintf("%d refused", len(d.Plan.Refused)))
	}
	said = append(said, w.ended(w.snap.Eval(e.ID))...)
	if said == nil {
		said = []string{"nothing to do"}
	}
	trigger := e.TriggeredBy
	if e.Status == berth.EvalBlocked {
		trigger += ", which waited,"
	}
	if !e.NodeID.IsZero() {
		trigger += " " + w.on(e.NodeID)
	}
	fmt.Fprintf(&w.out, "%s %s: %s\n", e.JobID, trigger, strings.Join(said, "; "))
}

func (w *nodeWorld) on(id berth.NodeID) string {
	if n := w.snap.Node(id); n != nil {
		return n.Name
	}
	return "a node that is gone"
}

// did says what a plan changed.
func (w *nodeWorld) did(before *state.Snapshot, p *state.ApplyPlan) (said []string) {
	found := map[string][]string{}
	var order []string
	say := func(what string, a *berth.Alloc) {
		name := fmt.Sprintf("%s on %s", a.Group.Name, w.on(a.NodeID))
		if a.Index > 0 {
			name = fmt.Sprintf("%s[%d] on %s", a.Group.Name, a.Index, w.on(a.NodeID))
		}
		if found[what] == nil {
			order = append(order, what)
		}
		found[what] = append(found[what], name)
	}
	for _, s := range p.Stop {
		now := w.snap.Alloc(s.ID)
		switch was := before.Alloc(s.ID); {
		case !s.FollowupEval.IsZero():
		case now.Client == berth.ClientUnknown && was.Client != now.Client:
			say("unknown", now)
		case now.Client == berth.ClientLost && was.Client != now.Client:
			say("lost, "+s.Description()+",", now)
		default:
			say("stopped, "+s.Description()+",", now)
		}
	}
	for _, id := range p.Update {
		say("updated", w.snap.Alloc(id))
	}
	for a := range w.snap.AllocsBy(p.Eval) {
		if before.Alloc(a.ID) == nil {
			what := "placed"
			if s := a.Rest().DeploymentStatus; s != nil && s.Canary {
				what = "placed as a canary"
			}
			if prev := a.Rest().Previous; !prev.IsZero() {
				what += " after another"
			}
			say(what, a)
		}
	}
	for _, what := range order {
		slices.Sort(found[what])
		said = append(said, what+" "+strings.Join(found[what], ", "))
	}
	return said
}

// ended says how an evaluation ended and what came of it.
func (w *nodeWorld) ended(e *berth.Eval) (said []string) {
	if e.Status != berth.EvalComplete {
		said = append(said, e.Status)
	}
	for _, g := range slices.Sorted(maps.Keys(e.FailedTGAllocs)) {
		m := e.FailedTGAllocs[g]
		why := append(slices.Sorted(maps.Keys(m.DimensionExhausted)), slices.Sorted(maps.Keys(m.ConstraintFiltered))...)
		if len(why) == 0 {
			why = []string{"there is no node"}
		}
		said = append(said, fmt.Sprintf("%d of %s find no place: %s", m.CoalescedFailures+1, g, strings.Join(why, ", ")))
	}
	var waits []string
	for b := range w.snap.OpenEvals(berth.EvalBlocked) {
		if b.PreviousEval == e.ID && b.CreateIndex == e.ModifyIndex {
			waits = append(waits, w.on(b.NodeID))
		}
	}
	if len(waits) > 0 {
		slices.Sort(waits)
		said = append(said, "waits for "+strings.Join(waits, ", "))
	}
	if next := w.snap.Eval(e.NextEval); next != nil && next.CreateIndex == e.ModifyIndex {
		said = append(said, fmt.Sprintf("%s in %s", next.TriggeredBy, time.Unix(0, next.WaitUntil).Sub(w.now)))
	}
	return said
}

// show lists what there is of a job.
func (w *nodeWorld) show(k berth.JobKey) {
	j, rows := w.snap.Job(k), []string{}
	for a := range w.snap.AllocsOf(k) {
		what := a.Client.String()
		if !a.Wanted() && !a.Ended() {
			what += ", to stop"
		}
		name := a.Group.Name
		if a.Index > 0 {
			name = fmt.Sprintf("%s[%d]", name, a.Index)
		}
		rows = append(rows, fmt.Sprintf("  %s %s v%d %s", w.on(a.NodeID), name, a.Job.Version, what))
	}
	slices.Sort(rows)
	status := "purged"
	var queued []string
	if j != nil {
		s := w.snap.Summary(k)
		status, _ = s.Status(j)
		for _, g := range s.Groups {
			if g.Queued > 0 {
				queued = append(queued, fmt.Sprintf("%d of %s queued", g.Queued, g.Group))
			}
		}
	}
	fmt.Fprintf(&w.out, "%s is %s\n", k.ID, strings.Join(append([]string{status}, queued...), ", "))
	for _, r := range rows {
		fmt.Fprintln(&w.out, r)
	}
	var waits []string
	for e := range w.snap.OpenEvalsOf(k, berth.EvalBlocked) {
		waits = append(waits, w.on(e.NodeID))
	}
	if len(waits) > 0 {
		slices.Sort(waits)
		fmt.Fprintf(&w.out, "  waits for %s\n", strings.Join(waits, ", "))
	}
}

// accountedPerNode checks that every node which lacks an instance has one
// placed, or is waited for with a reason.
func accountedPerNode(t *rapid.T, snap *state.Snapshot, job *berth.Job, d *schedule.Decision) {
	t.Helper()
	end, missing, short := d.Plan.End, 0, 0
	for _, c := range d.Counts {
		missing += c.Place
	}
	own := 0
	if end.Status == berth.EvalBlocked {
		for _, n := range end.Queued {
			own += n
		}
	}
	for _, w := range end.Nodes {
		for _, n := range w.Queued {
			short += n * len(w.Nodes)
		}
		for _, id := range w.Nodes {
			if n := snap.Node(id); n == nil || !n.Ready() {
				t.Fatalf("node %s is waited for and takes nothing", id)
			}
		}
		for g, m := range w.Failed {
			if w.Queued[g] != m.CoalescedFailures+1 || m.NodesExhausted != 1 || len(w.Missed.Dimensions) == 0 {
				t.Fatalf("%s: %d wait for one node, because %+v", g, w.Queued[g], m)
			}
		}
	}
	if apart := len(d.Plan.Place) + short + own; apart > missing || apart < missing && !keptApart(job) {
		t.Fatalf("%d are missing, %d placed, %d wait for other nodes and %d for this", missing, len(d.Plan.Place), short, own)
	}
}

// keptApart reports whether conditions may keep instances of a job from each
// other.
func keptApart(j *berth.Job) bool {
	apart := func(c berth.Constraint) bool {
		return c.Operand == berth.OpDistinctHosts || c.Operand == berth.OpDistinctProperty
	}
	return slices.ContainsFunc(j.Constraints, apart) ||
		slices.ContainsFunc(j.TaskGroups, func(g *berth.TaskGroup) bool { return slices.ContainsFunc(g.Constraints, apart) })
}
