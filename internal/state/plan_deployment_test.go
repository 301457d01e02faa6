package state_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"berth"
	"berth/internal/invariant"
	"berth/internal/state"
	"berth/internal/state/codec"
	"berth/internal/state/statetest"
)

// rollout is a cluster of two nodes and a service of two instances, whose plans
// are applied to a state and, read from the log, to another.
type rollout struct {
	t     *testing.T
	snap  *state.Snapshot
	other *state.Snapshot
	evals int
}

func newRollout(t *testing.T) *rollout {
	w := &rollout{t: t, snap: state.New().Snapshot(), other: state.New().Snapshot()}
	w.do(&state.RaiseLogVersion{To: codec.LogVersion})
	w.do(statetest.AddNode(1, 1000, 1000))
	w.do(statetest.AddNode(2, 1000, 1000))
	w.register(nil)
	return w
}

// do applies a command, and what the log holds of it to the other state.
func (w *rollout) do(c state.Command) error {
	w.t.Helper()
	tx := state.Begin(w.snap)
	if r := tx.Apply(c); r.Err != nil {
		return r.Err
	}
	batch := tx.End()
	cmds, err := state.DecodeEntry(codec.EncodeEntry(state.AppendCommand(nil, c)))
	if err != nil {
		w.t.Fatal(err)
	}
	again := state.Begin(w.other)
	for _, c := range cmds {
		if r := again.Apply(c); r.Err != nil {
			w.t.Fatalf("as read from the log: %v", r.Err)
		}
	}
	next := batch.Snapshot
	w.other = again.Seal()
	if next.Hash() != w.other.Hash() {
		w.t.Fatalf("%T: the log tells of another state", c)
	}
	for _, v := range append(invariant.Check(next), invariant.Changed(w.snap, batch.Changes)...) {
		w.t.Fatal(v)
	}
	w.snap = next
	return nil
}

// register registers a version of the service.
func (w *rollout) register(change func(*berth.Job)) {
	w.t.Helper()
	j := statetest.Job(w.t, `{"ID":"web","TaskGroups":[{"Name":"g","Count":2,"Resources":{"CPU":100,"MemoryMB":100}}]}`)
	if change != nil {
		change(j)
	}
	w.evals++
	if err := w.do(statetest.Register(j, w.evals)); err != nil {
		w.t.Fatal(err)
	}
}

var web = berth.JobKey{Namespace: berth.DefaultNamespace, ID: "web"}

func (w *rollout) job() *berth.Job { return w.snap.Job(web) }

// deployment is one of the newest version.
func (w *rollout) deployment(n, canaries int) *berth.Deployment {
	j := w.job()
	return &berth.Deployment{
		ID: statetest.ID[berth.Deployment](n), Namespace: j.Namespace, JobID: j.ID, JobUID: j.UID, JobVersion: j.Version, Status: berth.DeploymentRunning,
		TaskGroups: map[string]*berth.DeploymentState{"g": {DesiredTotal: 2, DesiredCanaries: canaries}},
	}
}

// plan applies a plan of the newest evaluation, which goes on unless it ends.
func (w *rollout) plan(p *state.ApplyPlan) error {
	w.t.Helper()
	p.Eval, p.JobVersion, p.Now = statetest.ID[berth.Eval](w.evals), w.job().Version, 100
	return w.do(p)
}

func (w *rollout) must(p *state.ApplyPlan) {
	w.t.Helper()
	if err := w.plan(p); err != nil {
		w.t.Fatal(err)
	}
	if len(p.Refused) > 0 {
		w.t.Fatalf("refused: %+v", p.Refused)
	}
}

func (w *rollout) allocs() []*berth.Alloc {
	return slices.Collect(w.snap.Allocs())
}

