package explain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/schedule"
	"berth/internal/schedule/explain"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"

	"pgregory.net/rapid"
)

// cluster is a state in which evaluations are decided one by one.
type cluster struct {
	*statetest.Log
	t   *testing.T
	now time.Time
}

func newCluster(t *testing.T, cmds ...state.Command) *cluster {
	_, log := statetest.New(t, cmds...)
	return &cluster{log, t, time.Unix(1000, 0)}
}

func (c *cluster) snap() *state.Snapshot { return c.Store.Snapshot() }

// decide decides every evaluation that is open and due.
func (c *cluster) decide() {
	c.t.Helper()
	for _, status := range []string{berth.EvalPending, berth.EvalBlocked} {
		for e := range c.snap().OpenEvals(status) {
			if e.WaitUntil <= c.now.UnixNano() {
				c.Must(c.t, schedule.Decide(c.snap(), e, 0, c.now).Plan)
			}
		}
	}
}

// alloc returns the newest allocation of that name.
func (c *cluster) alloc(name string) (found *berth.Alloc) {
	c.t.Helper()
	for a := range c.snap().Allocs() {
		if a.Name() == name {
			found = a
		}
	}
	if found == nil {
		c.t.Fatalf("there is no %s", name)
	}
	return found
}

func (c *cluster) report(a *berth.Alloc, how berth.ClientStatus) {
	c.t.Helper()
	c.Must(c.t, &state.ReportAllocs{Node: a.NodeID, Now: c.now.UnixNano(), Updates: []state.AllocUpdate{{ID: a.ID, Client: how}}})
}

func key(id string) berth.JobKey {
	return berth.JobKey{Namespace: berth.DefaultNamespace, ID: berth.JobID(id)}
}

