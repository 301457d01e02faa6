package real

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// onlyServer and onlyNode are the halves of an agent that is both.
const (
	onlyServer = `server { enabled = true bootstrap_expect = 1 }`
	onlyNode   = `
client {
  enabled = true
  servers = ["SERVER"]
}`
)

// A variable that changes restarts the allocations of a group one after another,
// also when the agent is killed meanwhile. After a failure the rest goes on with
// what it has, and says so, until the variable changes again.
func TestTemplatesRestartInTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.agent("server", onlyServer)
	n := w.agent("node", strings.ReplaceAll(onlyNode, "SERVER", s.rpc))
	n.joined()
	ran := filepath.Join(t.TempDir(), "ran")
	lines := func() []string {
		b, _ := os.ReadFile(ran) // not there yet: nothing ran
		return strings.Fields(string(b))
	}
	count := func(what string) (n int) {
		for _, l := range lines() {
			if strings.HasPrefix(l, what) {
				n++
			}
		}
		return n
	}
	came := func(what string, times int) {
		t.Helper()
		w.until(what, func() string {
			if n := count(what); n != times {
				return fmt.Sprintf("%d of %d: %s", n, times, strings.Join(lines(), " "))
			}
			return ""
		})
	}
	s.good("var", "put", "nomad/jobs/web", "v=1")
	script := `v=$(cat $NOMAD_TASK_DIR/v); i=$NOMAD_ALLOC_INDEX
trap 'echo down-$v-$i >>` + ran + `; exit 0' INT TERM
echo up-$v-$i >>` + ran + `
[ $v = bad ] && exit 1
while :; do sleep 0.1; done`
	s.good("job", "run", w.file("web.nomad", `
job "web" {
  update {
    min_healthy_time = "5s" # a busy machine lets a task that fails at once live for a while
    health_check     = "task_states"
  }
  migrate {
    min_healthy_time = "500ms"
    health_check     = "task_states"
  }
  group "web" {
    count = 3
    reschedule {
      delay          = "5s"
      delay_function = "constant"
      unlimited      = true
    }
    restart {
      attempts = 0
      mode     = "fail"
    }
    `+sh(script, `
    template {
      data        = "{{ with nomadVar \"nomad/jobs/web\" }}{{ .v }}{{ end }}"
      destination = "local/v"
      rolling     = true
    }`)+`
  }
}`))
	came("up-1-", 3)
	s.good("var", "put", "-force", "nomad/jobs/web", "v=2")
	w.until("the first restarts", func() string { return missing(strings.Join(lines(), " "), "up-2-") })
	n.again()
	came("up-2-", 3)
	var order []string
	for _, l := range lines() {
		if strings.HasPrefix(l, "down-1-") || strings.HasPrefix(l, "up-2-") {
			order = append(order, l[strings.LastIndex(l, "-")+1:])
		}
	}
	if len(order) != 6 || order[0] != order[1] || order[2] != order[3] || order[4] != order[5] {
		t.Errorf("they did not restart one after another: %s", strings.Join(lines(), " "))
	}
	s.good("var", "put", "-force", "nomad/jobs/web", "v=bad")
	w.until("the rest waits", func() string {
		out := s.berth("job", "explain", "web").Out
		return missing(out, "waits for its turn to restart") + missing(out, "which is not healthy")
	})
	var waiting string
	for _, a := range s.allocs("web") {
		if strings.Contains(s.good("alloc", "status", a.ID), "Waiting for its turn to restart") {
			waiting = a.ID
		}
	}
	if waiting == "" {
		t.Error("no allocation shows that it waits for its turn")
	}
	w.until("its replacement fails as well", func() string { return missing(fmt.Sprint(count("up-bad-") >= 2), "true") })
	if bad := slices.DeleteFunc(lines(), func(l string) bool { return !strings.HasPrefix(l, "up-bad-") }); len(slices.Compact(bad)) != 1 || count("down-2-") != 1 {
		t.Errorf("a failure did not stop the rest: %s", strings.Join(lines(), " "))
	}
	s.good("var", "put", "-force", "nomad/jobs/web", "v=3")
	came("up-3-", 3)
	if n := count("down-2-"); n != 3 {
		t.Errorf("%d were stopped for the last change, want 2: %s", n-1, strings.Join(lines(), " "))
	}
}