// A plan makes its deployment with its placements; they belong to it, and it
// counts them. The next plan's do, too.
func TestPlanDeploys(t *testing.T) {
	w := newRollout(t)
	w.must(&state.ApplyPlan{Deploy: w.deployment(1, 0), Place: []berth.Placement{{NodeID: node(1)}}})
	w.must(&state.ApplyPlan{Place: []berth.Placement{{Index: 1, NodeID: node(2)}}})
	d := w.snap.Deployment(statetest.ID[berth.Deployment](1))
	if s := d.TaskGroups["g"]; s.PlacedAllocs != 2 || len(s.PlacedCanaries) != 0 || d.CreateTime != 100 {
		t.Errorf("%+v", s)
	}
	for _, a := range w.allocs() {
		if a.Rest().DeploymentID != d.ID || a.Rest().DeploymentStatus != nil {
			t.Errorf("%s is of %+v", a.Name(), a.Rest())
		}
	}
	var saved bytes.Buffer
	if err := w.snap.Save(&saved); err != nil {
		t.Fatal(err)
	}
	loaded, err := state.Load(&saved)
	if err != nil || loaded.Hash() != w.snap.Hash() {
		t.Errorf("saved and loaded it is another: %v", err)
	}
}

// A newer version cancels the deployment, and what it carries over is of its
// own, unproven.
func TestPlanSupersedesDeployment(t *testing.T) {
	w := newRollout(t)
	w.must(&state.ApplyPlan{Deploy: w.deployment(1, 0), Place: []berth.Placement{{NodeID: node(1)}}})
	w.register(func(j *berth.Job) { j.Priority = 70 })
	err := w.plan(&state.ApplyPlan{Deploy: w.deployment(2, 0)})
	if err == nil || !strings.Contains(err.Error(), "which is running") {
		t.Errorf("a second deployment: %v", err)
	}
	w.must(&state.ApplyPlan{
		Deploy: w.deployment(2, 0), Update: []berth.AllocID{w.allocs()[0].ID},
		Deployed: &state.DeploymentChange{ID: statetest.ID[berth.Deployment](1), Status: berth.DeploymentCancelled, Description: berth.DeploymentJobReplaced},
	})
	first, second := w.snap.Deployment(statetest.ID[berth.Deployment](1)), w.snap.Deployment(statetest.ID[berth.Deployment](2))
	if first.Status != berth.DeploymentCancelled || first.StatusDescription != berth.DeploymentJobReplaced || second.TaskGroups["g"].PlacedAllocs != 1 {
		t.Errorf("%+v\n%+v", first, second)
	}
	if a := w.allocs()[0]; a.Rest().DeploymentID != second.ID {
		t.Errorf("carried over it is of %s", a.Rest().DeploymentID)
	}
	w.must(&state.ApplyPlan{Deployed: &state.DeploymentChange{ID: first.ID, Status: berth.DeploymentSuccessful}})
	if d := w.snap.Deployment(first.ID); d.Status != berth.DeploymentCancelled {
		t.Errorf("what was cancelled is %s", d.Status)
	}
}

