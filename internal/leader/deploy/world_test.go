package deploy_test

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"berth"
	"berth/internal/invariant"
	"berth/internal/leader/deploy"
	"berth/internal/schedule"
	"berth/internal/state"
	"berth/internal/state/codec"
	"berth/internal/state/statetest"
)

// tester is a test, or one draw of a property.
type tester interface {
	Helper()
	Fatalf(string, ...any)
}

// world is a cluster in which the controller and the schedulers do at once what
// there is to do, and agents say what they are told to.
type world struct {
	t     tester
	snap  *state.Snapshot
	other *state.Snapshot // of a server that reads the log
	watch *deploy.Controller
	now   time.Time
	again time.Time
	evals int
	seeds int
	kind  string // of the jobs that a property registers
	steps int    // evaluations that the controller asked for
}

func newWorld(t tester) *world {
	return &world{t: t, snap: state.New().Snapshot(), other: state.New().Snapshot(), watch: deploy.New(), now: time.Unix(1_000_000, 0).UTC()}
}

// try applies a command, and checks what must hold of it.
func (w *world) try(c state.Command) error {
	w.t.Helper()
	tx := state.Begin(w.snap)
	if r := tx.Apply(c); r.Err != nil {
		return r.Err
	}
	batch := tx.End()
	for _, v := range slices.Concat(invariant.Check(batch.Snapshot), invariant.Changed(w.snap, batch.Changes), invariant.Between(w.snap, batch.Snapshot)) {
		w.t.Fatalf("%T: %s", c, v)
	}
	w.snap = batch.Snapshot
	cmds, err := state.DecodeEntry(codec.EncodeEntry(state.AppendCommand(nil, c)))
	if err != nil {
		w.t.Fatalf("%T: %v", c, err)
	}
	reader := state.Begin(w.other)
	if r := reader.Apply(cmds[0]); r.Err != nil {
		w.t.Fatalf("%T, as the log has it: %v", c, r.Err)
	}
	w.other = reader.Seal()
	return nil
}

// agree checks that who reads the log, and who loads what is saved, has the
// same state.
func (w *world) agree() {
	w.t.Helper()
	var saved bytes.Buffer
	if err := w.snap.Save(&saved); err != nil {
		w.t.Fatalf("%v", err)
	}
	loaded, err := state.Load(&saved)
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	if h := w.snap.Hash(); h != w.other.Hash() || h != loaded.Hash() || loaded.CountActiveDeployments() != w.snap.CountActiveDeployments() {
		w.t.Fatalf("the states differ: %x, from the log %x, loaded %x", h, w.other.Hash(), loaded.Hash())
	}
}

func (w *world) apply(c state.Command) {
	w.t.Helper()
	if err := w.try(c); err != nil {
		w.t.Fatalf("%T: %v", c, err)
	}
}

func (w *world) ns() int64 { return w.now.UnixNano() }

// settle lets the controller and the schedulers work until there is nothing to
// do at this time.
func (w *world) settle() {
	w.t.Helper()
	for range 1000 {
		busy := false
		for e := range w.snap.OpenEvals(berth.EvalPending) {
			if e.WaitUntil <= w.ns() {
				w.apply(schedule.Decide(w.snap, e, 0, w.now).Plan)
				busy = true
				break
			}
		}
		if busy {
			continue
		}
		var do []state.Command
		do, w.again = w.watch.Step(w.snap, w.now)
		if len(do) == 0 {
			return
		}
		for _, c := range do {
			if s, ok := c.(*state.StepDeployments); ok {
				w.steps += len(s.IDs)
			}
			w.apply(c)
		}
		if do, _ := w.watch.Step(w.snap, w.now); len(do) > 0 {
			w.t.Fatalf("after its own commands it wants %T", do[0])
		}
	}
	w.t.Fatalf("there is always more to do")
}

// pass lets time go by; what is due is done at its time.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	end := w.now.Add(d)
	for w.settle(); ; w.settle() {
		next := end
		if w.again.After(w.now) && w.again.Before(next) {
			next = w.again
		}
		for e := range w.snap.OpenEvals(berth.EvalPending) {
			if at := time.Unix(0, e.WaitUntil); at.After(w.now) && at.Before(next) {
				next = at
			}
		}
		if w.now = next; next.Equal(end) {
			w.settle()
			return
		}
	}
}

