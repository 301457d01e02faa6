package cli

import (
	"strings"
	"testing"
	"time"

	"berth"
	"berth/client"
	"berth/internal/eventually"
	"berth/op"
)

// "job run" whose evaluation waits and is superseded follows the newer one to
// the end of the deployment, and its exit code tells what became of the job.
func TestRunningAJobFollowsTheSuccessorOfItsEvaluation(t *testing.T) {
	c, err := startCluster(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.stop(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := c.addNode("n1", 1, options{}); err != nil {
		t.Fatal(err)
	}
	pause := func(on bool) {
		t.Helper()
		in := op.SetScheduler{SchedulerConfig: berth.DefaultSchedulerConfig}
		in.PauseEvalBroker = on
		if _, _, err := client.Call(t.Context(), c.client, op.WriteScheduler, in); err != nil {
			t.Fatal(err)
		}
	}
	pause(true)
	const job = `job "web" {
		group "g" {
			update { min_healthy_time = "1s" }
			task "app" {
				driver = "raw_exec"
				config { command = "/bin/sleep" }
			}
		}
	}`
	out := &listener{text: "Evaluation triggered by job", told: make(chan struct{})}
	var errs strings.Builder
	code := make(chan int)
	p := &Program{Name: "berth", Args: []string{"job", "run", "-"}, Env: []string{"BERTH_ADDR=" + c.http}, In: strings.NewReader(job), Out: out, Err: &errs, Now: time.Now}
	go func() { code <- p.Run(t.Context()) }()
	<-out.told
	// Another evaluation of the job makes the first one superfluous.
	if _, _, err := client.Call(t.Context(), c.client, op.Evaluate, op.EvaluateJob{JobID: "web"}); err != nil {
		t.Fatal(err)
	}
	var first, second op.Eval
	eventually.True(t, "the first evaluation is superseded", func() bool {
		list, _, err := client.Call(t.Context(), c.client, op.JobEvals, op.JobRef{JobID: "web"})
		if err != nil || len(list) != 2 {
			return false
		}
		first, second = list[0], list[1]
		if first.SupersededBy.IsZero() {
			first, second = second, first
		}
		return first.SupersededBy == second.ID
	})
	pause(false)
	if got := <-code; got != exitGood {
		t.Errorf("exit code %d", got)
	}
	text := out.all.String()
	for _, want := range []string{
		`Evaluation "` + first.ID.Short() + `" was superseded by evaluation "` + second.ID.Short() + `"`,
		`Evaluation "` + second.ID.Short() + `" finished with status "complete"`,
		`Monitoring deployment`, "successful",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	var drawn strings.Builder
	p = &Program{Name: "berth", Args: []string{"eval", "trace", "web"}, Env: p.Env, In: strings.NewReader(""), Out: &drawn, Err: &errs, Now: time.Now}
	if got := p.Run(t.Context()); got != exitGood {
		t.Errorf("eval trace: exit code %d", got)
	}
	for _, want := range []string{"superseded by " + second.ID.Short(), "supersedes " + first.ID.Short()} {
		if !strings.Contains(drawn.String(), want) {
			t.Errorf("the trace lacks %q:\n%s", want, &drawn)
		}
	}
	if t.Failed() {
		t.Logf("%s\n%s", text, errs.String())
	}
}
