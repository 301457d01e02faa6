package real

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"berth/test/bed"
)

// A job by hand: run, looked at, changed, stopped and purged; and the same with
// the one process, server and agent, killed after each step.
func TestAJobByHand(t *testing.T) {
	for how, between := range map[string]func(*agent){
		"undisturbed": func(*agent) {},
		"killed between all steps": func(a *agent) {
			was, pids := a.history(), a.w.tasks()
			a.Kill()
			if amiss := same(pids, a.w.tasks()); amiss != "" {
				a.w.t.Errorf("the agent is dead: %s", amiss)
			}
			a.start()
			a.w.until("there is a leader", func() string { return a.fails("/v1/jobs") })
			if is := a.history(); is != was {
				a.w.t.Errorf("history was\n%s\nand is\n%s", was, is)
			}
			a.joined()
			if amiss := same(pids, a.w.tasks()); amiss != "" {
				a.w.t.Errorf("the agent is back: %s", amiss)
			}
			if is := a.history(); is != was {
				a.w.t.Errorf("with the node back, history was\n%s\nand is\n%s", was, is)
			}
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			byHand(t, between)
		})
	}
}

const web1 = `
variable "count" {
  type    = number
  default = 2
}
variable "word" { default = "one" }
job "web" {
  update { max_parallel = 0 }
  group "front" {
    count = var.count
    network {
      port "http" {}
    }
    task "main" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo ${var.word} of ${NOMAD_JOB_NAME}; exec sleep 1000"]
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}`

func byHand(t *testing.T, between func(*agent)) {
	w := newWorld(t)
	a := w.agent("one", both)
	a.joined()
	web := w.file("web.nomad", web1)

	w.holds(a.good("job", "run", web), `finished with status "complete"`, `"pending" -> "running"`)
	first := a.settled("web", 2)
	between(a)

	w.holds(a.good("job", "status", "web"), "Status        = running", "front       0       0         2 ")
	w.holds(a.good("node", "status"), "one ", "ready")
	between(a)

	a.prints("one of web\n", "-job", "web")
	between(a)

	a.good("job", "run", "-var", "count=3", web)
	grown := a.settled("web", 3)
	for id, pids := range first {
		if !slices.Equal(grown[id], pids) {
			t.Errorf("the count was changed, and %s with the processes %v has %v", id, pids, grown[id])
		}
	}
	between(a)

	a.good("job", "run", "-var", "count=3", "-var", "word=two", web)
	changed := a.settled("web", 3)
	for id := range grown {
		if changed[id] != nil {
			t.Errorf("the task was changed, and %s still runs", id)
		}
	}
	a.prints("two of web\n", "-job", "web")
	var job struct{ Version int }
	if a.get("/v1/job/web", &job); job.Version != 2 {
		t.Errorf("version %d", job.Version)
	}
	between(a)

	a.good("job", "stop", "web")
	a.settled("web", 0)
	w.holds(a.good("job", "status", "web"), "Status        = dead (stopped)")
	between(a)

	a.good("job", "stop", "-purge", "web")
	a.settled("web", 0)
	if s := a.berth("job", "status", "web"); s.Code != 1 || !strings.Contains(s.Err, `No job with ID or prefix "web"`) {
		t.Errorf("after the purge: %v", s)
	}
	between(a)
	w.until("no process is left but the agent", func() string {
		if all := w.Processes(); len(all) != 1 {
			return fmt.Sprint(all)
		}
		return ""
	})
	w.until("no cgroup is left of a task", func() string {
		for _, dir := range bed.Cgroups(w.Mark) {
			if left, _ := filepath.Glob(dir + "/*/cgroup.procs"); len(left) > 0 {
				return fmt.Sprint(left)
			}
		}
		return ""
	})
}

// alloc is what tests ask of an allocation.
type alloc struct {
	ID, Name, EvalID, NodeID, JobID, TaskGroup     string
	DesiredStatus, ClientStatus, NextAllocation    string
	JobVersion, CreateIndex                        uint64
	CreateTime                                     int64
	TaskStates                                     map[string]taskState
	AllocatedResources, Resources, ClientDescribed any `json:"-"`
}

type taskState struct {
	State    string
	Failed   bool
	Restarts int
	Events   []struct {
		Type, DisplayMessage string
		Time                 int64
		Details              map[string]string
	}
}

// story is the types of the events, in order.
func (s taskState) story() string {
	var out []string
	for _, e := range s.Events {
		out = append(out, e.Type)
	}
	return strings.Join(out, ", ")
}