// A canary shares the name with what it is to replace, and with nothing else;
// without a deployment that wants one there is none. What is lost beside it is
// replaced by its own version.
func TestPlanPlacesCanaries(t *testing.T) {
	w := newRollout(t)
	w.must(&state.ApplyPlan{Place: []berth.Placement{{NodeID: node(1)}, {Index: 1, NodeID: node(1)}}})
	old := w.allocs()[1]
	w.register(func(j *berth.Job) { j.TaskGroups[0].Tasks[0].Resources.CPU = 200 })
	p := &state.ApplyPlan{Place: []berth.Placement{{NodeID: node(2), Canary: true}}}
	if err := w.plan(p); err != nil || len(p.Refused) != 1 || p.Refused[0].Reason != "no deployment wants a canary" {
		t.Errorf("a canary of nothing: %v, %+v", err, p.Refused)
	}
	w.must(&state.ApplyPlan{Deploy: w.deployment(1, 1), Place: []berth.Placement{{NodeID: node(2), Canary: true}}})
	p = &state.ApplyPlan{Place: []berth.Placement{{NodeID: node(1), Canary: true}, {NodeID: node(1)}}}
	if err := w.plan(p); err != nil || len(p.Refused) != 2 {
		t.Errorf("a second canary of the name, and a second instance: %v, %+v", err, p.Refused)
	}
	w.must(&state.ApplyPlan{
		Stop:  []berth.AllocStop{{ID: old.ID, StopReason: berth.StopMigrated}},
		Place: []berth.Placement{{Index: 1, NodeID: node(2), Previous: old.ID, Before: true}},
	})
	all := w.allocs()
	canary, again := all[2], all[3]
	if s := canary.Rest().DeploymentStatus; s == nil || !s.Canary || canary.Job.Version != 1 {
		t.Errorf("the canary is %+v", canary.Rest())
	}
	if again.Job.Version != 0 || again.Group.Tasks[0].Resources.CPU != 100 || !again.Rest().DeploymentID.IsZero() {
		t.Errorf("the replacement is of version %d", again.Job.Version)
	}
	d := w.snap.Deployment(statetest.ID[berth.Deployment](1)).TaskGroups["g"]
	if d.PlacedAllocs != 1 || !slices.Equal(d.PlacedCanaries, []berth.AllocID{canary.ID}) {
		t.Errorf("%+v", d)
	}
}

