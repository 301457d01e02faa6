package worker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/leader/broker"
	"berth/internal/leader/planner"
	"berth/internal/schedule"
	"berth/internal/state"
	"berth/internal/state/codec"
	"berth/internal/state/statetest"
	"berth/internal/worker"
)

// desk is a leader whose worker is the test: it takes evaluations by hand, and
// runs a real worker when it wants one.
type desk struct {
	*cluster
	broker  *broker.Broker
	planner *planner.Planner
	evals   int // raised by node
}

// atDesk runs f with one node of 4000 MHz.
func atDesk(t *testing.T, f func(d *desk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store, log := statetest.New(t, &state.BeginTerm{Term: 1}, &state.RaiseLogVersion{To: codec.LogVersion}, statetest.AddNode(1, 4000, 4000))
		ctx, stop := context.WithCancel(t.Context())
		b := newBroker(t, store, log)
		ended := make(chan error)
		go func() { ended <- b.Run(ctx) }()
		defer func() { stop(); <-ended }()
		f(&desk{&cluster{t, store, log}, b, newPlanner(t, log, b), 0})
	})
}

// take is what a worker does first.
func (d *desk) take() *berth.Delivery {
	d.t.Helper()
	synctest.Wait()
	ctx, stop := context.WithTimeout(d.t.Context(), time.Nanosecond)
	defer stop()
	list, err := d.broker.Next(ctx, worker.Types, 1)
	if err != nil {
		d.t.Fatalf("nothing is handed out: %v", err)
	}
	return &list[0]
}

// decide is what a worker does with it.
func (d *desk) decide(x *berth.Delivery) *state.ApplyPlan {
	return schedule.Decide(d.log.Tip(), d.log.Tip().Eval(x.Eval.ID), 0, time.Now()).Plan
}

// submit submits a plan; its worker acknowledges unless told not to.
func (d *desk) submit(x *berth.Delivery, plan *state.ApplyPlan) error {
	d.t.Helper()
	p, err := d.planner.Submit(x, plan)
	if err == nil {
		err = p.Wait(d.t.Context())
	}
	synctest.Wait()
	return err
}

// work lets a real worker do all that is ready.
func (d *desk) work() *state.Snapshot {
	ctx, stop := context.WithCancel(d.t.Context())
	ended := make(chan error)
	go func() { ended <- newWorker(d.t, d.broker, d.planner).Run(ctx) }()
	synctest.Wait()
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		d.t.Error(err)
	}
	return d.do()
}

// is checks the status of an evaluation, and its quasi-status.
func (d *desk) is(id berth.EvalID, status, quasi string) *berth.Eval {
	d.t.Helper()
	e := d.store.Snapshot().Eval(id)
	if e == nil {
		d.t.Fatalf("evaluation %s is not there", id.Short())
	}
	q, _ := d.broker.Quasi(id)
	if e.Status != status || q.Status != quasi {
		d.t.Errorf("evaluation %s is %s (%s), want %s (%s)", id.Short(), e.Status, q.Status, status, quasi)
	}
	if e.Cause.Kind == "" {
		d.t.Errorf("evaluation %s has no cause", id.Short())
	}
	return e
}

// raised returns the only evaluation of a job with a trigger.
func (d *desk) raised(job, trigger string) *berth.Eval {
	d.t.Helper()
	var found []*berth.Eval
	for e := range d.store.Snapshot().EvalsOf(berth.JobKey{Namespace: berth.DefaultNamespace, ID: berth.JobID(job)}) {
		if e.TriggeredBy == trigger {
			found = append(found, e)
		}
	}
	if len(found) != 1 {
		d.t.Fatalf("%d evaluations of %s were raised by %s", len(found), job, trigger)
	}
	return found[0]
}

// job returns a job of one group whose instances take that much of the node's
// 4000 MHz.
func (d *desk) job(id string, count, cpu int, more string) *berth.Job {
	const text = `{"ID":"%s"%s,"TaskGroups":[{"Name":"g","Count":%d,"ReschedulePolicy":{"Attempts":0,"Unlimited":true,"Delay":30000000000,"DelayFunction":"constant","MaxDelay":3600000000000},"Resources":{"CPU":%d,"MemoryMB":100}}]}`
	return statetest.Job(d.t, fmt.Sprintf(text, id, more, count, cpu))
}

// everywhere returns a job that runs on every node.
func (d *desk) everywhere(id string, cpu int) *berth.Job {
	return statetest.Job(d.t, fmt.Sprintf(`{"ID":"%s","Type":"system","TaskGroups":[{"Name":"g","Resources":{"CPU":%d,"MemoryMB":100}}]}`, id, cpu))
}

var first = statetest.ID[berth.Eval](1)

// fails lets the agent report that an allocation failed.
func (d *desk) fails(a *berth.Alloc) {
	d.t.Helper()
	d.do(&state.ReportAllocs{Node: a.NodeID, Updates: []state.AllocUpdate{{ID: a.ID, Client: berth.ClientFailed}}, Now: time.Now().UnixNano()})
}