// drawn is a trace as text: how deep, why, how it ended, how its parent is
// known, and what it did.
func drawn(steps []explain.Step) string {
	var b strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&b, "%s%s %s", strings.Repeat("  ", s.Depth), s.Eval.TriggeredBy, s.Eval.Status)
		if s.Link != "" {
			fmt.Fprintf(&b, " by %s", s.Link)
		}
		for _, x := range []struct {
			what string
			list []*berth.Alloc
		}{{"placed", s.Placed}, {"updated", s.Updated}, {"stopped", s.Stopped}} {
			if len(x.list) > 0 {
				fmt.Fprintf(&b, "; %s", x.what)
			}
			for _, a := range x.list {
				fmt.Fprintf(&b, " %s", a.Name())
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func web(t *testing.T, count, mem, kill int) *berth.Job {
	return statetest.Job(t, fmt.Sprintf(`{"ID":"web","TaskGroups":[{"Name":"g","Count":%d,
		"ReschedulePolicy":{"Delay":30000000000,"DelayFunction":"constant","Unlimited":true},
		"Tasks":[{"Name":"t","Driver":"mock_driver","KillTimeout":%d,"Resources":{"CPU":100,"MemoryMB":%d}}]}]}`, count, kill, mem))
}

// The whole story of a job: what found no place waits and gets one, a failure
// is replaced later, an update in place does not take from the first evaluation
// what it placed, a node that is lost and an evaluation that failed leave gaps
// in the pointers, and a purge leaves all of it to be read.
func TestAStoryWithGaps(t *testing.T) {
	c := newCluster(t, statetest.AddNode(1, 4000, 1000), statetest.Register(web(t, 2, 600, 5e9), 1))
	c.decide()
	c.Must(t, statetest.AddNode(2, 4000, 1000))
	c.decide()
	c.Must(t, statetest.Register(web(t, 2, 600, 9e9), 2)) // in place
	c.decide()
	c.report(c.alloc("web.g[0]"), berth.ClientFailed)
	c.decide() // finds that it is due later
	c.now = c.now.Add(time.Minute)
	c.decide() // replaces it
	c.Must(t, &state.SetNodeStatus{ID: c.alloc("web.g[1]").NodeID, Status: berth.NodeDown, Seed: [16]byte{9}, Now: c.now.UnixNano()})
	for e := range c.snap().OpenEvals(berth.EvalPending) { // nobody could decide it
		c.Must(t, &state.FailEval{ID: e.ID, Why: "too often", FollowUp: statetest.ID[berth.Eval](77), Wait: c.now.UnixNano(), Now: c.now.UnixNano()})
	}
	c.decide()
	want := `job-register complete; placed web.g[0]
  queued-allocs complete by previous; placed web.g[1]
job-register complete; updated web.g[0] web.g[1]
  alloc-failure complete by alloc
    alloc-failure complete by previous; placed web.g[0]; stopped web.g[0]
node-update failed
  failed-follow-up complete by previous; stopped web.g[1]
    queued-allocs blocked by previous
`
	uid := c.snap().Job(key("web")).UID
	if got := drawn(explain.Trace(c.snap(), key("web"), &uid)); got != want {
		t.Errorf("the story is\n%s\nit should be\n%s", got, want)
	}
	c.Must(t, &state.StopJob{Key: key("web"), Purge: true, Now: c.now.UnixNano(), Eval: state.EvalSeed{
		ID: statetest.ID[berth.Eval](3), TriggeredBy: berth.TriggerJobDeregister, Cause: berth.Cause{Kind: berth.CauseUser},
	}})
	c.decide()
	want = strings.Replace(want, "queued-allocs blocked", "queued-allocs canceled", 1) + "job-deregister complete; stopped web.g[0]\n"
	if got := drawn(explain.Trace(c.snap(), key("web"), &uid)); got != want {
		t.Errorf("after a purge the story is\n%s\nit should be\n%s", got, want)
	}
	c.Must(t, statetest.Register(web(t, 1, 100, 5e9), 4)) // another of the same name
	now := c.snap().Job(key("web")).UID
	if got := drawn(explain.Trace(c.snap(), key("web"), &now)); got != "job-register pending\n" {
		t.Errorf("the next of the name has the story\n%s", got)
	}
	if n := len(explain.Trace(c.snap(), key("web"), nil)); n != 10 {
		t.Errorf("both have %d evaluations", n)
	}
	first := c.snap().Eval(statetest.ID[berth.Eval](77))
	if rel := explain.Related(c.snap(), first); len(rel) != 2 || rel[0].TriggeredBy != berth.TriggerNodeUpdate || rel[1].TriggeredBy != berth.TriggerQueuedAllocs {
		t.Errorf("related to the follow-up are %v", rel)
	}
}

// Whatever the state: a trace has each evaluation of the job once, each behind
// the one it came from and one deeper, and says of each allocation at most once
// who placed and who stopped it.
func TestTracesHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		snap := drawState(t)
		for i := range 5 {
			k := key(fmt.Sprint("job", i))
			depth, placed, stopped := map[berth.EvalID]int{}, map[berth.AllocID]bool{}, map[berth.AllocID]bool{}
			for _, s := range explain.Trace(snap, k, nil) {
				if _, twice := depth[s.Eval.ID]; twice {
					t.Fatalf("evaluation %s is there twice", s.Eval.ID)
				}
				at := 0
				if !s.Parent.IsZero() && s.Link != "gone" {
					p, ok := depth[s.Parent]
					if at = p + 1; !ok {
						t.Fatalf("evaluation %s stands before %s, which it came from", s.Eval.ID, s.Parent)
					}
				}
				if s.Depth != at {
					t.Fatalf("evaluation %s stands at depth %d, not %d", s.Eval.ID, s.Depth, at)
				}
				depth[s.Eval.ID] = at
				once(t, placed, s.Placed)
				once(t, stopped, s.Stopped)
			}
			for e := range snap.EvalsOf(k) {
				if _, ok := depth[e.ID]; !ok {
					t.Fatalf("evaluation %s is not in the trace of its job", e.ID)
				}
			}
		}
	})
}

func once(t *rapid.T, seen map[berth.AllocID]bool, list []*berth.Alloc) {
	t.Helper()
	for _, a := range list {
		if seen[a.ID] {
			t.Fatalf("allocation %s is there twice", a.ID)
		}
		seen[a.ID] = true
	}
}

