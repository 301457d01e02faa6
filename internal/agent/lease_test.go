package agent

import (
	"strings"
	"syscall"
	"testing"
)

// Tasks that may not run without servers for long are stopped in time, though
// their agent is frozen, or dead and not started again. Servers learn why.
func TestTasksAreStoppedThoughTheirAgentIsNotThere(t *testing.T) {
	for name, lose := range map[string]func(*agentProc){
		"frozen": func(p *agentProc) { _ = p.cmd.Process.Signal(syscall.SIGSTOP) },
		"dead":   (*agentProc).kill,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			a := m.agent()
			until(t, "the node is ready", m.isReady)
			cut := m.place(newAlloc(t, "service", shTask("main", sleeper)+","+shTask("beside", sleeper), `,"Disconnect":{"StopOnClientAfter":"20s"}`))
			stays := m.place(newAlloc(t, "service", shTask("main", sleeper)))
			m.untilStatus(cut, "running")
			m.untilStatus(stays, "running")
			until(t, "all have noted their processes", func() bool {
				return len(m.pids(cut, "main"))+len(m.pids(cut, "beside"))+len(m.pids(stays, "main")) == 3
			})
			lose(a)
			main, beside := m.pids(cut, "main")[0], m.pids(cut, "beside")[0]
			if !alive(main) || !alive(beside) {
				t.Error("a task did not outlive its agent")
			}
			until(t, "the tasks are stopped", func() bool { return !alive(main) && !alive(beside) })
			if !alive(m.pids(stays, "main")[0]) {
				t.Error("a task was stopped that may run without servers")
			}
			if name == "frozen" {
				_ = a.cmd.Process.Signal(syscall.SIGCONT)
			} else {
				m.agent()
			}
			m.untilStatus(cut, "complete")
			if why := m.alloc(cut).ClientDescription; !strings.Contains(why, "stop_on_client_after") {
				t.Errorf("ended: %q, %s", why, m.told(cut))
			}
			if n := len(m.pids(cut, "main")); n != 1 {
				t.Errorf("it was started %d times", n)
			}
		})
	}
}
