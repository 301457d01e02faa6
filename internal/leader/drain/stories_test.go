package drain_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/invariant"
	"berth/internal/leader/drain"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// A story says what happens in a cluster and shows what the controller does
// about it, when the step after its own commands, which must do nothing, wants
// to look again, and which nodes are done.
//
//	node n1                        a node, see statetest.NodesOf
//	job web count=3 …              a job, see statetest.JobOf
//	stop job web | purge job web
//	a1 web g[0] n1 [after a0] [old] [canary] [pending]   an allocation is placed, and runs if not said
//	                               otherwise; what it follows is stopped unless it starts first. It is
//	                               of the newest version, or of that of what it follows, or a canary
//	promote web | fail web         what becomes of the deployment that the first canary began
//	a1 running | complete | failed | healthy | unhealthy | unknown   how it fares now
//	stop a1                        the scheduler stops it
//	decided web                    every evaluation of the job has ended
//	drain n1 deadline=1h ignore-system | force
//	end n1 [eligible]              the operator ends the drain
//	n1 down | disconnected | ready
//	after 10s                      time passes
//	restart                        another leader begins, who knows the state alone
func TestStories(t *testing.T) {
	statetest.Stories(t, "testdata/*.txt", func(t *testing.T) func(input string) string {
		w := newWorld(t)
		return func(input string) string {
			for _, l := range statetest.Lines(t, input) {
				w.line(l)
			}
			return w.step()
		}
	})
}

// noon is when the stories begin.
var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

type world struct {
	t      *testing.T
	store  *state.Store
	log    *statetest.Log
	c      *drain.Controller
	now    time.Time
	allocs map[string]berth.AllocID
	evals  int
}

func newWorld(t *testing.T) *world {
	store, log := statetest.New(t, &state.BeginTerm{Term: 1})
	return &world{t: t, store: store, log: log, c: drain.New([32]byte{1}), now: noon, allocs: map[string]berth.AllocID{}}
}

func (w *world) line(l *statetest.Line) {
	w.t.Helper()
	id := func() berth.NodeID { return statetest.ID[berth.Node](statetest.NodeNumber(w.t, l.Word(0))) }
	switch {
	case l.Verb == "node", l.Verb == "nodes":
		for _, n := range statetest.NodesOf(w.t, l) {
			w.do(&state.RegisterNode{Node: n, Now: w.now.UnixNano()})
		}
		return
	case l.Verb == "job":
		j := statetest.JobOf(w.t, l)
		w.evals++
		c := statetest.Register(j, w.evals)
		c.Now = w.now.UnixNano()
		w.do(c)
		return
	case l.Word(0) == "job":
		w.evals++
		w.do(&state.StopJob{
			Key: key(l.Word(1)), Purge: l.Verb == "purge", Now: w.now.UnixNano(),
			Eval: state.EvalSeed{ID: statetest.ID[berth.Eval](w.evals), TriggeredBy: berth.TriggerJobDeregister, Cause: berth.Cause{Kind: berth.CauseUser}},
		})
	case l.Verb == "drain":
		spec := &berth.DrainSpec{Deadline: l.Duration(w.t, "deadline", 0), IgnoreSystemJobs: l.Has("ignore-system")}
		if l.Has("force") {
			spec.Deadline = -1
		}
		w.do(&state.UpdateDrain{ID: id(), Spec: spec, Now: w.now.UnixNano()})
	case l.Verb == "end":
		w.do(&state.UpdateDrain{ID: id(), MarkEligible: l.Has("eligible"), Now: w.now.UnixNano()})
	case l.Verb == "after":
		d, err := time.ParseDuration(l.Word(0))
		if err != nil {
			w.t.Fatal(err)
		}
		w.now = w.now.Add(d)
	case l.Verb == "restart":
		w.c = drain.New([32]byte{2})
	case l.Verb == "decided":
		for e := range w.store.Snapshot().EvalsOf(key(l.Word(0))) {
			if !e.Terminal() {
				w.do(&state.ApplyPlan{Eval: e.ID, End: &state.EvalEnd{Status: berth.EvalComplete}, Now: w.now.UnixNano()})
			}
		}
	case l.Verb == "promote":
		w.do(&state.PromoteDeployment{ID: w.deployment(key(l.Word(0))).ID, Now: w.now.UnixNano()})
	case l.Verb == "fail":
		w.do(&state.FailDeployment{ID: w.deployment(key(l.Word(0))).ID, Description: berth.DeploymentUserFailed, Now: w.now.UnixNano()})
	case l.Verb == "stop":
		w.stop(l.Word(0), berth.StopMigrated, berth.ClientPending)
	case strings.HasPrefix(l.Verb, "n"):
		w.do(&state.SetNodeStatus{ID: statetest.ID[berth.Node](statetest.NodeNumber(w.t, l.Verb)), Status: l.Word(0), Now: w.now.UnixNano()})
	case len(l.Words) > 1:
		w.place(l)
	default:
		w.fare(l.Verb, l.Word(0))
	}
	l.Done(w.t)
}