// failed returns the job's allocation that failed.
func failed(s *state.Snapshot, job string) *berth.Alloc {
	for a := range s.AllocsOf(key(job)) {
		if a.Client == berth.ClientFailed {
			return a
		}
	}
	return nil
}

func key(job string) berth.JobKey {
	return berth.JobKey{Namespace: berth.DefaultNamespace, ID: berth.JobID(job)}
}

func seed(n int) state.EvalSeed {
	return state.EvalSeed{ID: statetest.ID[berth.Eval](n), TriggeredBy: berth.TriggerJobDeregister, Cause: berth.Cause{Kind: berth.CauseUser}}
}

// blocked registers two instances, one of which fits, and returns the
// evaluation that waits for the other.
func (d *desk) blocked() *berth.Eval {
	d.t.Helper()
	d.do(statetest.Register(d.job("web", 2, 3000, ""), 1))
	d.work()
	return d.raised("web", berth.TriggerQueuedAllocs)
}

// refused lets a worker decide while all its placements are refused.
func (d *desk) refused() {
	d.t.Helper()
	m := &meddler{Planner: d.planner, before: func(_ int, plan *state.ApplyPlan) { lose(plan, 0) }}
	ctx, stop := context.WithCancel(d.t.Context())
	ended := make(chan error)
	go func() { ended <- newWorker(d.t, d.broker, m).Run(ctx) }()
	synctest.Wait()
	stop()
	<-ended
}

// undeliverable gives the job's evaluation back until it has failed.
func (d *desk) undeliverable() {
	d.t.Helper()
	for range broker.DefaultLimits.Deliveries {
		x := d.take()
		if err := d.broker.Nack(x.Eval.ID, x.Token); err != nil {
			d.t.Error(err)
		}
		time.Sleep(broker.DefaultLimits.NackDelay)
		synctest.Wait()
	}
}

// Each row of the tables in docs/evaluations.md, by its name.
func TestRows(t *testing.T) {
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) { atDesk(t, row.story) })
	}
}