// What no scheduler would say of a deployment is refused.
func TestPlanRefusesDeployments(t *testing.T) {
	w := newRollout(t)
	for what, change := range map[string]func(*berth.Deployment){
		"no ID":           func(d *berth.Deployment) { d.ID = berth.DeploymentID{} },
		"another job":     func(d *berth.Deployment) { d.JobID = "other" },
		"another version": func(d *berth.Deployment) { d.JobVersion = 7 },
		"not running":     func(d *berth.Deployment) { d.Status = berth.DeploymentPaused },
		"no groups":       func(d *berth.Deployment) { d.TaskGroups = nil },
	} {
		d := w.deployment(1, 0)
		change(d)
		if err := w.plan(&state.ApplyPlan{Deploy: d}); berth.KindOf(err) != berth.Invalid {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := w.plan(&state.ApplyPlan{Deployed: &state.DeploymentChange{ID: statetest.ID[berth.Deployment](1), Status: berth.DeploymentFailed}}); berth.KindOf(err) != berth.Invalid {
		t.Errorf("failed by a scheduler: %v", err)
	}
}

// A plan of a job that is all at once is committed whole or not at all: what
// does not fit keeps even its stops from being made.
func TestPlanAllAtOnce(t *testing.T) {
	w := newRollout(t)
	w.must(&state.ApplyPlan{Place: []berth.Placement{{NodeID: node(1)}}})
	w.register(func(j *berth.Job) { j.AllAtOnce, j.TaskGroups[0].Tasks[0].Resources.CPU = true, 600 })
	first := w.allocs()[0]
	hash := w.snap.Hash()
	p := &state.ApplyPlan{
		Stop:  []berth.AllocStop{{ID: first.ID, StopReason: berth.StopReplaced}},
		Place: []berth.Placement{{NodeID: node(2), Previous: first.ID}, {Index: 1, NodeID: node(2)}},
		End:   &state.EvalEnd{Status: berth.EvalComplete},
	}
	if err := w.plan(p); err != nil || len(p.Refused) != 1 || p.Refused[0].Placement != 1 {
		t.Fatalf("%v, %+v", err, p.Refused)
	}
	if len(w.allocs()) != 1 || !w.allocs()[0].Wanted() || w.snap.Eval(p.Eval).Terminal() {
		t.Errorf("something was done: %x, before %x", w.snap.Hash(), hash)
	}
	w.must(&state.ApplyPlan{
		Stop:  []berth.AllocStop{{ID: first.ID, StopReason: berth.StopReplaced}},
		Place: []berth.Placement{{NodeID: node(2), Previous: first.ID}, {Index: 1, NodeID: node(1)}},
		End:   &state.EvalEnd{Status: berth.EvalComplete},
	})
	if len(w.allocs()) != 3 || w.allocs()[0].Wanted() {
		t.Errorf("%d allocations", len(w.allocs()))
	}
}

// An evaluation names the deployment of the version that it decided on: the one
// that its plan creates, one that existed, and one that has ended. So does the
// blocked evaluation for what found no node. A stopped job deploys nothing.
func TestEvaluationsNameTheirDeployment(t *testing.T) {
	w := newRollout(t)
	first, second := statetest.ID[berth.Deployment](1), statetest.ID[berth.Deployment](2)
	ends := func(p *state.ApplyPlan) *berth.Eval {
		t.Helper()
		p.End = &state.EvalEnd{Status: berth.EvalComplete}
		w.must(p)
		return w.snap.Eval(p.Eval)
	}
	again := func() {
		t.Helper()
		w.evals++
		seed := state.EvalSeed{ID: statetest.ID[berth.Eval](w.evals), TriggeredBy: berth.TriggerJobRegister, Cause: berth.Cause{Kind: berth.CauseUser}}
		if err := w.do(&state.EvaluateJob{Key: web, Eval: seed, Now: 100}); err != nil {
			t.Fatal(err)
		}
	}
	if e := w.snap.Eval(statetest.ID[berth.Eval](1)); !e.DeploymentID.IsZero() {
		t.Errorf("before it is decided: %s", e.DeploymentID)
	}
	if e := ends(&state.ApplyPlan{Deploy: w.deployment(1, 0), Place: []berth.Placement{{NodeID: node(1)}}}); e.DeploymentID != first {
		t.Errorf("it created the deployment: %s", e.DeploymentID)
	}
	again()
	if e := ends(&state.ApplyPlan{Place: []berth.Placement{{Index: 1, NodeID: node(2)}}}); e.DeploymentID != first {
		t.Errorf("it continued the deployment: %s", e.DeploymentID)
	}
	again()
	if e := ends(&state.ApplyPlan{Deployed: &state.DeploymentChange{ID: first, Status: berth.DeploymentSuccessful}}); e.DeploymentID != first {
		t.Errorf("it ended the deployment: %s", e.DeploymentID)
	}
	again()
	if e := ends(&state.ApplyPlan{}); e.DeploymentID != first {
		t.Errorf("its version was deployed before: %s", e.DeploymentID)
	}
	w.register(func(j *berth.Job) { j.Priority = 70 })
	if e := ends(&state.ApplyPlan{}); !e.DeploymentID.IsZero() {
		t.Errorf("a version without a deployment: %s", e.DeploymentID)
	}
	again()
	p := &state.ApplyPlan{Deploy: w.deployment(2, 0), Eval: statetest.ID[berth.Eval](w.evals), JobVersion: w.job().Version, Now: 100, End: &state.EvalEnd{
		Status: berth.EvalComplete, Failed: map[string]*berth.AllocMetric{"g": {}}, Missed: &berth.Missed{Escaped: true},
		Blocked: &state.NewEval{ID: statetest.ID[berth.Eval](100), TriggeredBy: berth.TriggerQueuedAllocs},
	}}
	if err := w.do(p); err != nil {
		t.Fatal(err)
	}
	if e, b := w.snap.Eval(p.Eval), w.snap.Eval(p.End.Blocked.ID); e.DeploymentID != second || b.DeploymentID != second {
		t.Errorf("%s and the one that it left blocked: %s", e.DeploymentID, b.DeploymentID)
	}
	stop := &state.StopJob{Key: web, Eval: state.EvalSeed{ID: statetest.ID[berth.Eval](w.evals + 1), TriggeredBy: berth.TriggerJobDeregister, Cause: berth.Cause{Kind: berth.CauseUser}}, Now: 100}
	if err := w.do(stop); err != nil {
		t.Fatal(err)
	}
	w.evals++
	if e := ends(&state.ApplyPlan{}); !e.DeploymentID.IsZero() {
		t.Errorf("the job was stopped: %s", e.DeploymentID)
	}
}