// agents tell of what they have: that it runs, or has ended because it should.
func (w *world) agents(health func(*berth.Alloc) *bool) {
	w.t.Helper()
	for n := range w.snap.Nodes() {
		r := &state.ReportAllocs{Node: n.ID, Now: w.ns()}
		for a := range w.snap.AllocsOn(n.ID) {
			u := state.AllocUpdate{ID: a.ID, Client: berth.ClientRunning}
			switch ok := health(a); {
			case a.Ended():
				continue
			case !a.Wanted():
				u.Client = berth.ClientComplete
			case ok != nil:
				u.Deployment = &berth.AllocDeploymentStatus{Healthy: ok, Timestamp: w.now}
			}
			r.Updates = append(r.Updates, u)
		}
		slices.SortFunc(r.Updates, func(a, b state.AllocUpdate) int { return strings.Compare(a.ID.String(), b.ID.String()) })
		if len(r.Updates) > 0 {
			w.apply(r)
		}
	}
}

// of returns the newest deployment of a job.
func (w *world) of(job string) *berth.Deployment {
	k := berth.JobKey{Namespace: berth.DefaultNamespace, ID: berth.JobID(job)}
	j := w.snap.Job(k)
	if j == nil {
		return nil
	}
	return w.snap.NewestDeployment(k, j.UID)
}

func (w *world) register(j *berth.Job) {
	w.t.Helper()
	w.evals++
	c := statetest.Register(j, w.evals)
	c.Now = w.ns()
	w.apply(c)
}

// show tells how a job and its newest deployment fare.
func (w *world) show(job string) string {
	var b strings.Builder
	k := berth.JobKey{Namespace: berth.DefaultNamespace, ID: berth.JobID(job)}
	j := w.snap.Job(k)
	if j == nil {
		return fmt.Sprintf("%s is gone, with %d deployments\n", job, w.snap.Count(state.Deployments))
	}
	stable := ""
	for v := range w.snap.JobVersions(k) {
		if v.Stable {
			stable += fmt.Sprintf(" %d", v.Version)
		}
	}
	fmt.Fprintf(&b, "%s v%d, stable:%s\n", job, j.Version, cmp.Or(stable, " none"))
	if d := w.of(job); d == nil {
		b.WriteString("no deployment\n")
	} else {
		fmt.Fprintf(&b, "deployment of v%d: %s: %s\n", d.JobVersion, d.Status, d.StatusDescription)
		for _, g := range j.TaskGroups {
			s := d.TaskGroups[g.Name]
			if s == nil {
				continue
			}
			fmt.Fprintf(&b, "  %s: %d wanted, %d placed, %d healthy, %d unhealthy", g.Name, s.DesiredTotal, s.PlacedAllocs, s.HealthyAllocs, s.UnhealthyAllocs)
			if s.DesiredCanaries > 0 {
				fmt.Fprintf(&b, ", %d canaries, promoted %v", s.DesiredCanaries, s.Promoted)
			}
			if !s.RequireProgressBy.IsZero() && d.Active() {
				fmt.Fprintf(&b, ", by %v", s.RequireProgressBy.Sub(w.now))
			}
			b.WriteString("\n")
		}
	}
	var live []*berth.Alloc
	for a := range w.snap.AllocsOf(k) {
		if a.Live() {
			live = append(live, a)
		}
	}
	slices.SortFunc(live, func(a, b *berth.Alloc) int {
		return cmp.Or(strings.Compare(a.Group.Name, b.Group.Name), strings.Compare(w.on(a), w.on(b)), cmp.Compare(a.Index, b.Index), cmp.Compare(a.CreateIndex, b.CreateIndex))
	})
	for _, a := range live {
		if a.Job.PerNode() {
			fmt.Fprintf(&b, "  %s on %s v%d%s\n", a.Group.Name, w.on(a), a.Job.Version, healthOf(a))
			continue
		}
		fmt.Fprintf(&b, "  %s[%d] v%d%s\n", a.Group.Name, a.Index, a.Job.Version, healthOf(a))
	}
	return b.String()
}

// on names the node of an instance that belongs to it.
func (w *world) on(a *berth.Alloc) string {
	if !a.Job.PerNode() {
		return ""
	}
	return w.snap.Node(a.NodeID).Name
}

func healthOf(a *berth.Alloc) (out string) {
	s := a.Rest().DeploymentStatus
	switch {
	case s == nil || s.Healthy == nil:
	case *s.Healthy:
		out = " healthy"
	default:
		out = " unhealthy"
	}
	if s != nil && s.Canary {
		out += " canary"
	}
	return out
}
