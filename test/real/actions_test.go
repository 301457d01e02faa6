package real

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"berth/internal/eventually"
)

// An action of a task runs beside it by its name, with its environment.
func TestActionsOfTasks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent("one", both)
	a.joined()
	action := func(name, script string) string {
		return `action "` + name + `" {
		command = "/bin/sh"
		args    = ["-c", "` + script + `"]
	  }`
	}
	a.good("job", "run", "-detach", w.file("web.nomad", group("service", "web",
		sh("exec sleep 1000", `env { WORD = "hello" }`, action("greet", "echo $WORD; exit 3"), action("echo", "cat")))))
	a.running("web")
	al := a.allocs("web")[0]
	w.holds(a.good("job", "action", "-job", "web"), "greet", "echo", "main", "/bin/sh -c cat")
	if r := a.berth("job", "action", "-i=false", "-job", "web", "greet"); r.Code != 3 || r.Out != "hello\n" {
		t.Errorf("%v", r)
	}
	if r := a.berth("action", "-i=false", "-alloc", al.ID, "-task", "main", "greet"); r.Code != 3 || r.Out != "hello\n" {
		t.Errorf("%v", r)
	}
	for flags, want := range map[string]string{
		"-job web none": `"none" is not declared: want greet, echo`, "-job web -task side greet": `no task "side"`, "greet": "-job or -alloc", "-job other greet": "other",
	} {
		if r := a.berth(append([]string{"job", "action"}, strings.Fields(flags)...)...); r.Code == 0 || !strings.Contains(r.Err, want) {
			t.Errorf("%s: %v; want %s", flags, r, want)
		}
	}
	var list []json.RawMessage
	a.get("/v1/job/web/actions", &list)
	if len(list) != 2 || !strings.Contains(string(list[0]), `"TaskGroupName":"g"`) {
		t.Errorf("%s", list)
	}
	// Nomad's Go client.
	c := a.nomad()
	it, _, err := c.Allocations().Info(al.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), eventually.Limit)
	defer cancel()
	var out, errs bytes.Buffer
	code, err := c.Jobs().ActionExec(ctx, it, "web", "main", false, nil, "echo", strings.NewReader("said"), &out, &errs, nil, nil)
	if err != nil || code != 0 || out.String() != "said" {
		t.Errorf("%d, %v, %q, %q", code, err, out.String(), errs.String())
	}
}
