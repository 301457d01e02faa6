package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"berth"
	"berth/internal/invariant"
	"berth/op"

	nomad "github.com/hashicorp/nomad/api"
)

// puppet is a node that does what it is told: what it is to run runs, what it is
// to stop has ended, when it is let.
type puppet struct {
	*node
	stop func()

	mu    sync.Mutex
	stubs bool // what is to stop goes on
}

func (r *running) puppet(n int) *puppet {
	x := &puppet{node: r.node(n)}
	ctx, cancel := context.WithCancel(r.t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		told := map[berth.AllocID]berth.ClientStatus{}
		for ctx.Err() == nil {
			x.work(ctx, told)
			select {
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	var once sync.Once
	x.stop = func() { once.Do(func() { cancel(); done.Wait() }) }
	r.t.Cleanup(x.stop)
	return x
}

// work asks what there is to do, and says what was done.
func (x *puppet) work(ctx context.Context, told map[berth.AllocID]berth.ClientStatus) {
	var list op.NodeAllocIndexesAnswer
	if x.session.Call(ctx, "Node.GetClientAllocs", &op.NodeAllocIndexes{NodeID: x.ID, SecretID: x.SecretID}, &list) != nil || len(list.Allocs) == 0 {
		return
	}
	var ids []string
	for id := range list.Allocs {
		ids = append(ids, id)
	}
	var got op.GetAllocsAnswer
	if x.session.Call(ctx, "Alloc.GetAllocs", &op.GetAllocs{AllocIDs: ids, SecretID: x.SecretID}, &got) != nil {
		return
	}
	x.mu.Lock()
	stubborn := x.stubs
	x.mu.Unlock()
	report := op.ReportAllocs{Write: op.Write{AuthToken: x.SecretID}}
	for _, a := range got.Allocs {
		is := berth.ClientRunning
		switch {
		case a.ClientStatus.Ended():
			continue
		case a.DesiredStatus != berth.DesiredRun && !stubborn:
			is = berth.ClientComplete
		}
		if was, ok := told[a.ID]; !ok || was != is {
			told[a.ID] = is
			report.Alloc = append(report.Alloc, &op.AllocReport{ID: a.ID, NodeID: x.ID, ClientStatus: is})
		}
	}
	if len(report.Alloc) > 0 {
		_ = x.session.Call(ctx, "Node.UpdateAlloc", &report, &op.WriteAnswer{})
	}
}

func (x *puppet) stubborn(yes bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.stubs = yes
}

// moving is a service that is up soon after it runs.
func moving(id string, count, parallel int, healthy time.Duration) *nomad.Job {
	j := sleeper(id, count)
	how, deadline := "task_states", time.Minute
	j.Migrate = &nomad.MigrateStrategy{MaxParallel: &parallel, HealthCheck: &how, MinHealthyTime: &healthy, HealthyDeadline: &deadline}
	return j
}

func (r *running) drain(x *puppet, spec *nomad.DrainSpec) {
	r.t.Helper()
	if _, err := r.api.Nodes().UpdateDrainOpts(x.ID.String(), &nomad.DrainOptions{DrainSpec: spec, Meta: map[string]string{"message": "for a test"}}, nil); err != nil {
		r.t.Fatal(err)
	}
}

func (r *running) info(x *puppet) *nomad.Node {
	r.t.Helper()
	return must[*nomad.Node, *nomad.QueryMeta](r.t)(r.api.Nodes().Info(x.ID.String(), nil))
}

// drained waits until a node's drain is over, and checks that it is empty.
func (r *running) drained(x *puppet) {
	r.t.Helper()
	r.until(x.Name+" is drained", func() bool { return r.info(x).DrainStrategy == nil })
	n := r.info(x)
	if n.Drain || n.SchedulingEligibility != "ineligible" || n.LastDrain == nil || n.LastDrain.Status != nomad.DrainStatusComplete || n.LastDrain.Meta["message"] != "for a test" {
		r.t.Errorf("the drained node: %t, %s, %+v", n.Drain, n.SchedulingEligibility, n.LastDrain)
	}
	r.sound()
}

func (r *running) sound() {
	r.t.Helper()
	for _, v := range invariant.Check(r.server.Store().Snapshot()) {
		r.t.Error(v)
	}
}

// runs waits until so many allocations of a job run on a node.
func (r *running) runs(job string, x *puppet, count int) {
	r.t.Helper()
	r.until(fmt.Sprintf("%d of %s run on %s", count, job, x.Name), func() bool { return r.running(job, x) == count })
}

// running counts what runs and should.
func (r *running) running(job string, x *puppet) (n int) {
	for _, a := range must[[]*nomad.AllocationListStub, *nomad.QueryMeta](r.t)(r.api.Jobs().Allocations(job, false, nil)) {
		if a.ClientStatus == "running" && a.DesiredStatus == "run" && (x == nil || a.NodeID == x.ID.String()) {
			n++
		}
	}
	return n
}

// least watches a job until what it returns is called, which says how many of
// it ran at the worst.
func (r *running) least(job string) func() int {
	ctx, cancel := context.WithCancel(r.t.Context())
	least := 1 << 30
	var done sync.WaitGroup
	done.Go(func() {
		for c := r.server.Store().Commit(); ; {
			n := 0
			for a := range c.AllocsOf(berth.JobKey{Namespace: berth.DefaultNamespace, ID: berth.JobID(job)}) {
				if a.Live() && a.Client == berth.ClientRunning {
					n++
				}
			}
			least = min(least, n)
			next, err := c.Next(ctx)
			if err != nil {
				return
			}
			c = next
		}
	})
	return func() int { cancel(); done.Wait(); return least }
}

// Three instances leave one at a time, and at no time fewer than two run.
func TestDrainOneAtATime(t *testing.T) {
	r := start(t, t.TempDir())
	one := r.puppet(1)
	if _, _, err := r.api.Jobs().Register(moving("web", 3, 1, 50*time.Millisecond), nil); err != nil {
		t.Fatal(err)
	}
	r.runs("web", one, 3)
	two := r.puppet(2)
	least := r.least("web")
	one.stubborn(true)
	r.drain(one, &nomad.DrainSpec{Deadline: time.Hour})
	n := r.info(one)
	if !n.Drain || n.DrainStrategy == nil || n.DrainStrategy.Deadline != time.Hour || n.DrainStrategy.ForceDeadline.Sub(n.DrainStrategy.StartedAt) != time.Hour ||
		n.SchedulingEligibility != "ineligible" || n.LastDrain.Status != nomad.DrainStatusDraining {
		t.Errorf("%t %+v %+v", n.Drain, n.DrainStrategy, n.LastDrain)
	}
	if _, err := r.api.Nodes().ToggleEligibility(one.ID.String(), true, nil); err == nil || !strings.Contains(err.Error(), "is being drained") {
		t.Errorf("a node that is drained can be eligible: %v", err)
	}
	r.runs("web", two, 3)
	if n := r.info(one); n.DrainStrategy == nil {
		t.Error("the drain is done before the agent confirmed that the tasks ended")
	}
	one.stubborn(false)
	r.drained(one)
	if n := least(); n < 2 {
		t.Errorf("at the worst %d ran", n)
	}
	e := r.eval("web", "node-drain")
	if e.NodeID != one.ID.String() {
		t.Errorf("%+v", e)
	}
}

// With start_first, all of them run at any time.
func TestDrainStartsFirst(t *testing.T) {
	r := start(t, t.TempDir())
	one := r.puppet(1)
	code, _, body := r.send("PUT", "/v1/jobs", strings.NewReader(`{"Job": {"ID": "web", "TaskGroups": [{"Name": "g", "Count": 1,
		"Migrate": {"StartFirst": true, "HealthCheck": "task_states", "MinHealthyTime": 50000000},
		"Tasks": [{"Name": "t", "Driver": "raw_exec", "Config": {"command": "/bin/sleep"}}]}]}}`))
	if code != http.StatusOK {
		t.Fatal(body)
	}
	r.runs("web", one, 1)
	two := r.puppet(2)
	least := r.least("web")
	r.drain(one, &nomad.DrainSpec{Deadline: time.Hour})
	r.drained(one)
	r.runs("web", two, 1)
	if n := least(); n < 1 {
		t.Errorf("at the worst %d ran", n)
	}
}

// Batch jobs run to the deadline, system jobs stay if they may.
func TestDrainDeadline(t *testing.T) {
	r := start(t, t.TempDir())
	one := r.puppet(1)
	batch, system := sleeper("sums", 1), sleeper("logs", 1)
	kinds := []string{nomad.JobTypeBatch, nomad.JobTypeSystem}
	batch.Type, system.Type = &kinds[0], &kinds[1]
	for _, j := range []*nomad.Job{batch, system} {
		if _, _, err := r.api.Jobs().Register(j, nil); err != nil {
			t.Fatal(err)
		}
		r.runs(*j.ID, one, 1)
	}
	began := time.Now()
	r.drain(one, &nomad.DrainSpec{Deadline: 300 * time.Millisecond, IgnoreSystemJobs: true})
	r.drained(one)
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("done after %s", took)
	}
	if r.running("sums", nil) != 0 || r.running("logs", one) != 1 {
		t.Errorf("%d of sums and %d of logs run", r.running("sums", nil), r.running("logs", one))
	}
	// By force, the system job goes, too.
	r.drain(one, &nomad.DrainSpec{Deadline: -1})
	r.drained(one)
	if n := r.running("logs", nil); n != 0 {
		t.Errorf("%d of logs run", n)
	}
}

// A drain that is ended leaves what is there, and the node takes work again.
func TestDrainEnded(t *testing.T) {
	r := start(t, t.TempDir())
	one := r.puppet(1)
	batch := sleeper("sums", 2)
	kind := nomad.JobTypeBatch
	batch.Type = &kind
	if _, _, err := r.api.Jobs().Register(batch, nil); err != nil {
		t.Fatal(err)
	}
	r.runs("sums", one, 2)
	r.drain(one, &nomad.DrainSpec{})
	if n := r.info(one); !n.DrainStrategy.ForceDeadline.IsZero() {
		t.Errorf("without a deadline it is %s", n.DrainStrategy.ForceDeadline)
	}
	if _, err := r.api.Nodes().UpdateDrain(one.ID.String(), nil, true, nil); err != nil {
		t.Fatal(err)
	}
	n := r.info(one)
	if n.Drain || n.SchedulingEligibility != "eligible" || n.LastDrain.Status != nomad.DrainStatusCanceled || r.running("sums", one) != 2 {
		t.Errorf("%t %s %+v", n.Drain, n.SchedulingEligibility, n.LastDrain)
	}
	_, err := r.api.Nodes().UpdateDrain("00000000-0000-0000-0000-000000000009", nil, true, nil)
	refused(t, "a node that is not there", err, http.StatusNotFound, "node not found")
	r.sound()
}

// Two drains at once share max_parallel, and a server that starts again in the
// middle goes on where the last one was.
func TestTwoDrainsOverARestart(t *testing.T) {
	dir := t.TempDir()
	r := start(t, dir)
	one, two := r.puppet(1), r.puppet(2)
	if _, _, err := r.api.Jobs().Register(moving("web", 4, 1, 100*time.Millisecond), nil); err != nil {
		t.Fatal(err)
	}
	r.until("all run", func() bool { return r.running("web", nil) == 4 })
	r.puppet(3)
	least := r.least("web")
	r.drain(one, &nomad.DrainSpec{Deadline: time.Hour})
	r.drain(two, &nomad.DrainSpec{Deadline: time.Hour})
	before := r.info(two).DrainStrategy
	r.until("one has moved", func() bool { return r.running("web", one)+r.running("web", two) < 4 })
	if n := least(); n < 3 {
		t.Errorf("before the restart, at the worst %d ran", n)
	}
	r.stop()
	r = start(t, dir)
	one, two, three := r.puppet(1), r.puppet(2), r.puppet(3)
	if after := r.info(two).DrainStrategy; after != nil && !after.Equal(before) {
		t.Errorf("the drain was %s and is %s", before, after)
	}
	least = r.least("web")
	r.drained(one)
	r.drained(two)
	r.runs("web", three, 4)
	if n := least(); n < 3 {
		t.Errorf("after the restart, at the worst %d ran", n)
	}
}
