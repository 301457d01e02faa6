package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/eventually"
	"berth/op"
)

// A deployment whose tasks cannot start says why as soon as an agent reports it,
// long before the deployment is given up.
func TestADeploymentSaysWhyItsTasksFail(t *testing.T) {
	c, err := startCluster(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.stop(); err != nil {
			t.Error(err)
		}
	}()
	n, err := c.addNode("n1", 1, options{"idle": "yes"})
	if err != nil {
		t.Fatal(err)
	}
	const job = `job "web" {
		group "g" {
			task "app" {
				driver = "raw_exec"
				config { command = "/bin/slep" }
			}
		}
	}`
	out := &listener{text: `task "app": Driver Failure: config.command: no such file`, told: make(chan struct{})}
	var errs strings.Builder
	code := make(chan int)
	ctx, interrupt := context.WithCancel(t.Context())
	p := &Program{Name: "berth", Args: []string{"job", "run", "-"}, Env: []string{"BERTH_ADDR=" + c.http}, In: strings.NewReader(job), Out: out, Err: &errs, Now: time.Now}
	go func() { code <- p.Run(ctx) }()
	eventually.True(t, "the allocation is placed", func() bool { return c.alloc("web.g[0]") != nil })
	a := c.alloc("web.g[0]")
	list, err := n.fetch(t.Context(), []string{a.ID.String()}, a.ModifyIndex)
	if err != nil {
		t.Fatal(err)
	}
	r := n.says(list[0], berth.ClientPending, "")
	e := berth.NewTaskEvent(berth.EventDriverFailure, time.Now())
	e.DisplayMessage = "config.command: no such file"
	r.TaskStates["app"].State, r.TaskStates["app"].Events = berth.TaskPending, []berth.TaskEvent{e}
	if err := n.report(t.Context(), []*op.AllocReport{r}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-out.told:
	case got := <-code:
		t.Fatalf("it ended with %d:\n%s\n%s", got, &out.all, &errs)
	}
	interrupt()
	<-code
	if strings.Count(out.all.String(), "no such file") != 1 {
		t.Errorf("it is said more than once:\n%s", &out.all)
	}
}
