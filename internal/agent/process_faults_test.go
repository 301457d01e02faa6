//go:build faults

package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/internal/eventually"
	"berth/internal/failpoint"
)

// The agent is killed at each step of an allocation's life. A batch task runs
// once nevertheless, a service has one process, and servers know it.
func TestKilledAtAnyStepNothingIsDoneTwiceOrForgotten(t *testing.T) {
	t.Parallel() // it waits more than it works
	points := []string{"agent/beat", "agent/pull", "agent/pulled", "agent/taken", "task/start", "task/started", "agent/report-before", "agent/report-after"}
	for i := 1; i <= 7; i++ { // two tasks take seven steps
		points = append(points, fmt.Sprintf("task/recorded@%d", i), fmt.Sprintf("local/write@%d", i))
	}
	points = append(points, "supervise/call@1", "supervise/call@3", "supervise/call@5", "agent/report-after@2", "task/started@2")
	m := newMachine(t)
	first := m.agent() // makes the node's identity
	until(t, "the node is ready", m.isReady)
	first.kill()
	for _, p := range points {
		name, at, _ := strings.Cut(p, "@")
		if at == "" {
			at = "1"
		}
		batch := m.place(newAlloc(t, "batch", shTask("main", `echo $$ >> "$NOMAD_TASK_DIR/pids"; sleep 0.05`, quick)))
		service := m.place(newAlloc(t, "service", shTask("main", sleeper)))
		a := m.agent(failpoint.Env + "=" + name + "=exit@" + at)
		select {
		case <-a.done:
			if code := a.cmd.ProcessState.ExitCode(); code != failpoint.ExitCode {
				t.Errorf("%s: exit code %d\n%s", p, code, tail(a.log.String(), 1000))
			}
		case <-time.After(eventually.Limit):
			t.Errorf("%s: the point was not passed", p)
			a.kill()
		}
		a = m.agent()
		m.untilStatus(batch, "complete")
		m.untilStatus(service, "running")
		until(t, "the service notes its process", func() bool { return len(m.pids(service, "main")) > 0 })
		if n := m.pids(batch, "main"); len(n) != 1 {
			t.Errorf("%s: the batch task has run %d times: %s", p, len(n), m.events(batch, "main"))
		}
		if n := m.pids(service, "main"); len(n) != 1 || !alive(n[0]) {
			t.Errorf("%s: the service has had the processes %v", p, n)
		}
		if s := m.story(batch); strings.Count(s, "complete") != 1 {
			t.Errorf("%s: %s", p, s)
		}
		m.stop(service)
		m.untilStatus(service, "complete")
		m.forget(batch)
		m.forget(service)
		until(t, "all is cleared away", func() bool {
			left, err := os.ReadDir(filepath.Join(m.dir, "alloc"))
			return err == nil && len(left) == 0
		})
		a.kill()
	}
}
