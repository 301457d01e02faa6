package explain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/schedule/explain"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"
)

// An instance of a system job keeps its older version where its node takes nothing
// new.
func TestAnOlderVersionWaitsForItsNode(t *testing.T) {
	version := func(n int) *berth.Job {
		return statetest.Job(t, fmt.Sprintf(`{"ID":"log","Type":"system","Update":{"MaxParallel":0},"Meta":{"v":"%d"},"TaskGroups":[{"Name":"g",
			"Tasks":[{"Name":"t","Driver":"mock_driver","Resources":{"CPU":100,"MemoryMB":100}}]}]}`, n))
	}
	c := newCluster(t, statetest.AddNode(1, 4000, 1000), statetest.AddNode(2, 4000, 1000), statetest.Register(version(1), 1))
	c.decide()
	ill := statetest.AddNode(2, 4000, 1000)
	ill.Node.Drivers["mock_driver"].Healthy = false
	c.Must(t, ill, statetest.Register(version(2), 2))
	c.decide()
	x := explain.Job(c.snap(), key("log"), nowhere, c.now)
	said(t, x, op.WhyNode, []string{"2 of 2 placed; 1 keeps the tasks of an older version until its node is ready and eligible and its drivers healthy"})
	if g := x.Groups[0].Summary; !strings.Contains(g, "1 keeps the tasks of an older version") {
		t.Errorf("the group: %s", g)
	}
	c.Must(t, statetest.AddNode(2, 4000, 1000))
	c.decide()
	said(t, explain.Job(c.snap(), key("log"), nowhere, c.now), op.WhyRuns, []string{"2 of 2 placed; there is nothing to do"})
}

// A job whose instances are placed may still be on its way: the broker is paused, its
// deployment waits for health, for a person or is paused, or a task waits for the
// delay of its restart policy.
func TestWhatIsPlacedIsNotDone(t *testing.T) {
	rolled := func(version int) *berth.Job {
		return statetest.Job(t, fmt.Sprintf(`{"ID":"web","Meta":{"v":"%d"},"TaskGroups":[{"Name":"g","Count":2,
			"Update":{"MaxParallel":1,"Canary":1,"HealthCheck":"task_states","HealthyDeadline":300000000000,"ProgressDeadline":600000000000},
			"Tasks":[{"Name":"t","Driver":"mock_driver","Resources":{"CPU":100,"MemoryMB":100}}]}]}`, version))
	}
	c := newCluster(t, statetest.AddNode(1, 4000, 1000), &state.SetSchedulerConfig{Config: berth.SchedulerConfig{PauseEvalBroker: true}}, statetest.Register(rolled(1), 1))
	job := func(verdict string, parts ...string) *op.Explanation {
		t.Helper()
		x := explain.Job(c.snap(), key("web"), nowhere, c.now)
		said(t, x, verdict, parts)
		return x
	}
	x := job(op.WhyScheduler, "the evaluation broker is paused")
	if len(x.Waits) != 1 || !strings.Contains(x.Waits[0].Why, "-pause-eval-broker=false") {
		t.Errorf("it waits for %+v", x.Waits)
	}
	c.Must(t, &state.SetSchedulerConfig{})
	c.decide()
	job(op.WhyDeployment, "2 of 2 placed; deployment ", "of version 0 goes on: 0 of 2 instances of group \"g\" are healthy; without another one by 1970-01-01T00:26:40Z it fails")
	healthy := func(canary bool) {
		t.Helper()
		is := true
		for a := range c.snap().Allocs() {
			if a.Live() && (canary || a.Job.Version == 0) {
				c.Must(t, &state.ReportAllocs{Node: a.NodeID, Now: c.now.UnixNano(), Updates: []state.AllocUpdate{{
					ID: a.ID, Client: berth.ClientRunning, Deployment: &berth.AllocDeploymentStatus{Healthy: &is, Timestamp: c.now},
				}}})
			}
		}
		c.decide()
	}
	healthy(false)
	job(op.WhyRuns, "2 of 2 placed; there is nothing to do")

	c.Must(t, statetest.Register(rolled(2), 2))
	c.decide()
	job(op.WhyDeployment, "0 of 1 canaries of group \"g\" are healthy")
	healthy(true)
	job(op.WhyDeployment, "all canaries of group \"g\" are healthy and wait for `berth deployment promote ")
	d := c.snap().NewestDeployment(key("web"), c.snap().Job(key("web")).UID)
	c.Must(t, &state.SetDeploymentStatus{ID: d.ID, Status: berth.DeploymentPaused, Now: c.now.UnixNano()})
	job(op.WhyDeployment, "is paused: `berth deployment resume ")

	// A task that failed is started again when its delay is over.
	a := c.alloc("web.g[0]")
	c.Must(t, &state.ReportAllocs{Node: a.NodeID, Now: c.now.UnixNano(), Updates: []state.AllocUpdate{{
		ID: a.ID, Client: berth.ClientPending, Tasks: state.PackTaskStates(map[string]*berth.TaskState{"t": {State: berth.TaskPending, Events: []berth.TaskEvent{
			{Type: berth.EventRestarting, Time: c.now.UnixNano(), Details: map[string]string{berth.DetailStartDelay: "15000000000"}},
		}}}),
	}}})
	x = job(op.WhyTime, "1 waits to start a task again, the first at 1970-01-01T00:16:55Z, by the restart policy")
	if g := x.Groups[0]; g.Restarting != 1 || !strings.Contains(g.Summary, "1 of them waits to start a task again") {
		t.Errorf("the group: %+v", g)
	}
	c.now = c.now.Add(15 * time.Second)
	job(op.WhyDeployment)
}
