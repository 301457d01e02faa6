package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/op"
)

// hook gives a task of newAlloc a lifecycle.
func hook(name string, sidecar bool) string {
	if sidecar {
		return `,"Lifecycle":{"Hook":"` + name + `","Sidecar":true}`
	}
	return `,"Lifecycle":{"Hook":"` + name + `"}`
}

// started returns when the task was last started, as servers know it.
func (c *cluster) started(id, task string) time.Time { return c.alloc(id).TaskStates[task].StartedAt }

func TestTasksRunInTheOrderOfTheirLifecycles(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		a, end := w.agent(t)
		pause(time.Second)
		id := w.place(newAlloc(t, "batch", strings.Join([]string{
			mockTask("clean", `"run_for":"10s"`, hook("poststop", false)),
			mockTask("main", `"run_for":"60s"`),
			mockTask("after", `"run_for":"1s"`, hook("poststart", false)),
			mockTask("init", `"run_for":"20s"`, hook("prestart", false)),
			mockTask("proxy", `"run_for":"100h"`, hook("prestart", true)),
		}, ",")))
		states := func(want string) {
			t.Helper()
			var got []string
			for _, n := range []string{"init", "proxy", "main", "after", "clean"} {
				got = append(got, n+"="+w.alloc(id).TaskStates[n].State)
			}
			if s := strings.Join(got, " "); s != want {
				t.Fatalf("%s, want %s", s, want)
			}
		}
		pause(10 * time.Second)
		states("init=running proxy=running main=pending after=pending clean=pending")
		if got := w.events(id, "main"); got != "Received, Task Setup, Waiting" {
			t.Errorf("main: %s", got)
		}
		if e := w.alloc(id).TaskStates["main"].Events; !strings.Contains(e[2].DisplayMessage, "init") {
			t.Errorf("main: %+v", e)
		}
		pause(14 * time.Second)
		states("init=dead proxy=running main=running after=dead clean=pending")
		first := w.started(id, "main")
		// A restart of all begins with the prestart task, once nothing runs.
		if err := restart(t, a, id); err != nil {
			t.Fatal(err)
		}
		pause(10 * time.Second)
		states("init=running proxy=running main=pending after=pending clean=pending")
		end() // another agent goes on with it
		a, end = w.agent(t)
		pause(14 * time.Second)
		states("init=dead proxy=running main=running after=dead clean=pending")
		if s := w.started(id, "main"); !s.After(first) || s.Before(w.alloc(id).TaskStates["init"].FinishedAt) {
			t.Errorf("main started at %v, before %v", s, first)
		}
		pause(60 * time.Second)
		states("init=dead proxy=dead main=dead after=dead clean=running")
		if got := w.events(id, "proxy"); !strings.Contains(got, "Main Tasks Dead") {
			t.Errorf("proxy: %s", got)
		}
		err := restart(t, a, id)
		if berth.KindOf(err) != berth.Invalid {
			t.Errorf("all are restarted while the allocation ends: %v", err)
		}
		pause(14 * time.Second)
		states("init=dead proxy=dead main=dead after=dead clean=dead")
		if w.status(id) != "complete" {
			t.Errorf("%s: %s", w.status(id), w.alloc(id).ClientDescription)
		}
		end()
	})
}

func TestAFailedPrestartTaskKeepsTheOthersFromStarting(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		_, end := w.agent(t)
		pause(time.Second)
		id := w.place(newAlloc(t, "service", strings.Join([]string{
			mockTask("init", `"run_for":"2s","exit_code":3`, quick, hook("prestart", false)),
			mockTask("proxy", `"run_for":"100h"`, hook("prestart", true)),
			mockTask("main", `"run_for":"100h"`),
			mockTask("clean", `"run_for":"1s"`, hook("poststop", false)),
		}, ",")))
		pause(30 * time.Second)
		if w.status(id) != "failed" {
			t.Errorf("%s", w.status(id))
		}
		if s := w.alloc(id).TaskStates["main"]; !s.StartedAt.IsZero() || s.State != berth.TaskDead || s.Failed {
			t.Errorf("main: %+v", s)
		}
		if e := w.alloc(id).TaskStates["main"].Events; !strings.Contains(w.events(id, "main"), "Sibling Task Failed") || !strings.Contains(e[3].DisplayMessage, `the prestart task "init" of the group failed`) {
			t.Errorf("main: %+v", e)
		}
		if !strings.Contains(w.events(id, "clean"), "Started, Terminated") {
			t.Errorf("clean: %s", w.events(id, "clean"))
		}
		end()
	})
}

// The order of the starts survives an agent that is killed at each step.
func TestLifecycleSurvivesTheAgent(t *testing.T) {
	m := newMachine(t)
	a := m.agent()
	until(t, "the node is ready", m.isReady)
	gates := t.TempDir()
	open := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(gates, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	wait := func(name string) string {
		return `while [ ! -e ` + filepath.Join(gates, name) + ` ]; do sleep 0.05; done; `
	}
	note := func(word string) string { return `echo ` + word + ` >> "$NOMAD_ALLOC_DIR/data/order"; ` }
	id := m.place(newAlloc(t, "service", strings.Join([]string{
		shTask("init", note("init")+wait("init")+note("init-ends"), hook("prestart", false)),
		shTask("proxy", `exec sleep 1000`, hook("prestart", true)),
		shTask("main", `trap '`+wait("main")+note("main-ends")+`exit 0' INT; `+note("main")+`while :; do sleep 0.05; done`, `,"KillTimeout":"10m"`),
		shTask("clean", note("clean")+wait("clean")+note("clean-ends"), hook("poststop", false)),
	}, ",")))
	order := func() string {
		b, _ := os.ReadFile(filepath.Join(m.dir, "alloc", id, "alloc", "data", "order"))
		return strings.Join(strings.Fields(string(b)), " ")
	}
	at := func(want string) {
		t.Helper()
		until(t, "the order is "+want+", now it is "+order(), func() bool { return order() == want })
		a.kill()
		a = m.agent()
	}
	at("init")
	open("init")
	at("init init-ends main")
	until(t, "main is known to run", func() bool {
		s := m.alloc(id).TaskStates["main"]
		return s != nil && s.State == berth.TaskRunning
	})
	m.stop(id)
	until(t, "main is known to be asked to end", func() bool { return strings.Contains(m.events(id, "main"), "Killing") })
	if s := m.alloc(id).TaskStates["proxy"].State; s != berth.TaskRunning {
		t.Errorf("the sidecar is %s while the main task ends", s)
	}
	at("init init-ends main")
	open("main")
	at("init init-ends main main-ends clean")
	open("clean")
	m.untilStatus(id, "complete")
	if got, want := order(), "init init-ends main main-ends clean clean-ends"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// restart has the agent start all tasks of an allocation again.
func restart(t *testing.T, a *Agent, id string) error {
	t.Helper()
	_, err := op.Call(t.Context(), a, op.AgentRestartTask, &op.RestartAlloc{AllocID: id, AllTasks: true})
	return err
}
