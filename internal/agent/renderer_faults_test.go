//go:build faults

package agent

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"berth/internal/agent/fetch"
	"berth/internal/agent/isolate/isolatetest"
	"berth/internal/agent/render"
	"berth/internal/failpoint"
)

// slowly is a template that takes all the time that it can get while the variable
// says so.
const slowly = `{{ with nomadVar "nomad/jobs/job" }}{{ if eq (print .slow) "yes" }}{{ range loop 1000000 }}{{ range loop 1000000 }}{{ end }}{{ end }}{{ end }}{{ .text }}{{ end }}`

// rendered is a task with that template.
func rendered(script, keys string) string {
	text, err := json.Marshal(slowly)
	if err != nil {
		panic(err)
	}
	return shTask("main", script, `,"RestartPolicy":{"Attempts":5,"Interval":"1h","Delay":"1s","Mode":"fail"},"Templates":[{"EmbeddedTmpl":`+string(text)+`,"DestPath":"local/t","Splay":0,`+keys+`}]`)
}

// long reports whether all cases are wanted: make soak.
func long() bool { return os.Getenv("BERTH_LONG") != "" }

// renderer waits until somebody renders with the answer of a number, and returns its
// process.
func (m *machine) renderer(answer int) int {
	m.t.Helper()
	var pids []int
	until(m.t, "it renders", func() bool {
		given, _ := m.vars.count()
		pids = isolatetest.Helpers(m.t, render.Word)
		return given >= answer && len(pids) == 1
	})
	return pids[0]
}

// nothingIsLeft fails the test if a process of a helper is left, or in the directory
// of the task main anything but these files.
func (m *machine) nothingIsLeft(id, files string) {
	m.t.Helper()
	until(m.t, "no helper is left", func() bool { return len(isolatetest.Helpers(m.t, fetch.Word, render.Word)) == 0 })
	list, err := os.ReadDir(filepath.Join(m.dir, "alloc", id, "main/local"))
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); err != nil || got != files {
		m.t.Errorf("there are %q, %v; want %q", got, err, files)
	}
}

// text returns that of a file of the task main.
func (m *machine) text(id, name string) string {
	b, _ := os.ReadFile(filepath.Join(m.dir, "alloc", id, "main/local", name))
	return string(b)
}

// What renders is killed, once or several times, before the task starts. The task says
// so, and starts all the same, once.
func TestTheRendererIsKilledBeforeTheStart(t *testing.T) {
	t.Parallel() // it waits more than it works
	for _, kills := range []int{1, 2} {
		if kills == 1 && !long() {
			continue
		}
		t.Run(fmt.Sprint(kills, " times"), func(t *testing.T) {
			m := newMachine(t)
			m.vars.put("slow", "yes", "text", "one")
			m.agent()
			until(t, "the node is ready", m.isReady)
			id := m.place(newAlloc(t, "batch", rendered(`echo $$ >> local/pids; cat local/t > local/seen`, `"ChangeMode":"noop"`)))
			for i := range kills {
				pid := m.renderer(i + 1)
				if i == kills-1 {
					m.vars.put("slow", "no", "text", "two")
				}
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				until(t, "it has ended", func() bool { return !alive(pid) })
			}
			m.untilStatus(id, "complete")
			if n, seen := len(m.pids(id, "main")), m.text(id, "seen"); n != 1 || seen != "two" {
				t.Errorf("the task has run %d times and saw %q", n, seen)
			}
			told := m.told(id)
			if strings.Count(told, "it was killed") != kills || strings.Count(told, "Started (") != 1 || m.restarts(id, "main") != uint64(kills) {
				t.Errorf("%d restarts: %s", m.restarts(id, "main"), told)
			}
			m.nothingIsLeft(id, "pids seen t")
		})
	}
}

// changes are the ways in which a task is told that a template has changed.
var changes = []struct{ mode, keys string }{
	{"restart", `"ChangeMode":"restart"`},
	{"signal", `"ChangeMode":"signal","ChangeSignal":"SIGHUP"`},
	{"script", `"ChangeMode":"script","ChangeScript":{"Command":"/bin/sh","Args":["-c","echo told >> $NOMAD_TASK_DIR/told"],"Timeout":"1m"}`},
	{"noop", `"ChangeMode":"noop"`},
}

