package real

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
)

// A server is killed again and again while clients register jobs. Whatever was
// answered is there afterwards, once; and in the end a node runs each job once,
// as it was last registered.
//
// With BERTH_LONG set it is killed a hundred times.
func TestKilledInAStormOfRegistrations(t *testing.T) {
	t.Parallel()
	kills := 10
	if os.Getenv("BERTH_LONG") != "" {
		kills = 50 // each round looks at all that was answered so far
	}
	w := newWorld(t)
	server := w.agent("server", `
		server { enabled = true bootstrap_expect = 1 }
		limits { http_max_conns_per_client = 0 }`)
	server.joined()
	writers := make([]writer, 4)
	for i := range writers {
		writers[i] = writer{server: server, name: fmt.Sprint("w", i), jobs: map[string]*registered{}}
	}
	answered := 0
	for round := range kills {
		ctx, enough := make(chan struct{}), newCountdown(10+rand.N(100))
		var g sync.WaitGroup
		for i := range writers {
			g.Go(func() { writers[i].write(ctx, enough) })
		}
		select { // a random moment
		case <-enough.over:
		case <-server.Done():
			t.Errorf("the server ended by itself:\n%s", server.Said())
		}
		server.Kill()
		close(ctx)
		g.Wait()
		server.start()
		w.until("the server leads", func() string { return server.fails("/v1/jobs") })
		if t.Failed() {
			return
		}
		answered = 0
		for i := range writers {
			answered += writers[i].check(t, round)
		}
	}
	t.Logf("%d answered", answered)
	if answered < 5*kills {
		t.Errorf("only %d registrations were answered: that is no storm", answered)
	}
	node := w.agent("node", `
		client {
		  enabled         = true
		  servers         = ["`+server.rpc+`"]
		  memory_total_mb = 100000
		}`)
	node.joined()
	for i := range writers {
		for id, j := range writers[i].jobs {
			w.until(id+" runs once", func() string {
				var running []alloc
				for _, al := range server.allocs(id) {
					if al.DesiredStatus == "run" {
						running = append(running, al)
					}
				}
				if len(running) != 1 || running[0].ClientStatus != "running" || running[0].JobVersion != j.version {
					open := slices.DeleteFunc(server.evals(), func(e eval) bool { return e.JobID != id || e.Status != "pending" && e.Status != "blocked" })
					return fmt.Sprintf("version %d is wanted, there are %+v, and evaluations %+v", j.version, running, open)
				}
				return ""
			})
		}
	}
	if n := len(server.evalsOf("queued-allocs", "blocked")); n > 0 {
		t.Errorf("%d evaluations are still blocked", n)
	}
}

func (a *agent) evalsOf(trigger, status string) []eval {
	return slices.DeleteFunc(a.evals(), func(e eval) bool { return e.TriggeredBy != trigger || e.Status != status })
}

// writer registers jobs of its own, one after another, again and again. So at
// most one of its calls is without an answer when the server dies.
type writer struct {
	server *agent
	name   string
	next   int
	jobs   map[string]*registered
	open   *registered // what was sent and not answered; nil is nothing
}

// registered is what a writer knows of a job.
type registered struct {
	id      string
	word    string            // that tells the last registration
	version uint64            // it has now
	evals   map[string]string // those answered, and the word of each
}

const jobsOfWriter = 15

// write registers until the server is gone.
func (w *writer) write(stop <-chan struct{}, answered *countdown) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		w.next++
		id, word := fmt.Sprintf("%s-%d", w.name, rand.N(jobsOfWriter)), fmt.Sprint("word-", w.next)
		w.open = &registered{id: id, word: word}
		var answer struct{ EvalID string }
		_, err := w.server.try("PUT", "/v1/jobs", fmt.Sprintf(`{"Job": {"ID": %q, "Type": "service", "Meta": {"word": %q}, "TaskGroups": [{"Name": "g", "Tasks": [
			{"Name": "t", "Driver": "mock_driver", "Config": {"run_for": "1h"}, "Resources": {"CPU": 10, "MemoryMB": 10}}]}]}}`, id, word), &answer)
		var no *refused
		switch {
		case err == nil:
			j := w.jobs[id]
			if j == nil {
				j = &registered{id: id, evals: map[string]string{}}
				w.jobs[id] = j
			}
			j.word, j.evals[answer.EvalID], w.open = word, word, nil
			answered.tick()
		case errors.As(err, &no): // nothing is wrong with these jobs, and the dead say nothing
			w.server.w.t.Errorf("registration of %s: %v", id, err)
			return
		default:
			return
		}
	}
}

// check compares what the server has with what was answered. It returns how
// many registrations were.
func (w *writer) check(t *testing.T, round int) (answered int) {
	t.Helper()
	if o := w.open; o != nil && w.jobs[o.id] == nil && w.server.fails("/v1/job/"+o.id) == "" {
		// It was not answered, and was taken.
		w.jobs[o.id] = &registered{id: o.id, evals: map[string]string{}}
	}
	for id, j := range w.jobs {
		var job struct {
			Version uint64
			Meta    map[string]string
		}
		if _, err := w.server.try("GET", "/v1/job/"+id, "", &job); err != nil {
			t.Errorf("round %d: job %s was registered, and is lost: %v", round, id, err)
			continue
		}
		var evals []eval
		w.server.get("/v1/job/"+id+"/evaluations", &evals)
		registrations := map[string]bool{}
		for _, e := range evals {
			if e.TriggeredBy == "job-register" {
				registrations[e.ID] = true
			}
		}
		for e := range maps.Keys(j.evals) {
			if !registrations[e] {
				t.Errorf("round %d: evaluation %s of job %s was answered, and is lost", round, e, id)
			}
		}
		extra := len(registrations) - len(j.evals)
		if o := w.open; o != nil && o.id == id && extra == 1 && job.Meta["word"] == o.word {
			// Taken, though it was not answered.
			for e := range registrations {
				if j.evals[e] == "" {
					j.evals[e] = o.word
				}
			}
			j.word, extra = o.word, 0
		}
		if extra != 0 {
			t.Errorf("round %d: job %s has %d registrations that nobody made", round, id, extra)
		}
		if job.Meta["word"] != j.word || job.Version != uint64(len(j.evals)-1) {
			t.Errorf("round %d: job %s is version %d with the word %s; %d registrations were made, the last with %s", round, id, job.Version, job.Meta["word"], len(j.evals), j.word)
		}
		j.version = job.Version
		answered += len(j.evals)
	}
	w.open = nil
	return answered
}