func key(job string) berth.JobKey {
	return berth.JobKey{Namespace: berth.DefaultNamespace, ID: berth.JobID(job)}
}

func (w *world) do(c state.Command) {
	w.t.Helper()
	w.log.Must(w.t, c)
}

// place makes an allocation, as a scheduler's plan would.
func (w *world) place(l *statetest.Line) {
	w.t.Helper()
	j := w.store.Snapshot().Job(key(l.Word(0)))
	group, index := "", uint32(0)
	fmt.Sscanf(strings.NewReplacer("[", " ", "]", "").Replace(l.Word(1)), "%s %d", &group, &index)
	p := berth.Placement{
		Group: slices.IndexFunc(j.TaskGroups, func(g *berth.TaskGroup) bool { return g.Name == group }), Index: index,
		NodeID: statetest.ID[berth.Node](statetest.NodeNumber(w.t, l.Word(2))),
	}
	c := w.plan(j.Key())
	if l.Word(3) == "after" {
		p.Previous = w.allocs[l.Word(4)]
		if !j.TaskGroups[p.Group].Migration().StartFirst {
			c.Stop = []berth.AllocStop{{ID: p.Previous, StopReason: berth.StopMigrated}}
		}
	}
	if p.Before, p.Canary = l.Has("old"), l.Has("canary"); p.Canary && w.deployment(j.Key()) == nil {
		c.Deploy = &berth.Deployment{
			ID: statetest.ID[berth.Deployment](w.evals), Namespace: j.Namespace, JobID: j.ID, JobUID: j.UID, JobVersion: j.Version,
			Status: berth.DeploymentRunning, TaskGroups: map[string]*berth.DeploymentState{
				group: {DesiredTotal: j.TaskGroups[p.Group].Count, DesiredCanaries: j.TaskGroups[p.Group].Count},
			},
		}
	}
	c.Place, c.JobVersion = []berth.Placement{p}, j.Version
	w.do(c)
	if len(c.Refused) > 0 {
		w.t.Fatalf("%s: %+v", l, c.Refused)
	}
	for a := range w.store.Snapshot().AllocsOf(j.Key()) {
		if a.CreateIndex == w.store.Snapshot().Index {
			w.allocs[l.Verb] = a.ID
		}
	}
	if !l.Has("pending") {
		w.fare(l.Verb, "running")
	}
}

// deployment returns the newest deployment of a job, or nil.
func (w *world) deployment(k berth.JobKey) *berth.Deployment {
	return w.store.Snapshot().NewestDeployment(k, w.store.Snapshot().Job(k).UID)
}

