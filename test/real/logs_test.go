package real

import (
	"bufio"
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"berth/internal/eventually"
)

// The output of all allocations of a job comes with labels, of those that are
// placed meanwhile too, until the job has ended.
func TestLogsOfAllAllocations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent("one", both)
	a.joined()
	a.good("job", "run", "-detach", w.file("many.nomad", `job "many" {
  update { max_parallel = 0 }
  group "g" {
    task "app" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "trap 'printf bye; exit 0' INT; echo hello $NOMAD_ALLOC_INDEX; while :; do sleep 0.1; done"]
      }
      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}`))
	a.running("many")
	ctx, cancel := context.WithTimeout(t.Context(), eventually.Limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.Binary, "alloc", "logs", "-f", "-job", "many")
	cmd.Env = w.Environ("BERTH_ADDR="+a.addr, "NOMAD_ADDR="+a.addr)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs strings.Builder
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var got []string
	labels := map[string]bool{}
	for s := bufio.NewScanner(out); s.Scan(); {
		label, text, ok := strings.Cut(s.Text(), " app | ")
		if !ok || len(label) != 8 {
			t.Errorf("a line without a label: %q", s.Text())
		}
		labels[label] = true
		got = append(got, text)
		switch text {
		case "hello 0":
			a.good("job", "scale", "-detach", "many", "g", "2")
		case "hello 1":
			a.good("job", "stop", "-detach", "many")
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, errs.String())
	}
	slices.Sort(got)
	if strings.Join(got, ", ") != "bye, bye, hello 0, hello 1" || len(labels) != 2 {
		t.Errorf("got %q of %v", got, labels)
	}
	if r := a.berth("alloc", "logs", "-f", "-job", "many", "none"); r.Code == 0 || !strings.Contains(r.Err, `no task "none"`) {
		t.Errorf("%v", r)
	}
}
