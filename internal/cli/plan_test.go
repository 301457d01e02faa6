package cli

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/schedule"
	dry "berth/internal/schedule/explain"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/jobspec"
	"berth/op"
)

// The stories of testdata/plan show how a change of a job file is reported. The
// first step of each is the registered job; every other one is planned against
// it, followed by the output of "job plan". A step that is only a line "nothing"
// is no job. A line "show everything" before a job asks for -verbose.
func TestPlanStories(t *testing.T) {
	statetest.Stories(t, "testdata/plan/*.txt", func(t *testing.T) func(input string) string {
		snap, first := planCluster(t), true
		return func(input string) string {
			text, verbose := strings.CutPrefix(input, "show everything\n")
			if first {
				first = false
				if text != "nothing\n" {
					snap = planned(t, snap, jobOf(t, text))
				}
				return ""
			}
			return planText(t, snap, jobOf(t, text), verbose)
		}
	})
}

// planCluster is a cluster of two nodes of class a and one of class b.
func planCluster(t *testing.T) *state.Snapshot {
	tx := state.Begin(state.New().Snapshot())
	for n, class := range []string{"a", "a", "b"} {
		c := statetest.AddNode(n+1, 4000, 4000, func(n *berth.Node) { n.NodeClass = class })
		if r := tx.Apply(c); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	return tx.Seal()
}

// planned registers a job and places it.
func planned(t *testing.T, snap *state.Snapshot, j *berth.Job) *state.Snapshot {
	t.Helper()
	tx := state.Begin(snap)
	if r := tx.Apply(statetest.Register(j, 1)); r.Err != nil {
		t.Fatal(r.Err)
	}
	if r := tx.Apply(schedule.Decide(tx.Seal(), tx.Eval(statetest.ID[berth.Eval](1)), 0, time.Unix(1000, 0)).Plan); r.Err != nil {
		t.Fatal(r.Err)
	}
	return tx.Seal()
}

func jobOf(t *testing.T, text string) *berth.Job {
	t.Helper()
	j, err := jobspec.Parse(context.Background(), jobspec.File{Name: "job", Text: []byte(text)}, jobspec.Options{})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return j
}

func planText(t *testing.T, snap *state.Snapshot, j *berth.Job, verbose bool) string {
	t.Helper()
	now := time.Unix(2000, 0)
	c := &state.RegisterJob{Job: j, Now: now.UnixNano()}
	if j.Schedulable() {
		c.Eval = state.EvalSeed{ID: statetest.ID[berth.Eval](1 << 20), TriggeredBy: berth.TriggerJobRegister, Cause: berth.Cause{Kind: berth.CauseUser}}
	}
	d, err := dry.Plan(snap, c, now)
	if err != nil {
		return "refused: " + err.Error()
	}
	out := &op.JobPlanned{
		Diff: d.Diff(), Changes: d.Changes, FailedTGAllocs: d.Failed, Annotations: &op.PlanAnnotations{DesiredTGUpdates: d.Desired},
	}
	lines := diffLines(out.Diff, verbose)
	for _, g := range failedGroups(&op.Eval{FailedTGAllocs: out.FailedTGAllocs}) {
		lines = append(lines, g.head)
		lines = append(lines, g.lines...)
	}
	lines = append(lines, "Changes: "+changesText(out.Changes))
	if changesAllocs(out) {
		lines = append(lines, fmt.Sprintf("exit code %d", exitChanges))
	}
	return strings.Join(lines, "\n") + "\n"
}

// Many preempted allocations are counted: by job, and many jobs by type.
func TestPreemptionsAreCounted(t *testing.T) {
	list := func(jobs, each int) (out []op.AllocStub) {
		for j := range jobs {
			for n := range each {
				out = append(out, op.AllocStub{
					ID: statetest.ID[berth.Alloc](100*j + n), JobID: berth.JobID(fmt.Sprint("job", j)), Namespace: "default",
					JobType: []string{"service", "batch"}[j%2], TaskGroup: "g",
				})
			}
		}
		return out
	}
	for _, c := range []struct {
		jobs, each int
		verbose    bool
		rows       int
		last       string
	}{
		{1, 2, false, 2, "00000001 job0 g"},
		{3, 4, false, 3, "job2 default service 4"},
		{3, 4, true, 12, "000000cb-0000-0000-0000-000000000001 job2 g"},
		{12, 1, false, 2, "service 6"},
	} {
		rows := preemptions(list(c.jobs, c.each), c.verbose)
		if got := strings.Join(rows[len(rows)-1], " "); len(rows) != c.rows+1 || got != c.last {
			t.Errorf("%d jobs with %d each: %d rows, the last %q", c.jobs, c.each, len(rows)-1, got)
		}
	}
}

// The command line that a plan proposes is taken by a shell as it was meant.
func TestShellWords(t *testing.T) {
	for in, want := range map[string]string{
		"web.nomad": "web.nomad", "-var=a=b": "-var=a=b", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$HOME": "'$HOME'", "[1]": "'[1]'",
	} {
		if got := shellWord(in); got != want {
			t.Errorf("%q is %s, not %s", in, got, want)
		}
	}
}