// allocs lists the allocations of a job, the oldest first.
func (a *agent) allocs(job string) []alloc {
	a.w.t.Helper()
	var all []alloc
	a.get("/v1/job/"+job+"/allocations?all=true", &all)
	slices.SortFunc(all, func(x, y alloc) int {
		return cmp.Or(cmp.Compare(x.CreateIndex, y.CreateIndex), cmp.Compare(x.Name, y.Name))
	})
	return all
}

// eval is what tests ask of an evaluation.
type eval struct {
	ID, JobID, Status, TriggeredBy, BlockedEval, PreviousEval string
	CreateIndex, ModifyIndex, JobModifyIndex                  uint64
}

func (a *agent) evals() (all []eval) {
	a.w.t.Helper()
	a.get("/v1/evaluations", &all)
	return all
}

// fails says why a path cannot be read, "" if it can.
func (a *agent) fails(path string) string {
	if _, err := a.try("GET", path, "", nil); err != nil {
		return err.Error()
	}
	return ""
}

// settled waits until just as many instances of a job run, each in one process,
// and everything else of the job has ended and is known to have. It returns
// the processes by allocation.
func (a *agent) settled(job string, instances int) map[string][]int {
	a.w.t.Helper()
	var running map[string][]int
	a.w.until(fmt.Sprintf("%d instances of %s run", instances, job), func() string {
		for _, e := range a.evals() {
			if e.Status == "pending" {
				return "an evaluation waits"
			}
		}
		tasks, all := a.w.tasks(), a.allocs(job)
		running = map[string][]int{}
		for _, al := range all {
			switch {
			case al.ClientStatus == "running" && al.DesiredStatus == "run" && len(tasks[al.ID]) == 1:
				running[al.ID] = tasks[al.ID]
			case al.ClientStatus == "running", al.ClientStatus == "pending", len(tasks[al.ID]) > 0:
				return fmt.Sprintf("%s is %s, %s with the processes %v", al.Name, al.DesiredStatus, al.ClientStatus, tasks[al.ID])
			}
		}
		if len(running) != instances {
			return fmt.Sprintf("%d run", len(running))
		}
		return ""
	})
	return running
}

// history is what servers remember, in words.
func (a *agent) history() string {
	a.w.t.Helper()
	var jobs []struct {
		ID, Status                           string
		Version, CreateIndex, JobModifyIndex uint64
		Stop                                 bool
	}
	var allocs []alloc
	a.get("/v1/jobs", &jobs)
	a.get("/v1/allocations", &allocs)
	slices.SortFunc(allocs, func(x, y alloc) int { return cmp.Compare(x.ID, y.ID) })
	evals := a.evals()
	slices.SortFunc(evals, func(x, y eval) int { return cmp.Compare(x.ID, y.ID) })
	var out strings.Builder
	for _, j := range jobs {
		fmt.Fprintln(&out, "job", j)
	}
	for _, e := range evals {
		fmt.Fprintln(&out, "evaluation", e)
	}
	for _, al := range allocs {
		fmt.Fprintf(&out, "allocation %s %s of %s, version %d, from %d at %d: %s, %s", al.ID, al.Name, al.EvalID, al.JobVersion, al.CreateIndex, al.CreateTime, al.DesiredStatus, al.ClientStatus)
		for name, s := range al.TaskStates {
			fmt.Fprintf(&out, "; %s %s: %s", name, s.State, s.story())
		}
		fmt.Fprintln(&out)
	}
	return out.String()
}

