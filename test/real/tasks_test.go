package real

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// ended waits until the one allocation of a job has ended, and returns it.
func (a *agent) end(job string) (al alloc) {
	a.w.t.Helper()
	a.w.until(job+" has ended", func() string {
		all := a.allocs(job)
		if len(all) != 1 || all[0].ClientStatus != "complete" && all[0].ClientStatus != "failed" {
			return fmt.Sprintf("%+v", all)
		}
		al = all[0]
		return ""
	})
	return al
}

// running waits until the one allocation of a job runs.
func (a *agent) running(job string) {
	a.w.t.Helper()
	a.w.until(job+" runs", func() string {
		all := a.allocs(job)
		if len(all) != 1 || all[0].ClientStatus != "running" {
			return fmt.Sprintf("%+v", all)
		}
		return ""
	})
}

// at returns when an event of the type came first.
func (s taskState) at(kind string) time.Time {
	for _, e := range s.Events {
		if e.Type == kind {
			return time.Unix(0, e.Time)
		}
	}
	return time.Time{}
}

// once is a policy: a task that ends is not started again.
const once = `
	restart {
	  attempts = 0
	  mode     = "fail"
	}
	reschedule {
	  attempts  = 0
	  unlimited = false
	}`

// How tasks of both drivers end, and what is made of it.
func TestHowTasksEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent("one", both)
	a.joined()
	twice := strings.Replace(once, "attempts = 0\n\t  mode     = \"fail\"", "attempts = 2\n\t  interval = \"10m\"\n\t  delay    = \"0s\"\n\t  mode     = \"fail\"", 1)
	for name, c := range map[string]struct {
		kind, policy, task string
		status, story      string
		restarts           int
		told, logs         string
	}{
		"raw-batch": {"batch", once, sh("echo computed; exit 0"), "complete", "Received, Task Setup, Started, Terminated", 0, "Exit Code: 0", "computed\n"},
		"raw-fails": {"service", twice, sh(`echo start; exit 7`), "failed",
			"Task Setup, Started, Terminated, Restarting, Started, Terminated, Restarting, Started, Terminated, Not Restarting", 2, "Exit Code: 7", "start\nstart\nstart\n"},
		"raw-signal":  {"batch", once, sh(`kill -SEGV $$`), "failed", "Received, Task Setup, Started, Terminated, Not Restarting", 0, "Signal: 11", ""},
		"raw-nowhere": {"batch", once, strings.Replace(sh(""), "/bin/sh", "/bin/nowhere", 1), "failed", "Received, Task Setup, Driver Failure, Not Restarting", 0, "/bin/nowhere", ""},
		"mock-batch":  {"batch", once, mock("run_for = \"50ms\"\nstdout_string = \"mocked\\n\""), "complete", "Received, Task Setup, Started, Terminated", 0, "Exit Code: 0", "mocked\n"},
		"mock-fails": {"service", twice, mock(`exit_code = 7`), "failed",
			"Task Setup, Started, Terminated, Restarting, Started, Terminated, Restarting, Started, Terminated, Not Restarting", 2, "Exit Code: 7", ""},
		"mock-refuses": {"batch", once, mock(`start_error = "no such thing"`), "failed", "Received, Task Setup, Driver Failure, Not Restarting", 0, "no such thing", ""},
		"mock-later": {"batch", twice, mock("start_error = \"not now\"\nstart_error_recoverable = true"), "failed",
			"Received, Task Setup, Driver Failure, Restarting, Driver Failure, Restarting, Driver Failure, Not Restarting", 2, "not now", ""},
	} {
		t.Run(name, func(t *testing.T) {
			defer func(parent *testing.T) { w.t = parent }(w.t)
			w.t = t
			a.good("job", "run", "-detach", w.file(name+".nomad", group(c.kind, name, c.policy, c.task)))
			al := a.end(name)
			s := al.TaskStates["main"]
			if al.ClientStatus != c.status || s.story() != c.story || s.Restarts != c.restarts || s.State != "dead" || s.Failed != (c.status == "failed") {
				t.Errorf("%s after %d restarts: %s", al.ClientStatus, s.Restarts, s.story())
			}
			w.holds(a.good("alloc", "status", al.ID), c.told)
			if out := a.good("alloc", "logs", al.ID); out != c.logs {
				t.Errorf("logs: %q", out)
			}
			if c.status == "complete" {
				w.holds(a.good("job", "status", name), "Status        = dead")
			}
		})
	}
	if left := w.tasks(); len(left) > 0 {
		t.Errorf("tasks are left: %v", left)
	}
}

