package schedule_test

import (
	"testing"
	"time"

	"berth"
	"berth/internal/invariant"
	"berth/internal/schedule"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// gradual is a cluster whose decisions are made and applied as evaluations
// come.
type gradual struct {
	t     *testing.T
	snap  *state.Snapshot
	evals int
}

func (w *gradual) apply(c state.Command) {
	w.t.Helper()
	tx := state.Begin(w.snap)
	if r := tx.Apply(c); r.Err != nil {
		w.t.Fatalf("%T: %v", c, r.Err)
	}
	batch := tx.End()
	for _, v := range append(invariant.Check(batch.Snapshot), invariant.Changed(w.snap, batch.Changes)...) {
		w.t.Fatalf("%T: %s", c, v)
	}
	w.snap = batch.Snapshot
}

// decide decides an evaluation of the job, a new one if none is open.
func (w *gradual) decide(j *berth.Job) *state.ApplyPlan {
	w.t.Helper()
	w.evals++
	id := statetest.ID[berth.Eval](w.evals)
	if w.snap.Eval(id) == nil {
		w.apply(&state.CreateEvals{Now: int64(w.evals), Evals: []state.EvalFor{{
			EvalSeed: state.EvalSeed{ID: id, TriggeredBy: berth.TriggerDeploymentWatcher, Cause: berth.Cause{Kind: berth.CauseSystem}}, Key: j.Key(),
		}}})
	}
	d := schedule.Decide(w.snap, w.snap.Eval(id), 0, time.Unix(1000, int64(w.evals)))
	w.apply(d.Plan)
	if len(d.Plan.Refused) > 0 {
		w.t.Fatalf("refused: %+v", d.Plan.Refused)
	}
	return d.Plan
}

// agents bring all that should run to health and end what should not.
func (w *gradual) agents() {
	w.t.Helper()
	for n := range w.snap.Nodes() {
		r := &state.ReportAllocs{Node: n.ID, Now: int64(w.evals)}
		for a := range w.snap.AllocsOn(n.ID) {
			u := state.AllocUpdate{ID: a.ID, Client: berth.ClientRunning}
			if !a.Wanted() {
				u.Client = berth.ClientComplete
			} else if !a.Rest().DeploymentID.IsZero() {
				s := berth.AllocDeploymentStatus{Healthy: new(true)}
				if was := a.Rest().DeploymentStatus; was != nil {
					s.Canary = was.Canary
				}
				u.Deployment = &s
			}
			r.Updates = append(r.Updates, u)
		}
		if len(r.Updates) > 0 {
			w.apply(r)
		}
	}
}

func (w *gradual) register(cpu, canary int) *berth.Job {
	w.t.Helper()
	j := statetest.Job(w.t, `{"ID":"web","TaskGroups":[{"Name":"g","Count":5}]}`)
	g := *j.TaskGroups[0]
	task := *g.Tasks[0]
	task.Resources = &berth.Resources{CPU: cpu, MemoryMB: 100}
	g.Tasks = []*berth.Task{&task}
	g.Update = &berth.UpdateStrategy{MaxParallel: 2, Canary: canary, ProgressDeadline: time.Minute}
	j.TaskGroups = []*berth.TaskGroup{&g}
	w.apply(statetest.Register(j, w.evals+1))
	return w.snap.Job(j.Key())
}

func (w *gradual) deployment(j *berth.Job) (newest *berth.Deployment) {
	for d := range w.snap.DeploymentsOf(j.Key()) {
		if newest == nil || d.CreateIndex > newest.CreateIndex {
			newest = d
		}
	}
	return newest
}

// An update goes in steps of max_parallel, each when the one before is
// healthy, and its deployment ends as successful; its counts are what a recount
// finds.
func TestUpdateGoesInSteps(t *testing.T) {
	w := &gradual{t: t, snap: state.New().Snapshot()}
	for n := range 3 {
		w.apply(statetest.AddNode(n+1, 4000, 4000))
	}
	j := w.register(100, 0)
	if p := w.decide(j); len(p.Place) != 5 {
		t.Fatalf("%d are placed at first", len(p.Place))
	}
	w.agents()
	w.decide(j)
	first := w.deployment(j)
	if first.Status != berth.DeploymentSuccessful {
		t.Fatalf("the first deployment is %s", first.Status)
	}
	j = w.register(200, 0)
	for step, want := range []int{2, 0, 2, 1, 0} {
		p := w.decide(j)
		if len(p.Place) != want {
			t.Fatalf("step %d places %d, not %d", step, len(p.Place), want)
		}
		if step > 0 { // before, nobody reported
			w.agents()
		}
	}
	w.decide(j)
	d := w.deployment(j)
	placed := 0
	for a := range w.snap.AllocsOf(j.Key()) {
		if a.Rest().DeploymentID == d.ID {
			placed++
		}
	}
	if d.ID == first.ID || d.Status != berth.DeploymentSuccessful || d.TaskGroups["g"].PlacedAllocs != placed || placed != 5 {
		t.Errorf("%d were placed: %+v %+v", placed, d, d.TaskGroups["g"])
	}
}

// Beside canaries what is lost is placed again as the version that it was of,
// in the same plan as other work of the newest.
func TestCanariesRunBeside(t *testing.T) {
	w := &gradual{t: t, snap: state.New().Snapshot()}
	for n := range 3 {
		w.apply(statetest.AddNode(n+1, 4000, 4000))
	}
	j := w.register(100, 2)
	w.decide(j)
	w.agents()
	w.decide(j)
	j = w.register(200, 2)
	p := w.decide(j)
	if len(p.Place) != 2 || !p.Place[0].Canary || len(p.Stop) != 0 {
		t.Fatalf("%+v, stops %+v", p.Place, p.Stop)
	}
	w.agents()
	var down berth.NodeID
	for a := range w.snap.AllocsOf(j.Key()) {
		if a.Rest().DeploymentStatus != nil && a.Rest().DeploymentStatus.Canary {
			down = a.NodeID
		}
	}
	w.apply(&state.SetNodeStatus{ID: down, Status: berth.NodeDown, Now: 1, Seed: statetest.ID[berth.Eval](500)})
	p = w.decide(j)
	for _, x := range p.Place {
		if prev := w.snap.Alloc(x.Previous); x.Before == x.Canary || prev == nil || (prev.Job.Version == 0) != x.Before {
			t.Errorf("%+v", x)
		}
	}
	old, canaries := 0, 0
	for a := range w.snap.AllocsOf(j.Key()) {
		switch {
		case !a.Live():
		case a.Job.Version == 0:
			old++
		default:
			canaries++
		}
	}
	if old != 5 || canaries != 2 {
		t.Errorf("%d of the old version run and %d canaries", old, canaries)
	}
}
