package server_test

import (
	"testing"
	"time"

	"berth"
	"berth/internal/leader/heartbeat"
	"berth/internal/server"

	nomad "github.com/hashicorp/nomad/api"
)

// Each row of the tables in docs/evaluations.md that a user can cause, caused
// and seen with Nomad's Go client.

// eval returns the newest evaluation of a job that was raised by a trigger.
func (r *running) eval(job, trigger string) *nomad.Evaluation {
	r.t.Helper()
	var found *nomad.Evaluation
	r.until(job+" has an evaluation raised by "+trigger, func() bool {
		list, _, err := r.api.Evaluations().List(&nomad.QueryOptions{Filter: `JobID == "` + job + `" and TriggeredBy == "` + trigger + `"`, Reverse: true})
		if err != nil {
			r.t.Fatal(err)
		}
		if len(list) > 0 {
			found = list[0]
		}
		return len(list) > 0
	})
	return found
}

// becomes waits until an evaluation has a status.
func (r *running) becomes(id, status string) *nomad.Evaluation {
	r.t.Helper()
	var e *nomad.Evaluation
	r.until("evaluation "+id+" is "+status, func() bool {
		var err error
		if e, _, err = r.api.Evaluations().Info(id, nil); err != nil {
			r.t.Fatal(err)
		}
		return e.Status == status
	})
	return e
}

// takes returns a job of so many instances, each of which takes that much of a
// node's 4000 MHz.
func takes(id string, count, cpu int) *nomad.Job {
	j := sleeper(id, count)
	j.TaskGroups[0].Tasks[0].Resources = &nomad.Resources{CPU: &cpu}
	return j
}

func (r *running) register(j *nomad.Job) string {
	r.t.Helper()
	return must[*nomad.JobRegisterResponse, *nomad.WriteMeta](r.t)(r.api.Jobs().Register(j, nil)).EvalID
}

func (r *running) deregister(job string) string {
	r.t.Helper()
	return must[string, *nomad.WriteMeta](r.t)(r.api.Jobs().Deregister(job, false, nil))
}

func TestRowsOfRoom(t *testing.T) {
	r := start(t, t.TempDir())
	r.node(1)
	// job-register: pending to complete; the rest is queued-allocs, blocked.
	first := r.becomes(r.register(takes("web", 2, 3000)), "complete")
	waits := r.eval("web", "queued-allocs")
	if first.BlockedEval != waits.ID || waits.PreviousEval != first.ID || waits.Status != "blocked" {
		t.Errorf("%+v and %+v", first, waits)
	}
	// blocked to complete, as soon as there is room.
	r.node(2)
	r.becomes(waits.ID, "complete")
	// complete: there is nothing to do.
	r.becomes(r.register(takes("web", 2, 3000)), "complete")
	// blocked to canceled: a newer one of its job does its work.
	r.becomes(r.register(takes("web", 4, 3000)), "complete")
	third := r.eval("web", "queued-allocs")
	r.becomes(r.register(takes("web", 5, 3000)), "complete")
	r.becomes(third.ID, "canceled")
	// job-deregister, and blocked to canceled: the job was stopped.
	fourth := r.eval("web", "queued-allocs")
	if e := r.becomes(r.deregister("web"), "complete"); e.TriggeredBy != "job-deregister" {
		t.Errorf("%+v", e)
	}
	r.becomes(fourth.ID, "canceled")
}

func TestRowsOfFailures(t *testing.T) {
	r := start(t, t.TempDir())
	n := r.node(1)
	j := takes("web", 1, 100)
	delay, interval, attempts, unlimited, function, most := 5*time.Second, time.Duration(0), 0, true, "constant", time.Hour
	j.TaskGroups[0].ReschedulePolicy = &nomad.ReschedulePolicy{
		Delay: &delay, Interval: &interval, Attempts: &attempts, Unlimited: &unlimited, DelayFunction: &function, MaxDelay: &most,
	}
	r.becomes(r.register(j), "complete")
	n.says(berth.ClientFailed)
	// alloc-failure, and a delayed one that replaces it when it is due.
	var later *nomad.Evaluation
	r.until("a delayed evaluation is there", func() bool {
		later = r.eval("web", "alloc-failure")
		return later.PreviousEval != ""
	})
	now, _, err := r.api.Evaluations().Info(later.PreviousEval, nil)
	if err != nil || now.TriggeredBy != "alloc-failure" || later.WaitUntil.IsZero() {
		t.Errorf("%+v, before it %+v, %v", later, now, err)
	}
	r.becomes(later.ID, "complete")
	list, _, err := r.api.Jobs().Allocations("web", false, nil)
	if err != nil || len(list) != 2 {
		t.Errorf("%d allocations, %v", len(list), err)
	}
}

func TestRowsOfNodes(t *testing.T) {
	r := startWith(t, t.TempDir(), func(c *server.Config) {
		c.Heartbeat = heartbeat.Options{MinTTL: 20 * time.Millisecond, MaxPerSec: 1000, Grace: 500 * time.Millisecond, FailoverTTL: time.Second}
	})
	n := r.node(1)
	r.becomes(r.register(takes("web", 1, 100)), "complete")
	// node-update: the node is not heard, is down, and what it ran is lost; there
	// is no other, so the rest waits, and is placed when the node is back.
	e := r.becomes(r.eval("web", "node-update").ID, "complete")
	if e.NodeID != n.ID.String() || e.BlockedEval == "" {
		t.Errorf("%+v", e)
	}
	r.node(2)
	r.becomes(e.BlockedEval, "complete")
}

func TestRowsOfAPausedBroker(t *testing.T) {
	r := start(t, t.TempDir())
	r.node(1)
	pause := func(on bool) {
		t.Helper()
		if _, _, err := r.api.Operator().SchedulerSetConfiguration(&nomad.SchedulerConfiguration{SchedulerAlgorithm: "binpack", PauseEvalBroker: on}, nil); err != nil {
			t.Fatal(err)
		}
	}
	pause(true)
	config, _, err := r.api.Operator().SchedulerGetConfiguration(nil)
	if err != nil || !config.SchedulerConfig.PauseEvalBroker {
		t.Errorf("%+v, %v", config, err)
	}
	// pending to canceled: of two that wait the newer does for both.
	first, second := r.register(takes("web", 1, 100)), r.register(takes("web", 2, 100))
	if e := r.becomes(first, "canceled"); e.StatusDescription != "superseded by evaluation "+second {
		t.Error(e.StatusDescription)
	}
	if e := r.becomes(second, "pending"); e.Status != "pending" {
		t.Errorf("%+v", e)
	}
	pause(false)
	r.becomes(second, "complete")
	// canceled to deleted.
	r.becomes(r.deregister("web"), "complete")
	if _, err := r.api.Evaluations().Delete([]string{first}, nil); err != nil {
		t.Error(err)
	}
	if _, _, err := r.api.Evaluations().Info(first, nil); err == nil {
		t.Errorf("evaluation %s is still there", first)
	}
}