// What happens to tasks and supervisors while the agent is dead is told when it
// is back, once.
func TestWhatEndedWhileTheAgentWasDead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent("one", both+`
		client {
			options { "supervisor.allocations" = "1" }
		}`)
	a.joined()
	gate := filepath.Join(w.Dir, "gate")
	a.good("job", "run", "-detach", w.file("ends.nomad", group("batch", "ends", `
		restart {
		  attempts = 0
		  mode     = "fail"
		}
		reschedule {
		  attempts  = 0
		  unlimited = false
		}`, sh(`while ! [ -e `+gate+` ]; do sleep 0.02; done; echo at the end; exit 3`))))
	a.good("job", "run", "-detach", w.file("orphan.nomad", group("service", "orphan", `
		reschedule {
		  delay          = "5s"
		  delay_function = "constant"
		  unlimited      = true
		}`, sh(`sleep 1000 & exec sleep 1001`))))
	a.good("job", "run", "-detach", w.file("stays.nomad", group("service", "stays", "", sh(`exec sleep 1000`))))
	stays := a.settled("stays", 1)
	a.settled("ends", 1)
	w.until("orphan has two processes", func() string {
		for _, al := range a.allocs("orphan") {
			if al.ClientStatus == "running" && len(w.tasks()[al.ID]) == 2 {
				return ""
			}
		}
		return fmt.Sprint(a.allocs("orphan"), w.tasks())
	})
	ends, orphan := a.allocs("ends")[0].ID, a.allocs("orphan")[0].ID
	orphans := w.tasks()[orphan]

	a.Kill()
	if err := syscall.Kill(w.supervisors()[orphan], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.file("gate", "")
	w.until("the task has ended", func() string {
		if left := w.tasks()[ends]; len(left) > 0 {
			return fmt.Sprint(left)
		}
		return ""
	})
	for _, pid := range orphans {
		if !bed.Alive(pid) {
			t.Errorf("process %d ended with its supervisor", pid)
		}
	}
	a.start()
	a.joined()

	w.until("the end is known", func() string {
		if al := a.allocs("ends")[0]; al.ClientStatus != "failed" {
			return al.ClientStatus
		}
		return ""
	})
	told := a.good("alloc", "status", ends)
	w.holds(told, "Client Status       = failed", "Exit Code: 3")
	if n := strings.Count(told, "Terminated"); n != 1 {
		t.Errorf("%d ends were told:\n%s", n, told)
	}
	if out := a.good("alloc", "logs", ends); out != "at the end\n" {
		t.Errorf("logs: %q", out)
	}
	w.until("the orphan is replaced", func() string {
		all := a.allocs("orphan")
		if len(all) != 2 || all[0].ClientStatus != "failed" || all[1].ClientStatus != "running" || len(w.tasks()[all[1].ID]) != 2 {
			return fmt.Sprint(all, w.tasks())
		}
		return ""
	})
	for _, pid := range orphans {
		if bed.Alive(pid) {
			t.Errorf("process %d still runs", pid)
		}
	}
	w.holds(a.good("alloc", "status", orphan), "the task's supervisor was killed")
	if amiss := same(stays, a.settled("stays", 1)); amiss != "" {
		t.Error(amiss)
	}
}

// sh is the task of a group: a shell script.
func sh(script string, more ...string) string {
	return fmt.Sprintf(`task "main" {
		driver = "raw_exec"
		config {
		  command = "/bin/sh"
		  args    = ["-c", %q]
		}
		resources {
		  cpu    = 50
		  memory = 32
		}
		%s
	}`, script, strings.Join(more, "\n"))
}

// mock is the task of a group: one that runs nothing.
func mock(config string, more ...string) string {
	return fmt.Sprintf(`task "main" {
		driver = "mock_driver"
		config {
		  %s
		}
		resources {
		  cpu    = 50
		  memory = 32
		}
		%s
	}`, config, strings.Join(more, "\n"))
}

// group is a job of one group. A service that says nothing of updates is
// updated all at once.
func group(kind, name string, parts ...string) string {
	body := strings.Join(parts, "\n")
	if kind == "service" && !strings.Contains(body, "update {") {
		body = "update { max_parallel = 0 }\n" + body
	}
	return fmt.Sprintf("job %q {\n type = %q\n group \"g\" {\n%s\n}\n}\n", name, kind, body)
}

// SIGINT ends an agent, and leaves its tasks; with -dev, it ends them too, and
// nothing remains.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent("one", both)
	a.joined()
	job := w.file("job.nomad", group("service", "job", sh(`exec sleep 1000`)))
	a.good("job", "run", job)
	was := a.settled("job", 1)
	if code := a.signal(syscall.SIGINT); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if amiss := same(was, w.tasks()); amiss != "" {
		t.Error(amiss)
	}
	a.start()
	a.joined()
	if amiss := same(was, a.settled("job", 1)); amiss != "" {
		t.Error(amiss)
	}
	a.good("job", "stop", "job")
	a.settled("job", 0)
	if code := a.signal(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}

	dev := &agent{w: w, Agent: w.Agent("dev", "-dev", "-config", w.file("ports.hcl", "ports {\n http = 0\n rpc = 0\n}\nclient { cgroup_parent = \""+w.CgroupParent()+"\" }"))}
	dev.start()
	dev.joined()
	dev.good("job", "run", job)
	dev.settled("job", 1)
	if code := dev.signal(syscall.SIGINT); code != 0 {
		t.Errorf("-dev: exit code %d", code)
	}
	if _, err := os.Stat(dev.dataDir); dev.dataDir == "" || !os.IsNotExist(err) {
		t.Errorf("the folder %q is still there: %v", dev.dataDir, err)
	}
	w.until("nothing runs any more", func() string {
		if left := w.Processes(); len(left) > 0 {
			return fmt.Sprint(left)
		}
		return ""
	})
}
