package explain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/leader"
	"berth/internal/schedule/explain"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/internal/streams/submit"
	"berth/op"
)

// streamCluster is a cluster in which stream jobs are submitted.
type streamCluster struct {
	*cluster
	ctrl *submit.Controller
}

func newStreamCluster(t *testing.T, cmds ...state.Command) *streamCluster {
	c := newCluster(t, append(cmds, &state.BeginTerm{Term: 1})...)
	return &streamCluster{c, submit.New([32]byte{1})}
}

// settle lets the controller and the scheduler work until nothing is left to do
// now.
func (c *streamCluster) settle() {
	c.t.Helper()
	for range 200 {
		do, _ := c.ctrl.Step(c.snap(), c.now)
		leader.Stamp(c.snap().Term, do...)
		if len(do) == 0 {
			return
		}
		c.Must(c.t, do...)
		c.decide()
	}
	c.t.Fatal("it does not settle")
}

// flow is a stream job of two elements in one group, with parts to be said
// otherwise.
func flow(t *testing.T, id, pools, placement, policy string, memory int) state.Command {
	return statetest.Register(statetest.Job(t, fmt.Sprintf(`{"ID": %q, "Type": "stream", "Stream": {"HostPools": [%s], "Regions": [{"Name": "r", "Groups": ["work"], "Width": 2}]},
		"TaskGroups": [{"Name": "work", "Stream": {"Policy": {%s}, "Placement": {%s}}, "Resources": {"CPU": 100, "MemoryMB": %d}}]}`, id, pools, policy, placement, memory)), 1)
}

// said checks what is said of a job and of its only group.
func (c *streamCluster) said(id, verdict, group string, parts ...string) *op.Explanation {
	c.t.Helper()
	x := explain.Job(c.snap(), key(id), nowhere, c.now)
	said(c.t, x, verdict, parts)
	if len(x.Groups) == 1 && !strings.Contains(x.Groups[0].Summary, group) {
		c.t.Errorf("the group is %q, which lacks %q", x.Groups[0].Summary, group)
	}
	return x
}

// D2 b: processing elements that fail are launched again, after a growing delay
// if they ran briefly, unless their policy says otherwise.
func TestElementsThatFail(t *testing.T) {
	c := newStreamCluster(t, statetest.AddNode(1, 4000, 1000))
	c.Must(t, flow(t, "flow", "", "", "", 100), flow(t, "once", "", "", `"RestartFailed": false`, 100))
	c.settle()
	c.said("flow", op.WhyRuns, "2 desired: 2 placed", "2 of 2 placed; there is nothing to do")
	for _, name := range []string{"flow.work[1]", "once.work[1]"} {
		c.report(c.alloc(name), berth.ClientFailed)
	}
	c.settle()
	at := c.now.Add(time.Second).UTC().Format(time.RFC3339)
	c.said("flow", op.WhyTime, "2 desired: 1 placed, 1 ended and will be launched again, the first at "+at, "1 of 2 ended and will be launched again, the first at "+at)
	c.said("once", op.WhyGaveUp, "1 failed and will not be replaced: the policy of its group does not launch it again", "1 of 2 failed and will not be replaced")
	c.now = c.now.Add(time.Second)
	c.said("flow", op.WhySubmission, "1 is launched when it is its turn", "1 of 2 placed; 1 is launched when it is its turn")
	c.settle()
	c.said("flow", op.WhyRuns, "2 desired: 2 placed")
}

// D2 c: a submission that waits for an exclusive pool says which, and who has the
// nodes; one that was given up says why.
func TestSubmissionsThatWaitForAPool(t *testing.T) {
	const pool = `{"Name": "p", "Hosts": ["n1"], "Mode": "exclusive"}`
	c := newStreamCluster(t, statetest.AddNode(1, 4000, 1000))
	c.Must(t, flow(t, "first", pool, `"Pool": "p"`, "", 100))
	c.settle()
	c.Must(t, flow(t, "second", pool, `"Pool": "p"`, "", 100), flow(t, "third", "", `"Host": "n9"`, "", 100))
	c.settle()
	c.said("first", op.WhyRuns, "2 desired: 2 placed")
	c.said("second", op.WhyRoom, "2 desired: 2 are launched when it is their turn",
		`0 of 2 placed; its submission waits: host pool "p": needs 1 nodes, but of 1 that match 0 are up and free; node n1 is in the exclusive pool "p" of job "first"`)
	c.said("third", op.WhyFailed, "", `its submission was given up: group "work": placement host: no node has the name or address "n9"`)
	// Whoever needs no pool finds out who keeps it off the node.
	c.Must(t, flow(t, "fourth", "", "", "", 100))
	c.settle()
	x := c.said("fourth", op.WhyRoom, "2 find no place")
	if x.Groups[0].Conditions["reserved by host pool p of job first"] != 1 {
		t.Errorf("%+v", x.Groups[0].Conditions)
	}
}

// D2 g: why an element is where it is stays known if another finds no place.
func TestWhyThereIfAnotherFindsNoPlace(t *testing.T) {
	c := newStreamCluster(t, statetest.AddNode(1, 4000, 1000))
	c.Must(t, flow(t, "flow", "", "", "", 600))
	c.settle()
	x := c.said("flow", op.WhyRoom, "1 placed")
	if got := x.Groups[0].Allocs[0].Text; strings.Contains(got, "no longer known") {
		t.Errorf("just placed, and %q", got)
	}
}

// What a failed deployment leaves is not said to run: of the new version nothing
// more is placed, and who asks learns that something is missing, or old.
func TestADeploymentThatFailedLeavesSomethingMissing(t *testing.T) {
	job := func(version, memory int) state.Command {
		return statetest.Register(statetest.Job(t, fmt.Sprintf(`{"ID":"web","Meta":{"v":"%d"},"TaskGroups":[{"Name":"g","Count":2,
			"Update":{"MaxParallel":1,"HealthCheck":"task_states","HealthyDeadline":300000000000,"ProgressDeadline":600000000000},
			"Tasks":[{"Name":"t","Driver":"mock_driver","Resources":{"CPU":100,"MemoryMB":%d}}]}]}`, version, memory)), version)
	}
	c := newCluster(t, statetest.AddNode(1, 4000, 1000), job(1, 600))
	c.decide()
	said(t, explain.Job(c.snap(), key("web"), nowhere, c.now), op.WhyRoom, []string{"1 of 2 finds no place"})
	fail := func() {
		t.Helper()
		d := c.snap().NewestDeployment(key("web"), c.snap().Job(key("web")).UID)
		c.Must(t, &state.FailDeployment{ID: d.ID, Description: berth.DeploymentNoProgress, Now: c.now.UnixNano()})
		c.decide()
	}
	fail()
	x := explain.Job(c.snap(), key("web"), nowhere, c.now)
	said(t, x, op.WhyIncomplete, []string{"1 of 2 placed, and 1 is missing; deployment ", "of version 0 has failed", "change the job"})
	if s := x.Groups[0].Summary; !strings.Contains(s, "1 placed, 1 is not placed, because the deployment has failed") {
		t.Error(s)
	}
	// A version that fits, of which the deployment fails halfway.
	c.Must(t, job(2, 100))
	c.decide()
	fail()
	said(t, explain.Job(c.snap(), key("web"), nowhere, c.now), op.WhyIncomplete, []string{"deployment ", "of version 1 has failed"})
}