var rows = []struct {
	name  string
	story func(d *desk)
}{
	{"new to pending: job-register", func(d *desk) {
		d.do(statetest.Register(d.job("web", 1, 100, ""), 1))
		if e := d.is(first, berth.EvalPending, ""); e.TriggeredBy != berth.TriggerJobRegister || e.Cause.Kind != berth.CauseUser {
			d.t.Errorf("raised by %s, %s", e.TriggeredBy, e.Cause)
		}
	}},
	{"new to pending: job-register, of a job that goes back to a version", func(d *desk) {
		d.versions(1, 2)
		e := d.changes(&state.RevertJob{Key: key("web"), Version: 0, Eval: byUser(9, berth.TriggerJobRegister)}, 9)
		if s := d.work(); e.JobModifyIndex != s.Job(key("web")).JobModifyIndex || len(live(s, "web")) != 1 {
			d.t.Errorf("%+v; %d run", e, len(live(s, "web")))
		}
	}},
	{"new to pending: job-scaling", func(d *desk) {
		d.versions(1)
		e := d.changes(&state.ScaleJob{Key: key("web"), Group: "g", Change: true, Count: 3, Eval: byUser(9, berth.TriggerJobScaling)}, 9)
		if s := d.work(); e.TriggeredBy != berth.TriggerJobScaling || len(live(s, "web")) != 3 || s.Job(key("web")).Version != 1 {
			d.t.Errorf("%+v; %d run", e, len(live(s, "web")))
		}
	}},
	{"new to pending: alloc-stop", func(d *desk) {
		d.versions(1)
		a := live(d.store.Snapshot(), "web")[0]
		e := d.changes(&state.StopAlloc{ID: a.ID, Eval: byUser(9, berth.TriggerAllocStop)}, 9)
		s := d.work()
		if e.TriggeredBy != berth.TriggerAllocStop || s.Alloc(a.ID).Wanted() || len(live(s, "web")) != 1 || live(s, "web")[0].Rest().Previous != a.ID {
			d.t.Errorf("%+v; %+v", e, s.Alloc(a.ID))
		}
		d.changes(&state.StopAlloc{ID: a.ID, Eval: byUser(10, berth.TriggerAllocStop)}, 10)
		if again := d.work(); live(again, "web")[0] != live(s, "web")[0] {
			d.t.Error("what was stopped is replaced twice")
		}
	}},
	{"new to pending: job-register, of a job that a user has looked at again", func(d *desk) {
		d.do(statetest.Register(d.job("web", 1, 100, ""), 1))
		d.work()
		a := live(d.store.Snapshot(), "web")[0]
		d.fails(a)
		d.work()
		e := seed(7)
		e.TriggeredBy = berth.TriggerJobRegister
		d.do(&state.EvaluateJob{Key: key("web"), Force: true, Eval: e, Now: time.Now().UnixNano()})
		if e := d.is(e.ID, berth.EvalPending, ""); e.Cause.Kind != berth.CauseUser {
			d.t.Errorf("its cause is %s", e.Cause)
		}
		s := d.work()
		d.is(e.ID, berth.EvalComplete, "")
		if l := live(s, "web"); len(l) != 1 || l[0].Rest().Previous != a.ID {
			d.t.Errorf("%d run, and what failed was not replaced before its time", len(l))
		}
	}},
	{"new to pending: periodic-job", func(d *desk) {
		j := statetest.Job(d.t, `{"ID":"nightly","Type":"batch","Periodic":{"Enabled":true,"Spec":"0 3 * * *"},"TaskGroups":[{"Name":"g","Resources":{"CPU":100,"MemoryMB":100}}]}`)
		d.do(&state.RegisterJob{Job: j, Now: time.Now().UnixNano()})
		launch := &state.LaunchPeriodic{Key: key("nightly"), Due: time.Now().UnixNano(), Force: true, Eval: byUser(9, berth.TriggerPeriodicJob), Now: time.Now().UnixNano()}
		d.do(launch)
		child := string(berth.PeriodicID("nightly", time.Unix(0, launch.Due)))
		if e := d.is(d.raised(child, berth.TriggerPeriodicJob).ID, berth.EvalPending, ""); e.Cause.Kind != berth.CauseUser || e.Type != berth.TypeBatch {
			d.t.Errorf("%+v", e)
		}
		s := d.work()
		d.is(launch.Eval.ID, berth.EvalComplete, "")
		if len(live(s, child)) != 1 || len(live(s, "nightly")) != 0 {
			d.t.Errorf("of the child run %d, of the job itself %d", len(live(s, child)), len(live(s, "nightly")))
		}
	}},
	{"new to pending: job-deregister", func(d *desk) {
		d.do(statetest.Register(d.job("web", 1, 100, ""), 1))
		d.work()
		d.do(&state.StopJob{Key: key("web"), Eval: seed(2), Now: 1})
		if e := d.is(d.raised("web", berth.TriggerJobDeregister).ID, berth.EvalPending, ""); e.Cause.Kind != berth.CauseUser {
			d.t.Errorf("its cause is %s", e.Cause)
		}
	}},
	{"new to pending: node-update", func(d *desk) {
		d.do(statetest.Register(d.job("web", 1, 100, ""), 1))
		d.work()
		d.do(&state.SetNodeStatus{ID: statetest.ID[berth.Node](1), Status: berth.NodeDown, Seed: statetest.ID[berth.Eval](2), Now: time.Now().UnixNano()})
		if e := d.is(d.raised("web", berth.TriggerNodeUpdate).ID, berth.EvalPending, ""); e.Cause.Kind != berth.CauseNode || e.NodeID.IsZero() {
			d.t.Errorf("its cause is %s, its node %s", e.Cause, e.NodeID)
		}
	}},
	{"new to pending: alloc-failure", func(d *desk) {
		d.do(statetest.Register(d.job("web", 1, 100, ""), 1))
		d.work()
		a := live(d.store.Snapshot(), "web")[0]
		d.fails(a)
		if e := d.is(d.raised("web", berth.TriggerAllocFailure).ID, berth.EvalPending, ""); e.Cause != (berth.Cause{Kind: berth.CauseAlloc, ID: a.ID.String()}) {
			d.t.Errorf("its cause is %s", e.Cause)
		}
	}},
	{"new to pending: reconnect", func(d *desk) {
		a := d.unknown()
		d.node(1, berth.NodeReady)
		d.work()
		if e := d.store.Snapshot().Alloc(a.ID); e.Client != berth.ClientUnknown || e.Rest().Next != (berth.AllocID{}) {
			d.t.Errorf("its node is heard, and it was not waited for: %s, replaced by %s", e.Client, e.Rest().Next)
		}
		d.says(a, berth.ClientRunning)
		e := d.is(d.raised("web", berth.TriggerReconnect).ID, berth.EvalPending, "")
		if e.Cause != (berth.Cause{Kind: berth.CauseNode, ID: a.NodeID.String()}) || e.NodeID != a.NodeID {
			d.t.Errorf("its cause is %s, its node %s", e.Cause, e.NodeID)
		}
		s := d.work()
		d.is(e.ID, berth.EvalComplete, "")
		if l := live(s, "web"); len(l) != 1 || l[0].ID != a.ID || l[0].Client != berth.ClientRunning {
			d.t.Errorf("%d run", len(l))
		}
	}},
	{"pending to scheduling", func(d *desk) {
		d.do(statetest.Register(d.job("web", 1, 100, ""), 1))
		d.take()
		d.is(first, berth.EvalPending, "scheduling")
	}},
	{"pending to delayed to scheduling", func(d *desk) {
		d.do(statetest.Register(d.job("web", 1, 100, ""), 1))
		d.work()
		d.fails(live(d.store.Snapshot(), "web")[0])
		d.work()
		a := failed(d.store.Snapshot(), "web")
		d.is(a.Rest().FollowupEval, berth.EvalPending, "delayed")
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if x := d.take(); x.Eval.ID != a.Rest().FollowupEval {
			d.t.Errorf("evaluation %s is handed out", x.Eval.ID.Short())
		}
		d.is(a.Rest().FollowupEval, berth.EvalPending, "scheduling")
	}},
	{"blocked to complete: a quota has room", func(d *desk) {
		n := 250
		q := &berth.Quota{Name: "q", Limits: []*berth.QuotaLimit{{Region: "global", RegionLimit: &berth.QuotaResources{CPU: &n}}}}
		d.do(&state.UpsertQuotas{Quotas: []*berth.Quota{q}, Region: "global"},
			&state.UpsertNamespaces{Namespaces: []*berth.Namespace{{Name: berth.DefaultNamespace, Quota: "q"}}},
			statetest.Register(d.job("web", 3, 100, ""), 1), statetest.Register(d.job("api", 2, 50, ""), 2))
		s := d.work()
		e := d.is(d.raised("web", berth.TriggerQueuedAllocs).ID, berth.EvalBlocked, "")
		if e.QuotaLimitReached != "q" || len(live(s, "web")) != 2 || len(live(s, "api")) != 1 {
			d.t.Fatalf("%+v; %d and %d run", e, len(live(s, "web")), len(live(s, "api")))
		}
		// Capacity of nodes helps none of them.
		d.do(statetest.AddNode(2, 4000, 4000))
		if again := d.work(); again.Eval(e.ID).Timeline != e.Timeline {
			d.t.Error("it was looked at again for a node")
		}
		// What ends leaves room for the most urgent.
		a := live(d.store.Snapshot(), "api")[0]
		d.do(&state.StopJob{Key: key("api"), Eval: seed(9), Now: 1})
		d.work()
		d.do(&state.ReportAllocs{Node: a.NodeID, Updates: []state.AllocUpdate{{ID: a.ID, Client: berth.ClientComplete}}, Now: time.Now().UnixNano()})
		d.work()
		d.is(e.ID, berth.EvalBlocked, "") // 50 MHz are left
		// A larger limit wakes it, too.
		n2 := 300
		q = &berth.Quota{Name: "q", Limits: []*berth.QuotaLimit{{Region: "global", RegionLimit: &berth.QuotaResources{CPU: &n2}}}}
		d.do(&state.UpsertQuotas{Quotas: []*berth.Quota{q}, Region: "global"})
		if s = d.work(); len(live(s, "web")) != 3 {
			d.t.Errorf("%d run", len(live(s, "web")))
		}
		d.is(e.ID, berth.EvalComplete, "")
	}},
	{"blocked to complete: a namespace has another quota", func(d *desk) {
		n := 1
		q := &berth.Quota{Name: "q", Limits: []*berth.QuotaLimit{{Region: "global", RegionLimit: &berth.QuotaResources{Allocations: &n}}}}
		space := func(quota string) *state.UpsertNamespaces {
			return &state.UpsertNamespaces{Namespaces: []*berth.Namespace{{Name: berth.DefaultNamespace, Quota: quota}}}
		}
		d.do(&state.UpsertQuotas{Quotas: []*berth.Quota{q}, Region: "global"}, space("q"), statetest.Register(d.job("web", 2, 100, ""), 1), statetest.Register(d.everywhere("logs", 10), 2))
		d.work()
		d.is(d.raised("web", berth.TriggerQueuedAllocs).ID, berth.EvalBlocked, "")
		if e := d.is(d.raised("logs", berth.TriggerQueuedAllocs).ID, berth.EvalBlocked, ""); e.QuotaLimitReached != "q" || e.NodeID.IsZero() {
			d.t.Errorf("%+v", e)
		}
		d.do(space(""))
		if s := d.work(); len(live(s, "web")) != 2 || len(live(s, "logs")) != 1 {
			d.t.Errorf("%d and %d run", len(live(s, "web")), len(live(s, "logs")))
		}
	}},
	{"scheduling to applying", func(d *desk) {
		d.do(statetest.Register(d.job("web", 1, 100, ""), 1))
		x := d.take()
		d.log.Hold()
		if _, err := d.planner.Submit(x, d.decide(x)); err != nil {
			d.t.Error(err)
		}
		d.is(first, berth.EvalPending, "applying")
		d.log.Release()
		synctest.Wait()
		d.is(first, berth.EvalComplete, "")
	}},
	{"applying to scheduling", func(d *desk) {
		d.do(statetest.Register(d.job("web", 2, 100, ""), 1))
		x := d.take()
		plan := d.decide(x)
		lose(plan, 1) // one of two is refused
		if err := d.submit(x, plan); err != nil {
			d.t.Error(err)
		}
		d.is(first, berth.EvalPending, "scheduling")
		if err := d.submit(x, d.decide(x)); err != nil || len(live(d.store.Snapshot(), "web")) != 2 {
			d.t.Errorf("%d run, %v", len(live(d.store.Snapshot(), "web")), err)
		}
		d.is(first, berth.EvalComplete, "")
	}},
	{"scheduling to complete: its plan is applied", func(d *desk) {
		d.do(statetest.Register(d.job("web", 2, 100, ""), 1))
		d.work()
		if e := d.is(first, berth.EvalComplete, ""); len(live(d.store.Snapshot(), "web")) != 2 || e.Timeline.Planned < e.Timeline.Dequeued {
			d.t.Errorf("%+v", e.Timeline)
		}
	}},
	{"scheduling to complete: there is nothing to do", func(d *desk) {
		d.do(statetest.Register(d.job("web", 1, 100, ""), 1))
		d.work()
		d.do(statetest.Register(d.job("web", 1, 100, ""), 2))
		d.work()
		d.is(statetest.ID[berth.Eval](2), berth.EvalComplete, "")
	}},
	{"scheduling to failed: the attempts ran out", func(d *desk) {
		d.do(statetest.Register(d.job("web", 1, 100, ""), 1))
		d.refused()
		if e := d.is(first, berth.EvalFailed, ""); e.Timeline.Refused != 5 {
			d.t.Errorf("%d plans were refused", e.Timeline.Refused)
		}
	}},
	{"scheduling to canceled", func(d *desk) {
		d.do(statetest.Register(d.job("web", 1, 100, ""), 1))
		x := d.take()
		time.Sleep(broker.DefaultLimits.NackTimeout + broker.DefaultLimits.FirstNackDelay) // taken from its worker, and ready again
		synctest.Wait()
		d.do(statetest.Register(d.job("web", 2, 100, ""), 2))
		d.is(first, berth.EvalCanceled, "")
		if err := d.submit(x, &state.ApplyPlan{Eval: first, End: &state.EvalEnd{Status: berth.EvalComplete}}); berth.KindOf(err) != berth.Conflict {
			d.t.Errorf("its worker may go on: %v", err)
		}
	}},
	{"pending to canceled: a newer one of its job", func(d *desk) {
		d.do(statetest.Register(d.job("web", 1, 100, ""), 1), statetest.Register(d.job("web", 2, 100, ""), 2))
		if e := d.is(first, berth.EvalCanceled, ""); e.SupersededBy != statetest.ID[berth.Eval](2) || e.StatusDescription != state.Superseded(e.SupersededBy) {
			d.t.Errorf("superseded by %s: %s", e.SupersededBy, e.StatusDescription)
		}
		d.is(statetest.ID[berth.Eval](2), berth.EvalPending, "")
	}},
	{"pending to failed: undeliverable", func(d *desk) {
		d.do(statetest.Register(d.job("web", 1, 100, ""), 1))
		d.undeliverable()
		if e := d.is(first, berth.EvalFailed, ""); e.Timeline.Deliveries != 3 {
			d.t.Errorf("delivered %d times", e.Timeline.Deliveries)
		}
	}},
	{"blocked to scheduling", func(d *desk) {
		b := d.blocked()
		d.is(b.ID, berth.EvalBlocked, "")
		d.do(statetest.AddNode(2, 4000, 4000))
		if x := d.take(); x.Eval.ID != b.ID {
			d.t.Errorf("evaluation %s is handed out", x.Eval.ID.Short())
		}
		d.is(b.ID, berth.EvalBlocked, "scheduling")
	}},
	{"scheduling to blocked: still no room", func(d *desk) {
		b := d.blocked()
		d.do(statetest.AddNode(3, 500, 4000)) // too small for it, so it is not even looked at
		if same := d.is(b.ID, berth.EvalBlocked, ""); same.ModifyIndex != b.ModifyIndex {
			d.t.Errorf("%+v", same)
		}
		d.do(statetest.AddNode(2, 4000, 4000, func(n *berth.Node) { n.Drivers["mock_driver"].Healthy = false }))
		s := d.work()
		again := d.is(b.ID, berth.EvalBlocked, "")
		if again.PreviousEval != b.PreviousEval || s.Eval(first).BlockedEval != b.ID || again.SnapshotIndex <= b.SnapshotIndex {
			d.t.Errorf("%+v", again)
		}
		d.raised("web", berth.TriggerQueuedAllocs) // no other
	}},
	{"blocked to complete", func(d *desk) {
		b := d.blocked()
		d.do(statetest.AddNode(2, 4000, 4000))
		d.work()
		d.is(b.ID, berth.EvalComplete, "")
	}},
	{"blocked to canceled: the job was stopped", func(d *desk) {
		b := d.blocked()
		d.do(&state.StopJob{Key: key("web"), Eval: seed(2), Now: 1})
		d.is(b.ID, berth.EvalCanceled, "")
	}},
	{"blocked to canceled: a newer one of its job", func(d *desk) {
		b := d.blocked()
		d.do(statetest.Register(d.job("web", 3, 3000, ""), 2))
		d.work()
		if e := d.is(b.ID, berth.EvalCanceled, ""); e.SupersededBy != statetest.ID[berth.Eval](2) {
			d.t.Errorf("superseded by %s", e.SupersededBy)
		}
		if now := d.is(statetest.ID[berth.Eval](2), berth.EvalComplete, ""); now.BlockedEval == b.ID || now.BlockedEval.IsZero() {
			d.t.Errorf("what waits now is %s", now.BlockedEval.Short())
		}
	}},
	{"complete, failed, canceled to deleted", func(d *desk) {
		d.do(statetest.Register(d.job("web", 0, 100, ""), 1), statetest.Register(d.job("web", 0, 100, `,"Priority":60`), 2))
		d.work()
		second := statetest.ID[berth.Eval](2)
		d.is(first, berth.EvalCanceled, "")
		d.is(second, berth.EvalComplete, "")
		s := d.do(&state.DeleteRows{Evals: []berth.EvalID{first, second}})
		if s.Eval(first) != nil || s.Eval(second) != nil {
			d.t.Error("they are still there")
		}
	}},
	{"new: queued-allocs", func(d *desk) {
		b := d.blocked()
		if e := d.is(first, berth.EvalComplete, ""); e.BlockedEval != b.ID || b.PreviousEval != first || b.Cause != (berth.Cause{Kind: berth.CauseEval, ID: first.String()}) {
			d.t.Errorf("%+v and %+v", e, b)
		}
	}},
	{"new: max-plan-attempts", func(d *desk) {
		d.do(statetest.Register(d.job("web", 1, 100, ""), 1))
		d.refused()
		b := d.raised("web", berth.TriggerMaxPlanAttempts)
		if e := d.is(first, berth.EvalFailed, ""); e.BlockedEval != b.ID || b.PreviousEval != first || b.Status != berth.EvalBlocked {
			d.t.Errorf("%+v and %+v", e, b)
		}
	}},
	{"new: failed-follow-up", func(d *desk) {
		d.do(statetest.Register(d.job("web", 1, 100, ""), 1))
		d.undeliverable()
		f := d.is(d.raised("web", berth.TriggerFailedFollowUp).ID, berth.EvalPending, "delayed")
		if e := d.store.Snapshot().Eval(first); e.NextEval != f.ID || f.PreviousEval != first {
			d.t.Errorf("%+v and %+v", e, f)
		}
		time.Sleep(broker.DefaultLimits.FollowUpAfter)
		synctest.Wait()
		d.work()
		d.is(f.ID, berth.EvalComplete, "")
	}},
	{"new to pending: node-update, of what runs on every node", func(d *desk) {
		d.do(statetest.Register(d.everywhere("log", 100), 1))
		d.work()
		join := statetest.AddNode(2, 4000, 4000)
		join.Seed, join.Now = statetest.ID[berth.Eval](2), time.Now().UnixNano()
		d.do(join)
		if e := d.is(d.raised("log", berth.TriggerNodeUpdate).ID, berth.EvalPending, ""); e.Cause.Kind != berth.CauseNode || e.NodeID != join.Node.ID {
			d.t.Errorf("its cause is %s, its node %s", e.Cause, e.NodeID)
		}
		if s := d.work(); len(live(s, "log")) != 2 {
			d.t.Errorf("%d run on two nodes", len(live(s, "log")))
		}
	}},
	{"new: queued-allocs, one for each node", func(d *desk) {
		d.do(statetest.AddNode(2, 300, 4000), statetest.AddNode(3, 200, 4000), statetest.Register(d.everywhere("log", 500), 1))
		s := d.work()
		waits := map[berth.NodeID]*berth.Eval{}
		for e := range s.OpenEvals(berth.EvalBlocked) {
			d.is(e.ID, berth.EvalBlocked, "")
			if e.TriggeredBy != berth.TriggerQueuedAllocs || e.PreviousEval != first {
				d.t.Errorf("%+v", e)
			}
			waits[e.NodeID] = e
		}
		two := waits[statetest.ID[berth.Node](2)]
		if old := s.Eval(first); len(waits) != 2 || two == nil || s.Eval(old.BlockedEval).PreviousEval != first {
			d.t.Fatalf("%d nodes are waited for; the first points to %s", len(waits), old.BlockedEval.Short())
		}
		// Room on one node wakes what waits for that one alone.
		bigger := statetest.AddNode(2, 4000, 4000)
		bigger.Seed, bigger.Now = statetest.ID[berth.Eval](2), time.Now().UnixNano()
		d.do(bigger)
		s = d.work()
		d.is(two.ID, berth.EvalComplete, "")
		three := d.is(waits[statetest.ID[berth.Node](3)].ID, berth.EvalBlocked, "")
		if len(live(s, "log")) != 2 || three.ModifyIndex != three.CreateIndex {
			d.t.Errorf("%d run; what waits for the third node was touched: %+v", len(live(s, "log")), three)
		}
	}},
	{"new: rolling-update", func(d *desk) {
		d.do(statetest.AddNode(2, 4000, 4000), statetest.Register(d.everywhere("log", 100), 1))
		d.work()
		d.do(statetest.Register(d.everywhere("log", 200), 2))
		s := d.work()
		old := s.Eval(statetest.ID[berth.Eval](2))
		next := d.is(old.NextEval, berth.EvalPending, "delayed")
		if next.TriggeredBy != berth.TriggerRollingUpdate || next.PreviousEval != old.ID || next.WaitUntil != old.ModifyTime+int64(30*time.Second) {
			d.t.Errorf("%+v", next)
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		s = d.work()
		d.is(next.ID, berth.EvalComplete, "")
		for _, a := range live(s, "log") {
			if a.Job.Version != 1 {
				d.t.Errorf("version %d runs on %s", a.Job.Version, a.NodeID)
			}
		}
	}},
	{"blocked to blocked: a newer one looks anyway", func(d *desk) {
		d.do(statetest.AddNode(2, 300, 4000), statetest.AddNode(3, 200, 4000), statetest.Register(d.everywhere("log", 500), 1))
		d.work()
		waits := map[int]*berth.Eval{}
		for e := range d.store.Snapshot().OpenEvals(berth.EvalBlocked) {
			hi, _ := e.NodeID.Words()
			waits[int(hi>>32)] = e
		}
		// Both nodes get some room, of the kind that is lacking, at once; not
		// enough.
		d.do(d.grown(2, 400), d.grown(3, 400))
		s := d.work()
		for n, e := range waits {
			again := d.is(e.ID, berth.EvalBlocked, "")
			if again.PreviousEval != e.PreviousEval || s.Eval(e.ID).NodeID != statetest.ID[berth.Node](n) {
				d.t.Errorf("%+v", again)
			}
		}
		// One that looks at all nodes goes before those that wait; they wait on
		// as they are, and are woken by room of their node still.
		d.do(statetest.Register(d.everywhere("log", 500), 3))
		d.work()
		d.is(statetest.ID[berth.Eval](3), berth.EvalComplete, "")
		d.do(d.grown(3, 4000))
		d.work()
		d.is(waits[2].ID, berth.EvalBlocked, "")
		d.is(waits[3].ID, berth.EvalComplete, "")
		if n := len(live(d.store.Snapshot(), "log")); n != 2 {
			d.t.Errorf("%d run", n)
		}
	}},
	{"new: preemption", func(d *desk) {
		d.do(&state.SetSchedulerConfig{Config: berth.SchedulerConfig{PreemptionConfig: berth.PreemptionConfig{ServiceSchedulerEnabled: true}}})
		d.do(statetest.Register(d.job("low", 1, 3000, `,"Priority":20`), 1))
		d.work()
		victim := live(d.store.Snapshot(), "low")[0]
		d.says(victim, berth.ClientRunning)
		d.do(statetest.Register(d.job("web", 1, 2000, `,"Priority":80`), 2))
		x := d.take()
		if err := d.submit(x, d.decide(x)); err != nil {
			d.t.Fatal(err)
		}
		s := d.do()
		web := live(s, "web")
		if v := s.Alloc(victim.ID); len(web) != 1 || v.Desired != berth.DesiredEvict || v.Rest().EvictedBy != web[0].ID || !v.Occupies() {
			d.t.Fatalf("%d run; the victim should %s, is %s", len(web), v.Desired, v.Client)
		}
		e := d.is(d.raised("low", berth.TriggerPreemption).ID, berth.EvalPending, "")
		if e.Cause != (berth.Cause{Kind: berth.CauseAlloc, ID: web[0].ID.String()}) || !e.PreviousEval.IsZero() || !s.Eval(x.Eval.ID).BlockedEval.IsZero() {
			d.t.Errorf("%+v", e)
		}
		// It cannot be placed until there is capacity; then it is placed again.
		if err := d.broker.Ack(x.Eval.ID, x.Token); err != nil {
			d.t.Error(err)
		}
		s = d.work()
		b := d.is(d.is(e.ID, berth.EvalComplete, "").BlockedEval, berth.EvalBlocked, "")
		if b.PreviousEval != e.ID || len(live(s, "low")) != 0 {
			d.t.Errorf("%+v; %d run", b, len(live(s, "low")))
		}
		d.says(victim, berth.ClientComplete) // 2000 of 4000 MHz come free, and 3000 are asked
		d.work()
		d.is(b.ID, berth.EvalBlocked, "")
		d.do(statetest.AddNode(2, 4000, 4000))
		s = d.work()
		d.is(b.ID, berth.EvalComplete, "")
		if l := live(s, "low"); len(l) != 1 || l[0].NodeID == victim.NodeID {
			d.t.Errorf("%d of the preempted allocations run", len(l))
		}
	}},
	{"new: alloc-failure, delayed", func(d *desk) {
		d.do(statetest.Register(d.job("web", 1, 100, ""), 1))
		d.work()
		d.fails(live(d.store.Snapshot(), "web")[0])
		now := d.raised("web", berth.TriggerAllocFailure)
		d.work()
		a := failed(d.store.Snapshot(), "web")
		later := d.is(a.Rest().FollowupEval, berth.EvalPending, "delayed")
		if later.TriggeredBy != berth.TriggerAllocFailure || later.PreviousEval != now.ID {
			d.t.Errorf("%+v", later)
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if s := d.work(); len(live(s, "web")) != 1 || live(s, "web")[0].ID == a.ID {
			d.t.Error("it was not replaced")
		}
	}},
	{"new: max-disconnect-timeout", func(d *desk) {
		a := d.unknown()
		later := d.is(a.Rest().FollowupEval, berth.EvalPending, "delayed")
		if later.TriggeredBy != berth.TriggerMaxDisconnectTimeout || later.PreviousEval != d.raised("web", berth.TriggerNodeUpdate).ID {
			d.t.Errorf("%+v", later)
		}
		time.Sleep(time.Hour - time.Nanosecond)
		d.work()
		if e := d.store.Snapshot().Alloc(a.ID); e.Client != berth.ClientUnknown {
			d.t.Errorf("before its time it is %s", e.Client)
		}
		time.Sleep(time.Nanosecond)
		s := d.work()
		d.is(later.ID, berth.EvalComplete, "")
		if e := s.Alloc(a.ID); e.Client != berth.ClientLost || e.Wanted() {
			d.t.Errorf("at its time it is %s, desired %s", e.Client, e.Desired)
		}
	}},
}

// grown registers a node again with more capacity.
func (d *desk) grown(n int, cpu int64) *state.RegisterNode {
	d.evals++
	c := statetest.AddNode(n, cpu, 4000)
	c.Seed, c.Now = statetest.ID[berth.Eval](1000+d.evals), time.Now().UnixNano()
	return c
}

// node sets whether a node sends heartbeats.
func (d *desk) node(n int, status string) {
	d.t.Helper()
	d.evals++
	d.do(&state.SetNodeStatus{ID: statetest.ID[berth.Node](n), Status: status, Seed: statetest.ID[berth.Eval](1000 + d.evals), Now: time.Now().UnixNano()})
}

// unknown runs an instance of a job that waits an hour for disconnected
// clients, and disconnects its node.
func (d *desk) unknown() *berth.Alloc {
	d.t.Helper()
	d.do(statetest.Register(statetest.Job(d.t, `{"ID":"web","TaskGroups":[{"Name":"g","Count":1,"Disconnect":{"LostAfter":3600000000000}}]}`), 1))
	d.work()
	a := live(d.store.Snapshot(), "web")[0]
	d.says(a, berth.ClientRunning)
	d.node(1, berth.NodeDisconnected)
	a = d.work().Alloc(a.ID)
	if a.Client != berth.ClientUnknown {
		d.t.Fatalf("on a node that is not heard it is %s", a.Client)
	}
	return a
}

// says lets the agent report the status of an allocation.
func (d *desk) says(a *berth.Alloc, c berth.ClientStatus) {
	d.t.Helper()
	d.do(&state.ReportAllocs{Node: a.NodeID, Updates: []state.AllocUpdate{{ID: a.ID, Client: c}}, Now: time.Now().UnixNano()})
}

func byUser(n int, trigger string) state.EvalSeed {
	return state.EvalSeed{ID: statetest.ID[berth.Eval](n), TriggeredBy: trigger, Cause: berth.Cause{Kind: berth.CauseUser}}
}

// versions registers versions of a job with the given counts, one after the
// other, and has each decided.
func (d *desk) versions(counts ...int) {
	d.t.Helper()
	for i, n := range counts {
		d.do(statetest.Register(statetest.Job(d.t, fmt.Sprintf(`{"ID":"web","TaskGroups":[{"Name":"g","Count":%d}]}`, n)), i+1))
		d.work()
	}
}

// changes applies a command and returns the evaluation that it raised, which
// waits to be decided.
func (d *desk) changes(c state.Command, eval int) *berth.Eval {
	d.t.Helper()
	d.do(c)
	e := d.store.Snapshot().Eval(statetest.ID[berth.Eval](eval))
	if e == nil || e.Status != berth.EvalPending || e.CreateIndex != d.store.Snapshot().Index {
		d.t.Fatalf("%T raised %+v", c, e)
	}
	return e
}
