package real

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"berth/internal/environ"
	"berth/test/bed"
)

// The one process that is server and agent is killed at moments that nobody
// chose, while jobs are registered, changed and stopped. What is wanted in the
// end runs, each instance in one process, and nothing else does.
//
// With BERTH_LONG set it is killed fifty times.
func TestKilledWhileTasksComeAndGo(t *testing.T) {
	t.Parallel()
	kills := 6
	if os.Getenv("BERTH_LONG") != "" {
		kills = 50
	}
	w := newWorld(t)
	a := w.agent("one", both)
	a.joined()
	c := churner{a: a, wanted: map[string]wanted{}}
	for round := range kills {
		done, stop, enough := make(chan struct{}), make(chan struct{}), newCountdown(1+rand.N(15))
		go func() {
			defer close(done)
			c.churn(stop, enough)
		}()
		<-enough.over // a random moment
		a.Kill()
		close(stop)
		<-done
		a.start()
		if round%2 == 0 { // else it is killed while it takes up again what runs
			a.joined()
		}
		a.w.until("there is a leader", func() string { return a.fails("/v1/jobs") })
		c.answer()
	}
	a.joined()
	running := map[string]bool{}
	for job, want := range c.wanted {
		for id, pids := range a.settled(job, want.count) {
			running[id] = true
			if env := environ.Of(pids[0]); !strings.Contains(string(env), "\x00WORD="+want.word+"\x00") {
				t.Errorf("%s does not run as it was last registered, with %s", job, want.word)
			}
		}
	}
	// A supervisor that no agent calls gives up after 30 s. Those of tasks that
	// were stopped as they started must be ended by the agent, before that.
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
	defer cancel()
	err := bed.Poll(ctx, "nothing else runs", func() string {
		for id, pids := range w.tasks() {
			if !running[id] {
				return fmt.Sprintf("%s with the processes %v", id, pids)
			}
		}
		for id := range w.supervisors() {
			if !running[id] {
				return "the supervisor of " + id
			}
		}
		return ""
	})
	if err != nil {
		t.Error(err)
	}
	for job, want := range c.wanted {
		for _, al := range a.allocs(job) {
			if al.ClientStatus == "failed" || al.ClientStatus == "lost" {
				t.Errorf("%s %s is %s: %s, wanted %v", al.ID, al.Name, al.ClientStatus, al.TaskStates["main"].story(), want)
			}
		}
	}
}

// churner changes jobs, one call at a time.
type churner struct {
	a      *agent
	wanted map[string]wanted
	next   int
	open   string // the job of a call that was not answered
	asked  wanted // and what it asked for
}

// wanted is how a job was last registered.
type wanted struct {
	count int // 0 is stopped, too
	word  string
}

func (c *churner) churn(stop <-chan struct{}, calls *countdown) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		c.next++
		job := fmt.Sprint("job-", rand.N(4))
		ask := wanted{rand.N(4), fmt.Sprint("word-", c.next)}
		if was, ok := c.wanted[job]; ok && rand.N(2) == 0 {
			ask.word = was.word // only the count, in place
		}
		method, path, body := "PUT", "/v1/jobs", fmt.Sprintf(`{"Job": {"ID": %q, "Update": {"MaxParallel": 0}, "TaskGroups": [{"Name": "g", "Count": %d, "Tasks": [{"Name": "main", "Driver": "raw_exec",
			"Config": {"command": "/bin/sleep", "args": ["1000"]}, "Env": {"WORD": %q}, "KillTimeout": 1000000000, "Resources": {"CPU": 20, "MemoryMB": 20}}]}]}}`, job, ask.count, ask.word)
		if _, known := c.wanted[job]; known && rand.N(4) == 0 {
			method, path, body, ask.count = "DELETE", "/v1/job/"+job, "", 0
		}
		c.open, c.asked = job, ask
		calls.tick() // so that the last call may get no answer
		_, err := c.a.try(method, path, body, nil)
		if _, ok := errors.AsType[*refused](err); ok {
			c.a.w.t.Errorf("%s %s: %v", method, path, err)
		}
		if err != nil {
			return
		}
		c.wanted[job], c.open = ask, ""
		time.Sleep(rand.N(100 * time.Millisecond)) // people take their time
	}
}

// answer finds out what became of the call that was not answered.
func (c *churner) answer() {
	if c.open == "" {
		return
	}
	var job struct {
		Stop       bool
		TaskGroups []struct {
			Count int
			Tasks []struct{ Env map[string]string }
		}
	}
	if _, err := c.a.try("GET", "/v1/job/"+c.open, "", &job); err != nil {
		c.open = ""
		return
	}
	is := wanted{job.TaskGroups[0].Count, job.TaskGroups[0].Tasks[0].Env["WORD"]}
	if job.Stop {
		is.count = 0
	}
	was, known := c.wanted[c.open]
	same := func(x, y wanted) bool { return x.count == y.count && (x.count == 0 || x.word == y.word) }
	if !same(is, c.asked) && (!known || !same(is, was)) {
		c.a.w.t.Errorf("%s was %v, %v was asked for without an answer, and it is %v", c.open, was, c.asked, is)
	}
	c.wanted[c.open], c.open = is, ""
}