// What is said of a job and its evaluations, from stage to stage.
func TestVerdicts(t *testing.T) {
	c := newCluster(t, statetest.AddNode(1, 4000, 1000), statetest.AddNode(2, 2000, 500), statetest.Register(web(t, 1, 600, 5e9), 1))
	job := func(verdict string, parts ...string) *op.Explanation {
		t.Helper()
		x := explain.Job(c.snap(), key("web"), nowhere, c.now)
		said(t, x, verdict, parts)
		return x
	}
	eval := func(n int, verdict string, parts ...string) {
		t.Helper()
		said(t, explain.Eval(c.snap(), c.snap().Eval(statetest.ID[berth.Eval](n)), nowhere, c.now), verdict, parts)
	}
	job(op.WhyScheduler, "1 of 1 will be placed when a scheduler runs")
	eval(1, op.WhyScheduler, "it waits for a scheduler")
	c.decide()
	x := job(op.WhyRuns, "1 of 1 placed; there is nothing to do")
	if a := x.Groups[0].Allocs[0]; a.NodeName != "n1" || !strings.Contains(a.Text, "the only one of 2 nodes") {
		t.Errorf("why there: %+v", a)
	}
	eval(1, op.WhyDone, "it placed 1; nothing was left to do")

	c.Must(t, statetest.Register(web(t, 1, 600, 5e9), 2))
	c.decide()
	eval(2, op.WhyNothing, "found nothing to do")

	c.report(c.alloc("web.g[0]"), berth.ClientFailed)
	c.decide()
	x = job(op.WhyTime, "1 of 1 failed and will be replaced later, the first at 1970-01-01T00:17:10Z")
	if len(x.Waits) != 1 || x.Waits[0].Until.Unix() != 1030 || !strings.Contains(x.Waits[0].Why, "it replaces web.g[0], which failed; the reschedule policy delays attempt 1 (delay 30s, constant)") {
		t.Errorf("it waits for %+v", x.Waits)
	}
	c.now = c.now.Add(time.Minute)
	c.decide()
	job(op.WhyRuns)

	// Other tasks in the same room: the old must be gone first.
	big := web(t, 1, 900, 5e9)
	c.Must(t, statetest.Register(big, 3))
	c.decide()
	x = job(op.WhyStop, "1 of 1 wait until allocations being stopped have freed their capacity")
	if ch := x.Groups[0].Changes[0]; ch.Stopping != 1 {
		t.Errorf("the smallest change is %+v", ch)
	}
	eval(3, op.WhyStop, "1 allocation found no place")
	c.report(c.alloc("web.g[0]"), berth.ClientComplete)
	c.decide()
	job(op.WhyRuns)
	eval(3, op.WhyDone, "Later evaluations dealt with that")

	// Two evaluations wait: the older is needless.
	c.Must(t, statetest.Register(big, 4), &state.CancelEvals{IDs: []berth.EvalID{statetest.ID[berth.Eval](4)}, Why: "superseded by evaluation X", Now: 1})
	eval(4, op.WhyCanceled, "was canceled: superseded by evaluation X")
	c.Must(t, statetest.Register(big, 5), &state.FailEval{
		ID: statetest.ID[berth.Eval](5), Why: "it broke", FollowUp: statetest.ID[berth.Eval](6), Wait: c.now.Add(time.Minute).UnixNano(), Timeline: berth.Timeline{Deliveries: 3},
	})
	eval(5, op.WhyFailed, "failed: it broke. It was delivered to a scheduler 3 times. Evaluation 00000006 retries it at 1970-01-01T00:18:40Z")
	eval(6, op.WhyTime, "until 1970-01-01T00:18:40Z: it retries evaluation 00000005, which failed: it broke")

	c.Must(t, &state.StopJob{Key: key("web"), Now: c.now.UnixNano(), Eval: state.EvalSeed{
		ID: statetest.ID[berth.Eval](7), TriggeredBy: berth.TriggerJobDeregister, Cause: berth.Cause{Kind: berth.CauseUser},
	}})
	job(op.WhyStopped, "1 of its 3 allocations has not ended yet")
	c.decide()
	eval(7, op.WhyDone, "it stopped 1; nothing was left to do")
}

func said(t *testing.T, x *op.Explanation, verdict string, parts []string) {
	t.Helper()
	if x.Verdict != verdict {
		t.Errorf("the verdict is %q, not %q: %s", x.Verdict, verdict, x.Summary)
	}
	for _, p := range parts {
		if !strings.Contains(x.Summary, p) {
			t.Errorf("%q is not in %q", p, x.Summary)
		}
	}
}