// plan returns a plan for a job, of an evaluation of its own.
func (w *world) plan(k berth.JobKey) *state.ApplyPlan {
	w.t.Helper()
	w.evals++
	e := statetest.ID[berth.Eval](w.evals)
	if w.store.Snapshot().Job(k) != nil {
		w.do(&state.CreateEvals{Now: w.now.UnixNano(), Evals: []state.EvalFor{{Key: k, EvalSeed: state.EvalSeed{
			ID: e, TriggeredBy: berth.TriggerJobRegister, Cause: berth.Cause{Kind: berth.CauseUser},
		}}}})
	} else {
		for x := range w.store.Snapshot().Evals() {
			if x.Key() == k && !x.Terminal() {
				e = x.ID
			}
		}
	}
	return &state.ApplyPlan{Eval: e, Now: w.now.UnixNano()}
}

func (w *world) stop(name string, why berth.StopReason, client berth.ClientStatus) {
	w.t.Helper()
	a := w.alloc(name)
	c := w.plan(a.Key())
	c.Stop = []berth.AllocStop{{ID: a.ID, StopReason: why, Client: client}}
	w.do(c)
}

func (w *world) alloc(name string) *berth.Alloc {
	w.t.Helper()
	a := w.store.Snapshot().Alloc(w.allocs[name])
	if a == nil {
		w.t.Fatalf("there is no allocation %s", name)
	}
	return a
}

// fare lets the agent, or for what is unknown the scheduler, say how an
// allocation fares.
func (w *world) fare(name, how string) {
	w.t.Helper()
	a := w.alloc(name)
	u := state.AllocUpdate{ID: a.ID, Client: a.Client}
	switch how {
	case "unknown":
		w.stop(name, berth.UnknownAway, berth.ClientUnknown)
		return
	case "healthy", "unhealthy":
		ok := how == "healthy"
		u.Deployment = &berth.AllocDeploymentStatus{Healthy: &ok, Timestamp: w.now}
	default:
		if err := u.Client.UnmarshalText([]byte(how)); err != nil {
			w.t.Fatal(err)
		}
	}
	w.do(&state.ReportAllocs{Node: a.NodeID, Updates: []state.AllocUpdate{u}, Now: w.now.UnixNano()})
}

// step lets the controller do what it wants, and then nothing.
func (w *world) step() string {
	w.t.Helper()
	var out strings.Builder
	do, again := w.c.Step(w.store.Snapshot(), w.now)
	for _, c := range do {
		fmt.Fprintln(&out, w.show(c))
		c.(interface{ Stamp(uint64) }).Stamp(1)
		w.do(c)
	}
	for _, v := range invariant.Check(w.store.Snapshot()) {
		w.t.Error(v)
	}
	more, then := w.c.Step(w.store.Snapshot(), w.now)
	if len(more) > 0 {
		w.t.Errorf("after its own commands it wants %s", w.show(more[0]))
	}
	// Another leader finds the same.
	fresh, at := drain.New([32]byte{3}).Step(w.store.Snapshot(), w.now)
	if len(fresh) > 0 || !at.Equal(then) {
		w.t.Errorf("a leader that begins wants %d commands, and to look again at %s, not %s", len(fresh), at, then)
	}
	if len(do) == 0 && !again.Equal(then) {
		w.t.Errorf("without a change it looks again at %s, then at %s", again, then)
	}
	if !then.IsZero() {
		fmt.Fprintf(&out, "again in %s\n", then.Sub(w.now))
	}
	if out.Len() == 0 {
		return "nothing\n"
	}
	return out.String()
}

func (w *world) show(c state.Command) string {
	node := func(id berth.NodeID) string { return w.store.Snapshot().Node(id).Name }
	switch c := c.(type) {
	case *state.MigrateAllocs:
		verb := "move"
		if c.Stop {
			verb = "stop"
		}
		var names []string
		for _, id := range c.Allocs {
			for name, x := range w.allocs {
				if x == id {
					names = append(names, name)
				}
			}
		}
		return fmt.Sprintf("%s %s from %s", verb, strings.Join(names, " "), node(c.Node))
	case *state.FinishDrain:
		return node(c.ID) + " is done"
	}
	return fmt.Sprintf("%T", c)
}