// How tasks are ended: by the signal they asked for, after their delay, and by
// force when their time is over.
func TestHowTasksAreEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent("one", both)
	a.joined()
	// Within a minute, a task that obeys has ended, however busy the machine is.
	interrupt := func(timeout string) string {
		return "kill_signal = \"SIGINT\"\nkill_timeout = \"" + timeout + "\""
	}
	cases := map[string]struct {
		task           string
		code, signal   string
		killing, delay time.Duration // at least
		logs           string
	}{
		"obeys":    {sh(`trap "echo interrupted; exit 5" INT; echo ready; while :; do sleep 0.01; done`, interrupt("1m")), "5", "", 0, 0, "ready\ninterrupted\n"},
		"stubborn": {sh(`trap "echo no" INT; sleep 1000 & echo ready; while :; do sleep 0.01; done`, interrupt("5s")), "", "9", 5 * time.Second, 0, "ready\nno\n"},
		"delayed":  {sh(`trap "echo interrupted; exit 0" INT; echo ready; while :; do sleep 0.01; done`, interrupt("1m"), `shutdown_delay = "1s"`), "0", "", 0, time.Second, "ready\ninterrupted\n"},
		"mock":     {mock("run_for = \"1h\"\nkill_after = \"300ms\"\nstdout_string = \"ready\\n\"", `kill_timeout = "1m"`), "0", "", 300 * time.Millisecond, 0, "ready\n"},
		"mockery":  {mock("run_for = \"1h\"\nkill_after = \"1h\"\nstdout_string = \"ready\\n\"", `kill_timeout = "1s"`), "", "9", time.Second, 0, "ready\n"},
	}
	asked := map[string]time.Time{}
	for name, c := range cases {
		a.good("job", "run", "-detach", w.file(name+".nomad", group("service", name, c.task)))
	}
	for name := range cases {
		a.running(name)
		w.until(name+" is ready", func() string {
			s := a.berth("alloc", "logs", "-job", name)
			if s.Out == "ready\n" {
				return ""
			}
			return s.String()
		})
	}
	for name := range cases {
		asked[name] = time.Now()
		a.good("job", "stop", "-detach", name)
	}
	for name, c := range cases {
		al := a.end(name)
		s := al.TaskStates["main"]
		killing, over, gone := s.at("Killing"), s.at("Terminated"), s.at("Killed")
		if al.ClientStatus != "complete" || killing.IsZero() || over.IsZero() || gone.IsZero() || s.Restarts != 0 {
			t.Errorf("%s: %s: %s", name, al.ClientStatus, s.story())
			continue
		}
		for _, e := range s.Events {
			if e.Type == "Terminated" && (c.code != "" && e.Details["exit_code"] != c.code || e.Details["signal"] != c.signal) {
				t.Errorf("%s: %v", name, e)
			}
		}
		if took := over.Sub(killing); took < c.killing {
			t.Errorf("%s was given %v to end, of %v", name, took, c.killing)
		}
		if took := over.Sub(asked[name]); took < c.delay+c.killing {
			t.Errorf("%s took %v to end", name, took)
		}
		if out := a.good("alloc", "logs", al.ID); out != c.logs {
			t.Errorf("%s: %q", name, out)
		}
	}
	if left := w.tasks(); len(left) > 0 {
		t.Errorf("tasks are left: %v", left)
	}
}

// Logs go on in files of a size, of which the newest are kept, whichever agent
// is alive meanwhile.
func TestLogsAreRotated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent("one", both)
	a.joined()
	const lines = 60_000 // of 64 bytes: 3.7 MiB
	gate := filepath.Join(w.Dir, "gate")
	a.good("job", "run", "-detach", w.file("talks.nomad", group("batch", "talks", sh(
		fmt.Sprintf(`awk 'BEGIN { for (i = 1; i <= %d; i++) printf "%%063d\n", i }'; while ! [ -e %s ]; do sleep 0.02; done; echo last`, lines, gate), `logs {
		  max_files     = 2
		  max_file_size = 1
		}`))))
	a.running("talks")
	a.Kill() // the supervisor rotates
	id := ""
	for alloc := range w.tasks() {
		id = alloc
	}
	dir := filepath.Join(a.dataDir, "alloc", id, "alloc", "logs")
	files := func() (out []string) {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), "main.stdout.") {
				out = append(out, e.Name())
			}
		}
		return out
	}
	w.until("all is written", func() string {
		all := files()
		if len(all) == 0 {
			return "there are no files"
		}
		text, _ := os.ReadFile(filepath.Join(dir, all[len(all)-1]))
		if !strings.HasSuffix(string(text), fmt.Sprintf("%063d\n", lines)) {
			return fmt.Sprint(all)
		}
		return ""
	})
	w.file("gate", "")
	a.start()
	a.joined()
	if al := a.end("talks"); al.ClientStatus != "complete" {
		t.Errorf("%s: %v", al.ClientStatus, al.TaskStates)
	}
	if got := fmt.Sprint(files()); got != "[main.stdout.2 main.stdout.3]" {
		t.Errorf("of the files, these are kept: %s", got)
	}
	for _, name := range files() {
		if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.Size() > 1<<20 {
			t.Errorf("%s has %d bytes, %v", name, st.Size(), err)
		}
	}
	out := a.good("alloc", "logs", "-job", "talks")
	kept := strings.Split(strings.TrimSuffix(out, "last\n"), "\n")
	if len(out) < 1<<20 || len(out) > 2<<20 || !strings.HasSuffix(out, "\nlast\n") {
		t.Errorf("%d bytes of logs, which end with %q", len(out), out[max(0, len(out)-70):])
	}
	kept = kept[:len(kept)-1]
	for i, line := range kept[1:] { // the first may be cut
		if want := fmt.Sprintf("%063d", lines-len(kept)+2+i); line != want {
			t.Fatalf("line %d is %s, want %s", i, line, want)
		}
	}
	if out := a.good("alloc", "logs", "-n", "2", "-job", "talks"); out != fmt.Sprintf("%063d\nlast\n", lines) {
		t.Errorf("the last lines are %q", out)
	}
}
