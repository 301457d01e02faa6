package network

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"berth/test/bed"
)

// The examples of isolated tasks run as they are: a migration before a service on
// a network of its own, with a task beside it; and a batch of short tasks, of which
// with BERTH_LONG there are a thousand.
func TestExamplesOfIsolatedTasks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, for network namespaces")
	}
	b := bed.ForTest(t)
	// What tasks see of the host is what they see by default.
	from := strings.Index(config, "  chroot_env {")
	text := config[:from] + config[from+strings.Index(config[from:], "}\n")+2:]
	text = strings.Replace(text, "client {", "client {\n  gc_max_allocs = 2000", 1) // logs of all are kept
	path, err := b.File("one.hcl", strings.NewReplacer("DIR", b.Dir, "CGROUP", b.CgroupParent()).Replace(text))
	must(t, err)
	a := b.Agent("one", "-config", path)
	must(t, a.Start())
	must(t, a.Await(t.Context()))
	berth := func(args ...string) string {
		t.Helper()
		r, err := b.Run(t.Context(), b.Binary, b.Environ("BERTH_ADDR="+a.Banner("HTTP"), "NOMAD_ADDR="+a.Banner("HTTP")), args...)
		must(t, err)
		if r.Code != 0 {
			t.Fatalf("berth %s: %s", strings.Join(args, " "), r)
		}
		return r.Out
	}
	example := func(name string) string {
		t.Helper()
		path, err := filepath.Abs("../../examples/" + name)
		must(t, err)
		return path
	}
	berth("job", "run", "-detach", example("isolated.nomad.hcl"))
	var at []struct {
		Address, AllocID string
		Port             int
	}
	says := func(page, want string) {
		t.Helper()
		must(t, bed.Until(t.Context(), page+" says "+want, func() string {
			if err := json.Unmarshal([]byte(berth("service", "info", "-json", "notes")), &at); err != nil || len(at) != 1 {
				return fmt.Sprint(err, at)
			}
			answer, err := bed.Call(t.Context(), http.MethodGet, fmt.Sprintf("http://%s:%d/%s", at[0].Address, at[0].Port, page), "")
			if err != nil || !strings.Contains(answer.Text, want) {
				return fmt.Sprint(err, answer.Text)
			}
			return ""
		}))
	}
	says("schema", "version 2")
	says("list", "schema")
	told := berth("alloc", "status", at[0].AllocID)
	if i, j, k := strings.Index(told, `Task "migrate" (prestart)`), strings.Index(told, `Task "serve"`), strings.Index(told, `Task "list" (poststart sidecar)`); i < 0 || j < i || k < j {
		t.Errorf("the order of starts is not told:\n%s", told)
	}
	id := at[0].AllocID
	berth("job", "stop", "-purge", "-detach", "isolated")
	must(t, bed.Until(t.Context(), "the end of the service", func() string {
		if left := bed.Tasks(b.Processes())[id]; len(left) > 0 {
			return fmt.Sprint(left)
		}
		if _, err := os.Stat(filepath.Join("/run/netns", id)); err == nil {
			return "its namespace is there"
		}
		return ""
	}))
	leftNothing(t, id)

	n := 30
	if os.Getenv("BERTH_LONG") != "" {
		n = 1000
	}
	berth("job", "run", "-detach", "-var", fmt.Sprint("tasks=", n), example("thousand.nomad.hcl"))
	var all []struct{ ClientStatus, ID string }
	must(t, bed.Until(t.Context(), "all short tasks are complete", func() string {
		if err := json.Unmarshal([]byte(call(t, a, "/v1/job/thousand/allocations")), &all); err != nil {
			return err.Error()
		}
		done := 0
		for _, x := range all {
			if x.ClientStatus == "complete" {
				done++
			}
		}
		if done != n || len(all) != n {
			return fmt.Sprintf("%d of %d", done, len(all))
		}
		return ""
	}))
	if said := berth("alloc", "logs", all[0].ID); !strings.HasSuffix(said, " 500500\n") {
		t.Errorf("a short task says %q", said)
	}
	if _, err := a.End(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}

// call reads from an agent.
func call(t *testing.T, a *bed.Agent, path string) string {
	t.Helper()
	answer, err := bed.Call(t.Context(), http.MethodGet, a.Banner("HTTP")+path, "")
	must(t, err)
	return answer.Text
}