// notes is a task that notes its processes and its signals.
const notes = `trap 'echo told >> local/told' HUP; touch local/told; echo $$ >> local/pids; while :; do sleep 0.05; done`

// tellings returns how often a task was told of a change.
func (m *machine) tellings(id, mode string) int {
	if mode == "restart" {
		return len(m.pids(id, "main")) - 1
	}
	return strings.Count(m.text(id, "told"), "told")
}

// toldOf waits until a task has the text of a template and was told of so many
// changes, and the agent waits for the next.
func (m *machine) toldOf(id, mode, text string, changes int) {
	m.t.Helper()
	if mode == "noop" {
		changes = 0
	}
	until(m.t, "it has "+text+" and is told", func() bool { return m.text(id, "t") == text && m.tellings(id, mode) >= changes })
	until(m.t, "the agent waits for a change", func() bool { _, waiting := m.vars.count(); return waiting == 1 })
	if n := m.tellings(id, mode); n != changes {
		m.t.Errorf("it was told %d times of %d changes: %s", n, changes, m.told(id))
	}
}

// What renders for a task that runs is killed, by somebody or with its agent. The
// change is there later, and the task is told of it once, as of the one that follows.
func TestTheRendererIsKilledWhileTheTaskRuns(t *testing.T) {
	t.Parallel() // it waits more than it works
	for _, who := range []string{"renderer", "agent"} {
		for i, c := range changes {
			if who == "agent" && i > 1 || !long() && (who == "agent") != (c.mode == "signal") {
				continue
			}
			t.Run(who+" "+c.mode, func(t *testing.T) {
				t.Parallel()
				m := newMachine(t)
				m.vars.put("slow", "no", "text", "one")
				a := m.agent()
				until(t, "the node is ready", m.isReady)
				id := m.place(newAlloc(t, "service", rendered(notes, c.keys)))
				until(t, "it runs", func() bool { return len(m.pids(id, "main")) == 1 })
				m.toldOf(id, c.mode, "one", 0)
				given, _ := m.vars.count()
				m.vars.put("slow", "yes", "text", "two")
				pid := m.renderer(given + 1)
				m.vars.put("slow", "no", "text", "two")
				if who == "agent" {
					a.kill()
					until(t, "the renderer has ended with the agent", func() bool { return !alive(pid) })
					m.agent()
				} else if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				m.toldOf(id, c.mode, "two", 1)
				m.vars.put("slow", "no", "text", "three")
				m.toldOf(id, c.mode, "three", 2)
				if told := m.told(id); strings.Contains(told, "killed") || m.restarts(id, "main") != uint64(len(m.pids(id, "main"))-1) {
					t.Errorf("%d restarts: %s", m.restarts(id, "main"), told)
				}
				m.nothingIsLeft(id, "pids t told")
				m.stop(id)
				m.untilStatus(id, "complete")
			})
		}
	}
}

// The agent is killed after it has written a template, and before the task is told.
// The next agent tells it, once.
func TestTheAgentIsKilledBeforeTheTaskIsToldOfAChange(t *testing.T) {
	t.Parallel() // it waits more than it works
	for _, c := range changes {
		if !long() && c.mode != "restart" && c.mode != "script" {
			continue
		}
		t.Run(c.mode, func(t *testing.T) {
			m := newMachine(t)
			m.vars.put("slow", "no", "text", "one")
			a := m.agent(failpoint.Env + "=template/tell=hang")
			until(t, "the node is ready", m.isReady)
			id := m.place(newAlloc(t, "service", rendered(notes, c.keys)))
			until(t, "it runs", func() bool { return len(m.pids(id, "main")) == 1 })
			m.toldOf(id, c.mode, "one", 0)
			m.vars.put("slow", "no", "text", "two")
			until(t, "it is written", func() bool { return m.text(id, "t") == "two" })
			// Another allocation comes and goes: what the agent would record, it has by now.
			m.untilStatus(m.place(newAlloc(t, "batch", mockTask("main", ``))), "complete")
			a.kill()
			if n := m.tellings(id, c.mode); n != 0 {
				t.Fatalf("it was told %d times before the time", n)
			}
			m.agent()
			m.toldOf(id, c.mode, "two", 1)
			m.nothingIsLeft(id, "pids t told")
			m.stop(id)
			m.untilStatus(id, "complete")
		})
	}
}
