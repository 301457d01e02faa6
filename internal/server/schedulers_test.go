package server_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/server"

	nomad "github.com/hashicorp/nomad/api"
)

// The workers of a server as Nomad's Go client sees them.
func TestSchedulersThroughTheGoClient(t *testing.T) {
	r := startWith(t, t.TempDir(), func(c *server.Config) { c.Workers = 3 })
	all := []string{"service", "batch", "system", "sysbatch", "_core"} // all, as clients know them
	same := func(got []string) bool {
		return slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(all)))
	}
	config, err := r.api.Agent().GetSchedulerWorkerConfig(nil)
	if err != nil || config.NumSchedulers != 3 || !same(config.EnabledSchedulers) {
		t.Errorf("%+v (%v)", config, err)
	}
	var info *nomad.AgentSchedulerWorkersInfo
	ids := map[string]bool{}
	r.until("all workers wait", func() bool {
		if info, err = r.api.Agent().GetSchedulerWorkersInfo(nil); err != nil {
			t.Fatal(err)
		}
		idle := true
		for _, w := range info.Schedulers {
			idle = idle && w.WorkloadStatus == "WaitingToDequeue"
		}
		return len(info.Schedulers) == 3 && idle
	})
	if info.ServerID != "s1" {
		t.Errorf("they are of %q", info.ServerID)
	}
	for _, w := range info.Schedulers {
		ids[w.ID] = true
		began, err := time.Parse(time.RFC3339Nano, w.Started)
		if err != nil || time.Since(began) > time.Hour || w.Status != "Started" || !same(w.EnabledSchedulers) || len(w.ID) != 36 {
			t.Errorf("%+v (%v)", w, err)
		}
	}
	if len(ids) != 3 {
		t.Errorf("their IDs are %v", ids)
	}
}

// Workers are changed while they work: with none nothing is decided, with other
// types what is of those, and what waited is decided when they are back.
func TestSchedulersAreChanged(t *testing.T) {
	r := startWith(t, t.TempDir(), func(c *server.Config) { c.Workers = 2 })
	change := func(n int, types ...string) {
		t.Helper()
		got, err := r.api.Agent().SetSchedulerWorkerConfig(nomad.SchedulerWorkerPoolArgs{NumSchedulers: n, EnabledSchedulers: types}, nil)
		if err != nil || got.NumSchedulers != n {
			t.Fatalf("%+v (%v)", got, err)
		}
		r.until("as many work", func() bool {
			info, err := r.api.Agent().GetSchedulerWorkersInfo(nil)
			return err == nil && len(info.Schedulers) == n && (n == 0 || len(info.Schedulers[0].EnabledSchedulers) == len(got.EnabledSchedulers))
		})
	}
	status := func(id string) string {
		e, _, err := r.api.Evaluations().Info(id, nil)
		if err != nil {
			t.Fatal(err)
		}
		return e.Status
	}
	register := func(id, typ string) string {
		job := nomad.NewServiceJob(id, id, "global", 50).AddTaskGroup(nomad.NewTaskGroup("g", 1).AddTask(nomad.NewTask("t", "raw_exec").SetConfig("command", "x")))
		job.Type = &typ
		out, _, err := r.api.Jobs().Register(job, nil)
		if err != nil {
			t.Fatal(err)
		}
		return out.EvalID
	}
	change(0)
	web, load := register("web", "service"), register("load", "batch")
	change(1, "batch", "_core")
	r.until("the batch job is decided", func() bool { return status(load) != "pending" })
	if s := status(web); s != "pending" {
		t.Errorf("the service was decided: %s", s)
	}
	change(3)
	r.until("the service is decided", func() bool { return status(web) != "pending" })
	for _, bad := range []nomad.SchedulerWorkerPoolArgs{{NumSchedulers: -1}, {NumSchedulers: 1025}, {NumSchedulers: 1, EnabledSchedulers: []string{"docker"}}} {
		if _, err := r.api.Agent().SetSchedulerWorkerConfig(bad, nil); err == nil || !strings.Contains(err.Error(), "400") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if config, err := r.api.Agent().GetSchedulerWorkerConfig(nil); err != nil || config.NumSchedulers != 3 || len(config.EnabledSchedulers) != 5 {
		t.Errorf("%+v (%v)", config, err)
	}
}

// How many versions of a job are kept is as the leader's configuration has it,
// from the next version on, and does not change with a restart.
func TestTrackedVersions(t *testing.T) {
	dir := t.TempDir()
	with := func(n int) *running {
		t.Helper()
		return startWith(t, dir, func(c *server.Config) { c.TrackedVersions = n })
	}
	next := 0
	register := func(r *running) {
		t.Helper()
		j := sleeper("web", 1)
		next++
		j.Meta = map[string]string{"n": fmt.Sprint(next)}
		if _, _, err := r.api.Jobs().Register(j, nil); err != nil {
			t.Fatal(err)
		}
	}
	kept := func(r *running) string {
		t.Helper()
		list, _, _, err := r.api.Jobs().Versions("web", false, nil)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, j := range list {
			out = append(out, fmt.Sprint(*j.Version))
		}
		return strings.Join(out, " ")
	}
	r := with(0)
	for range 8 {
		register(r)
	}
	want := func(r *running, text string) {
		t.Helper()
		if got := kept(r); got != text {
			t.Errorf("kept are %q, wanted %q", got, text)
		}
	}
	want(r, "7 6 5 4 3 2")
	if _, err := r.api.Jobs().TagVersion("web", 3, "good", "", nil); err != nil {
		t.Fatal(err)
	}
	r.stop()
	r = with(3)
	want(r, "7 6 5 4 3 2")
	register(r)
	want(r, "8 7 6 3")
	r.stop()
	r = with(3)
	want(r, "8 7 6 3")
	r.stop()
	r = with(5)
	register(r)
	register(r)
	register(r)
	want(r, "11 10 9 8 7 3")
	var raw struct{ Version uint64 }
	_, _, text := r.send("GET", "/v1/job/web", nil)
	if err := json.Unmarshal([]byte(text), &raw); err != nil || raw.Version != 11 {
		t.Errorf("%+v (%v)", raw, err)
	}
}
