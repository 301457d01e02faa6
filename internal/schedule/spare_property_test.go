package schedule_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/schedule"
	"berth/internal/state"
	"berth/internal/state/statetest"

	"pgregory.net/rapid"
)

// rollout is a job in a cluster, for tests that follow it over several
// decisions.
type rollout struct {
	t     testing.TB
	store *state.Store
	log   *statetest.Log
	evals int
}

func newRollout(t testing.TB, nodes ...*state.RegisterNode) *rollout {
	t.Helper()
	r := &rollout{t: t}
	r.store, r.log = statetest.New(t)
	for _, n := range nodes {
		r.log.Must(t, n)
	}
	return r
}

// register registers a version of the job, and applies the decision about it.
func (r *rollout) register(text string) schedule.Decision {
	r.t.Helper()
	r.evals++
	r.log.Must(r.t, statetest.Register(statetest.Job(r.t, text), r.evals))
	return r.decide(statetest.ID[berth.Eval](r.evals))
}

// decide decides an evaluation and applies the plan.
func (r *rollout) decide(id berth.EvalID) schedule.Decision {
	r.t.Helper()
	s := r.store.Snapshot()
	d := schedule.Decide(s, s.Eval(id), 0, time.Unix(9, 0))
	r.log.Must(r.t, d.Plan)
	return d
}

// again evaluates the job once more.
func (r *rollout) again() schedule.Decision {
	r.t.Helper()
	for e := range r.store.Snapshot().OpenEvals(berth.EvalBlocked) {
		return r.decide(e.ID)
	}
	return schedule.Decision{Plan: &state.ApplyPlan{End: &state.EvalEnd{}}, Nothing: true}
}

// report has the agents report: what should run runs, what should stop has
// ended. It returns how many run.
func (r *rollout) report() (running int) {
	r.t.Helper()
	for a := range r.store.Snapshot().Allocs() {
		if a.Ended() {
			continue
		}
		status := berth.ClientComplete
		if a.Wanted() {
			status = berth.ClientRunning
			running++
		}
		r.log.Must(r.t, &state.ReportAllocs{Node: a.NodeID, Updates: []state.AllocUpdate{{ID: a.ID, Client: status}}, Now: 2})
	}
	return running
}

// versions draws two versions of a job that differ in the size of its
// instances, and perhaps in their number and in the nodes that they may use.
func versions(t *rapid.T) (first, second string) {
	const hosts, ssd = `{"Operand":"distinct_hosts"}`, `{"LTarget":"${meta.disk}","Operand":"=","RTarget":"ssd"}`
	racks := fmt.Sprintf(`{"LTarget":"${meta.rack}","Operand":"distinct_property","RTarget":"%d"}`, rapid.IntRange(1, 3).Draw(t, "perRack"))
	apart := rapid.SampledFrom([]string{"", hosts, racks}).Draw(t, "apart")
	kind := rapid.SampledFrom([]string{`"Type":"batch"`, `"Type":"service"`, `"Type":"service","Update":{"MaxParallel":2}`}).Draw(t, "kind")
	count := rapid.IntRange(1, 9).Draw(t, "count")
	sizes := rapid.IntRange(1, 16)
	text := func(version string, count int, conditions ...string) string {
		conditions = slices.DeleteFunc(conditions, func(c string) bool { return c == "" })
		cpu := 100 * sizes.Draw(t, version)
		return fmt.Sprintf(`{"ID":"web",%s,"TaskGroups":[{"Name":"g","Count":%d,"Constraints":[%s],"Resources":{"CPU":%d,"MemoryMB":100}}]}`, kind, count, strings.Join(conditions, ","), cpu)
	}
	where := rapid.SampledFrom([]string{"", "", ssd}).Draw(t, "where")
	return text("first", count, apart), text("second", count+rapid.IntRange(0, 2).Draw(t, "more"), apart, where)
}

// Whatever the nodes and the two versions of a job: what is stopped to be
// replaced is replaced, at the latest when it has ended, and never do fewer
// instances run in the end than before.
func TestWhatIsStoppedToBeReplacedIsReplaced(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var nodes []*state.RegisterNode
		for i, cpu := range rapid.SliceOfN(rapid.IntRange(1, 30), 1, 5).Draw(rt, "nodes") {
			n := statetest.AddNode(i+1, int64(100*cpu), 64_000)
			n.Node.Meta = map[string]string{
				"disk": rapid.SampledFrom([]string{"ssd", "hdd"}).Draw(rt, "disk"),
				"rack": rapid.SampledFrom([]string{"r1", "r2"}).Draw(rt, "rack"),
			}
			nodes = append(nodes, n)
		}
		first, second := versions(rt)
		r := newRollout(t, nodes...)
		r.register(first)
		before := r.report()
		d := r.register(second)
		for round := 0; ; round++ {
			after := r.report()
			awaited := withoutReplacement(r.store.Snapshot(), d.Plan)
			if len(awaited) > 0 && d.Plan.End.Blocked == nil && d.Plan.End.Status != berth.EvalBlocked {
				rt.Fatalf("nothing waits for %s", awaited)
			}
			d = r.again()
			for _, a := range awaited {
				if s := r.store.Snapshot().Alloc(a); s.Rest().Next.IsZero() {
					rt.Fatalf("round %d: %s[%d] was stopped to be replaced, and has no replacement", round, s.Group.Name, s.Index)
				}
			}
			if d.Nothing {
				if after < before {
					rt.Fatalf("%d ran before, %d run in the end", before, after)
				}
				return
			}
			if round == 50 {
				rt.Fatal("it never ends")
			}
		}
	})
}

// withoutReplacement returns what a plan stopped to be replaced and does not
// replace yet.
func withoutReplacement(s *state.Snapshot, p *state.ApplyPlan) (out []berth.AllocID) {
	for _, x := range p.Stop {
		if a := s.Alloc(x.ID); (x.StopReason == berth.StopReplaced || x.StopReason == berth.StopUnfit) && a.Rest().Next.IsZero() {
			out = append(out, x.ID)
		}
	}
	return out
}
