package server_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/eventually"
	"berth/op"

	"github.com/google/go-cmp/cmp"
	nomad "github.com/hashicorp/nomad/api"
)

// sleeper is a job of count tasks that wait.
func sleeper(id string, count int) *nomad.Job {
	task := nomad.NewTask("app", "raw_exec").SetConfig("command", "/bin/sleep").SetConfig("args", []string{"60"})
	return nomad.NewServiceJob(id, id, "global", 50).AddTaskGroup(nomad.NewTaskGroup("g", count).AddTask(task))
}

// atOnce makes a job one that is updated all at once, without a deployment.
func atOnce(j *nomad.Job) *nomad.Job {
	j.Update = &nomad.UpdateStrategy{MaxParallel: new(0)}
	return j
}

// must returns what a call of the Go client returned, if it went well.
func must[T, M any](t testing.TB) func(T, M, error) T {
	return func(v T, _ M, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// settled waits until an evaluation has ended, and returns it.
func (r *running) settled(id string) (e *nomad.Evaluation) {
	r.t.Helper()
	r.until("evaluation "+id+" has ended", func() (ok bool) {
		var err error
		e, _, err = r.api.Evaluations().Info(id, nil)
		return err == nil && e.Status != "pending"
	})
	return e
}

// refused says whether an error of the Go client is an answer with that code
// that holds the text.
func refused(t testing.TB, what string, err error, code int, text string) {
	t.Helper()
	e, ok := err.(nomad.UnexpectedResponseError)
	if !ok || e.StatusCode() != code || !strings.Contains(e.Body(), text) {
		t.Errorf("%s: %v; wanted are %d and %q", what, err, code, text)
	}
}

// The life of a job as the Go client sees it: registered, changed, listed,
// stopped, purged.
func TestTheLifeOfAJob(t *testing.T) {
	r := start(t, t.TempDir())
	n := r.node(1)
	jobs := r.api.Jobs()
	reg := must[*nomad.JobRegisterResponse, *nomad.WriteMeta](t)
	first := reg(jobs.Register(sleeper("web", 2), nil))
	if first.EvalID == "" || first.EvalCreateIndex == 0 || first.JobModifyIndex == 0 {
		t.Errorf("the answer to a registration is %+v", first)
	}
	e := r.settled(first.EvalID)
	if e.Status != "complete" || e.TriggeredBy != "job-register" || e.JobID != "web" || e.Namespace != "default" || e.Type != "service" ||
		e.Priority != 50 || e.QueuedAllocations["g"] != 0 || e.CreateIndex == 0 || e.ModifyIndex <= e.CreateIndex || e.CreateTime == 0 {
		t.Errorf("the evaluation is %+v", e)
	}
	info := must[*nomad.Job, *nomad.QueryMeta](t)
	job := info(jobs.Info("web", nil))
	if *job.ID != "web" || *job.Version != 0 || *job.Stop || *job.Stable || *job.Status != "running" || *job.SubmitTime == 0 || *job.CreateIndex == 0 ||
		*job.JobModifyIndex != first.JobModifyIndex || *job.Namespace != "default" || *job.Type != "service" || *job.TaskGroups[0].Count != 2 || len(job.TaskGroups[0].Tasks) != 1 {
		t.Errorf("the job is %+v", job)
	}

	// Registering what is there makes no new version, and a change does.
	same := reg(jobs.Register(sleeper("web", 2), nil))
	r.settled(same.EvalID)
	if job = info(jobs.Info("web", nil)); *job.Version != 0 {
		t.Errorf("the same job has version %d", *job.Version)
	}
	changed := reg(jobs.Register(sleeper("web", 3), nil))
	r.settled(changed.EvalID)
	if job = info(jobs.Info("web", nil)); *job.Version != 1 || *job.TaskGroups[0].Count != 3 || *job.CreateIndex != first.JobModifyIndex {
		t.Errorf("the changed job is %+v", job)
	}

	// Register only what one has seen.
	for index, want := range map[uint64]string{
		0:                          "Enforcing job modify index 0: job already exists",
		first.JobModifyIndex:       fmt.Sprintf("Enforcing job modify index %d: job exists with conflicting job modify index: %d", first.JobModifyIndex, changed.JobModifyIndex),
		changed.JobModifyIndex + 9: nomad.RegisterEnforceIndexErrPrefix,
	} {
		_, _, err := jobs.EnforceRegister(sleeper("web", 4), index, nil)
		refused(t, "an old index", err, http.StatusConflict, want)
	}
	_, _, err := jobs.EnforceRegister(sleeper("new", 1), 7, nil)
	refused(t, "an index of what is not there", err, http.StatusConflict, "Enforcing job modify index 7: job does not exist")
	again := reg(jobs.EnforceRegister(sleeper("web", 2), changed.JobModifyIndex, nil))
	r.settled(again.EvalID)
	kept := reg(jobs.RegisterOpts(sleeper("web", 9), &nomad.RegisterOptions{PreserveCounts: true}, nil))
	r.settled(kept.EvalID)
	if job = info(jobs.Info("web", nil)); *job.TaskGroups[0].Count != 2 {
		t.Errorf("the count was to be kept, and is %d", *job.TaskGroups[0].Count)
	}

	// What is running counts in its summary.
	var pulled op.NodeAllocIndexesAnswer
	n.call("Node.GetClientAllocs", &op.NodeAllocIndexes{NodeID: n.ID, SecretID: n.SecretID}, &pulled)
	report := &op.ReportAllocs{Write: op.Write{AuthToken: n.SecretID}}
	for id := range pulled.Allocs {
		full, _ := berth.ParseID[berth.Alloc](id)
		report.Alloc = append(report.Alloc, &op.AllocReport{ID: full, NodeID: n.ID, ClientStatus: berth.ClientRunning})
	}
	n.call("Node.UpdateAlloc", report, &op.WriteAnswer{})
	summary := must[*nomad.JobSummary, *nomad.QueryMeta](t)(jobs.Summary("web", nil))
	if g := summary.Summary["g"]; summary.JobID != "web" || g.Running < 2 || g.Starting != 0 || summary.Children == nil {
		t.Errorf("the summary is %+v", summary)
	}
	list := must[[]*nomad.JobListStub, *nomad.QueryMeta](t)(jobs.List(nil))
	if len(list) != 1 || list[0].ID != "web" || list[0].Status != "running" || list[0].JobSummary.Summary["g"].Running != summary.Summary["g"].Running {
		t.Errorf("the list of jobs is %+v", list)
	}

	// Stopped it is there with a new version, purged it is not.
	id, _, err := jobs.Deregister("web", false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if e := r.settled(id); e.TriggeredBy != "job-deregister" {
		t.Errorf("the evaluation of the stop is %+v", e)
	}
	if stopped := info(jobs.Info("web", nil)); !*stopped.Stop || *stopped.Version != *job.Version+1 {
		t.Errorf("the stopped job is %+v", stopped)
	}
	for _, a := range must[[]*nomad.AllocationListStub, *nomad.QueryMeta](t)(jobs.Allocations("web", false, nil)) {
		if a.DesiredStatus != "stop" {
			t.Errorf("an allocation of the stopped job is %+v", a)
		}
	}
	_, _, err = jobs.DeregisterOpts("web", &nomad.DeregisterOptions{EvalPriority: 1000}, nil)
	refused(t, "a priority that is none", err, http.StatusBadRequest, "eval_priority: must be from 1 to 100, got 1000")
	if id, _, err = jobs.Deregister("web", true, nil); err != nil {
		t.Fatal(err)
	}
	r.settled(id)
	_, _, err = jobs.Info("web", nil)
	refused(t, "a purged job", err, http.StatusNotFound, "job not found")
	for _, purge := range []bool{false, true} {
		if id, meta, err := jobs.Deregister("web", purge, nil); err != nil || id != "" || meta.LastIndex == 0 {
			t.Errorf("stopping a purged job: %q %+v %v", id, meta, err)
		}
	}
	reborn := reg(jobs.Register(sleeper("web", 1), nil))
	r.settled(reborn.EvalID)
	if job = info(jobs.Info("web", nil)); *job.Version != 0 || *job.CreateIndex != reborn.JobModifyIndex {
		t.Errorf("the job that was made anew is %+v", job)
	}
	if all, own := len(must[[]*nomad.AllocationListStub, *nomad.QueryMeta](t)(jobs.Allocations("web", true, nil))), len(must[[]*nomad.AllocationListStub, *nomad.QueryMeta](t)(jobs.Allocations("web", false, nil))); own != 1 || all <= own {
		t.Errorf("%d allocations, %d with those of the earlier job", own, all)
	}
}

// send makes a request as it is.
func (r *running) send(method, path string, body io.Reader) (int, http.Header, string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.http+path, body)
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(method, path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(method, path, err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

// Both forms of a job in JSON are taken, by POST and PUT, at both paths, with
// names in any case; IDs may hold slashes, escaped or not.
func TestFormsOfAJob(t *testing.T) {
	r := start(t, t.TempDir())
	job := func(id string) string {
		return `{"ID": "` + id + `", "Datacenters": ["dc1"], "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "app", "Driver": "raw_exec", "Config": {"command": "/bin/true"}}]}]}`
	}
	for _, c := range []struct{ method, path, id, body string }{
		{"PUT", "/v1/jobs", "a", `{"Job": ` + job("a") + `}`},
		{"POST", "/v1/jobs", "b", job("b")},
		{"POST", "/v1/job/c", "c", `{"job": ` + job("c") + `}`},
		{"PUT", "/v1/job/d", "d", job("d")},
		{"PUT", "/v1/jobs", "e", strings.ToLower(job("e"))},
		{"PUT", "/v1/jobs?namespace=default&region=global&pretty", "f", `{"Job": ` + job("f") + `, "Region": "", "Namespace": null, "SecretID": "", "Unknown": false}`},
	} {
		code, h, text := r.send(c.method, c.path, strings.NewReader(c.body))
		if code != http.StatusOK || h.Get(op.HeaderIndex) == "" || h.Get("Content-Type") != "application/json" || !strings.Contains(text, "EvalID") {
			t.Errorf("%s %s: %d %s", c.method, c.path, code, text)
		}
		if _, _, err := r.api.Jobs().Info(c.id, nil); err != nil {
			t.Errorf("%s: %v", c.id, err)
		}
	}
	if code, _, text := r.send("PUT", "/v1/job/x%2Fy", strings.NewReader(job("x/y"))); code != http.StatusOK {
		t.Errorf("an ID with a slash: %d %s", code, text)
	}
	for _, path := range []string{"/v1/job/x%2Fy", "/v1/job/x/y", "/v1/job/x/y/evaluations", "/v1/job/x%2Fy/summary", "/v1/job/x/y/allocations?all=true"} {
		if code, _, text := r.send("GET", path, nil); code != http.StatusOK {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	code, _, text := r.send("PUT", "/v1/job/other", strings.NewReader(job("a")))
	if code != http.StatusBadRequest || !strings.Contains(text, `the path names "other", the body "a"`) {
		t.Errorf("a path and a body that differ: %d %s", code, text)
	}
	for _, ns := range []string{"nowhere", "*"} {
		code, _, text = r.send("PUT", "/v1/jobs?namespace="+ns, strings.NewReader(job("a")))
		if code != http.StatusBadRequest || !strings.Contains(text, "namespace") {
			t.Errorf("namespace %s: %d %s", ns, code, text)
		}
	}
}

// Lists by prefix, page and filter, over the Go client.
func TestLists(t *testing.T) {
	r := start(t, t.TempDir())
	for _, id := range []string{"app-1", "app-2", "app-3", "web"} {
		if _, _, err := r.api.Jobs().Register(sleeper(id, 1), nil); err != nil {
			t.Fatal(err)
		}
	}
	ids := func(list []*nomad.JobListStub) (out string) {
		for _, j := range list {
			out += j.ID + " "
		}
		return out
	}
	jobs := must[[]*nomad.JobListStub, *nomad.QueryMeta](t)
	if got := ids(jobs(r.api.Jobs().PrefixList("app-"))); got != "app-1 app-2 app-3 " {
		t.Errorf("by prefix: %s", got)
	}
	if got := ids(jobs(r.api.Jobs().List(&nomad.QueryOptions{Filter: `Name == "web" or ID matches "2$"`, Namespace: "*"}))); got != "app-2 web " {
		t.Errorf("by filter: %s", got)
	}
	if got := ids(jobs(r.api.Jobs().List(&nomad.QueryOptions{Namespace: "other"}))); got != "" {
		t.Errorf("in a namespace that is not there: %s", got)
	}
	var pages []string
	for q := (&nomad.QueryOptions{PerPage: 3}); ; {
		list, meta, err := r.api.Jobs().List(q)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, ids(list))
		if q.NextToken = meta.NextToken; q.NextToken == "" {
			break
		}
	}
	if d := cmp.Diff([]string{"app-1 app-2 app-3 ", "web "}, pages); d != "" {
		t.Error(d)
	}
	_, _, err := r.api.Jobs().List(&nomad.QueryOptions{Filter: `Name ==`})
	refused(t, "an invalid filter", err, http.StatusBadRequest, "failed to read filter expression")

	// Nothing has a place, so each evaluation has left one that waits for room.
	var evals []*nomad.Evaluation
	r.until("all are blocked", func() bool {
		evals, _, err = r.api.Evaluations().List(&nomad.QueryOptions{Params: map[string]string{"status": "blocked"}})
		return err == nil && len(evals) == 4
	})
	mine, _, err := r.api.Evaluations().List(&nomad.QueryOptions{Params: map[string]string{"job": "web", "status": "blocked"}})
	if err != nil || len(mine) != 1 || mine[0].JobID != "web" {
		t.Errorf("the blocked evaluations of web are %+v, %v", mine, err)
	}
	byJob, _, err := r.api.Jobs().Evaluations("web", nil)
	if err != nil || len(byJob) != 2 {
		t.Errorf("the evaluations of web are %+v, %v", byJob, err)
	}
	done := r.settled(byJob[1].ID)
	if done.BlockedEval != mine[0].ID || done.FailedTGAllocs["g"] == nil || done.FailedTGAllocs["g"].NodesEvaluated != 0 {
		t.Errorf("the evaluation that found no place is %+v", done)
	}
	short, _, err := r.api.Evaluations().PrefixList(mine[0].ID[:8])
	if err != nil || len(short) != 1 || short[0].ID != mine[0].ID {
		t.Errorf("by prefix: %+v, %v", short, err)
	}

	// A node has room: all are placed, and show in each list of allocations.
	n := r.node(1)
	var allocs []*nomad.AllocationListStub
	r.until("all are placed", func() bool {
		allocs, _, err = r.api.Allocations().List(nil)
		return err == nil && len(allocs) == 4
	})
	a := allocs[0]
	if a.NodeID != n.ID.String() || a.NodeName != "n1" || a.Namespace != "default" || a.TaskGroup != "g" || a.JobType != "service" || a.Name != a.JobID+".g[0]" ||
		a.DesiredStatus != "run" || a.ClientStatus != "pending" || a.CreateIndex == 0 || a.CreateTime == 0 || a.EvalID == "" || a.AllocatedResources != nil {
		t.Errorf("a stub is %+v", a)
	}
	with, _, err := r.api.Allocations().List(&nomad.QueryOptions{Params: map[string]string{"resources": "true", "task_states": "false"}, Filter: `JobID == "web"`})
	if err != nil || len(with) != 1 || with[0].AllocatedResources == nil || with[0].AllocatedResources.Tasks["app"].Memory.MemoryMB == 0 || with[0].TaskStates != nil {
		t.Errorf("a stub with resources is %+v, %v", with, err)
	}
	prefixed, _, err := r.api.Allocations().PrefixList(a.ID[:8])
	if err != nil || len(prefixed) != 1 || prefixed[0].ID != a.ID {
		t.Errorf("by prefix: %+v, %v", prefixed, err)
	}
	full := must[*nomad.Allocation, *nomad.QueryMeta](t)(r.api.Allocations().Info(a.ID, nil))
	if *full.Job.ID != a.JobID || full.GetTaskGroup() == nil || full.AllocatedResources == nil || full.Metrics == nil || full.NodeName != "n1" || full.EvalID != a.EvalID {
		t.Errorf("the allocation is %+v", full)
	}
	by := must[[]*nomad.AllocationListStub, *nomad.QueryMeta](t)(r.api.Evaluations().Allocations(a.EvalID, nil))
	if len(by) != 1 || by[0].ID != a.ID {
		t.Errorf("the allocations of the evaluation are %+v", by)
	}
	there := must[[]*nomad.Allocation, *nomad.QueryMeta](t)(r.api.Nodes().Allocations(n.ID.String(), nil))
	if len(there) != 4 || there[0].Job == nil {
		t.Errorf("the allocations of the node are %+v", there)
	}
	nodes := must[[]*nomad.NodeListStub, *nomad.QueryMeta](t)(r.api.Nodes().List(nil))
	if len(nodes) != 1 || nodes[0].ID != n.ID.String() || nodes[0].Status != "ready" || nodes[0].SchedulingEligibility != "eligible" || !nodes[0].Drivers["raw_exec"].Healthy {
		t.Errorf("the nodes are %+v", nodes)
	}
	node := must[*nomad.Node, *nomad.QueryMeta](t)(r.api.Nodes().Info(n.ID.String(), nil))
	if node.Name != "n1" || node.NodeResources.Memory.MemoryMB != 4000 || len(node.Events) == 0 {
		t.Errorf("the node is %+v", node)
	}
	for _, path := range []string{"/v1/nodes?resources=true", "/v1/node/" + n.ID.String(), "/v1/allocation/" + a.ID, "/v1/node/" + n.ID.String() + "/allocations"} {
		if _, _, text := r.send("GET", path, nil); strings.Contains(text, n.SecretID) {
			t.Errorf("%s tells the secret of the node", path)
		}
	}
}

// What is not there, and what is asked for in a way that there is not.
func TestRefusals(t *testing.T) {
	r := start(t, t.TempDir())
	const id = "11111111-2222-3333-4444-555555555555"
	for _, c := range []struct {
		line string
		code int
		want string
	}{
		{"GET /v1/job/none", 404, "job not found"},
		{"GET /v1/job/none/summary", 404, "job not found"},
		{"DELETE /v1/job/none?uid=j-0000000000000009-00", 404, "is not there any more"},
		{"GET /v1/evaluation/" + id, 404, "eval not found"},
		{"GET /v1/allocation/" + id, 404, "alloc not found"},
		{"GET /v1/node/" + id, 404, "node not found"},
		{"GET /v1/client/fs/logs/" + id + "?task=app&type=stdout", 404, "alloc not found"},
		{"GET /v1/client/fs/logs/" + id + "?type=stdout", 400, "must provide task name"},
		{"GET /v1/client/fs/logs/" + id + "?task=app&type=both", 400, `type: must be stdout or stderr, got "both"`},
		{"GET /v1/client/fs/logs/" + id + "?task=app&type=stdout&origin=middle&offset=-1", 400, "2 problems"},
		{"GET /v1/client/fs/logs/" + id + "?task=app&type=stdout&offset=x", 400, "offset"},
		{"GET /v1/allocation/123", 400, "123"},
		{"GET /v1/evaluation/%ff%fe", 400, ""},
		{"GET /v1/nothing", 404, "no such path: /v1/nothing"},
		{"GET /", 404, "no web page; its paths begin with /v1/"},
		{"DELETE /v1/jobs", 405, "Invalid method"},
		{"PATCH /v1/jobs", 405, "Invalid method"},
		{"POST /v1/job/none/summary", 405, "Invalid method"},
		{"PUT /v1/nodes", 405, "Invalid method"},
		{"GET /v1/jobs?region=moon", 400, "No path to region"},
		{"GET /v1/agent/health?type=both", 400, "type"},
		{"GET /v1/metrics?format=xml", 400, "format"},
	} {
		method, path, _ := strings.Cut(c.line, " ")
		code, h, text := r.send(method, path, nil)
		if code != c.code || !strings.Contains(text, c.want) || !strings.HasPrefix(h.Get("Content-Type"), "text/plain") || strings.HasSuffix(text, "\n") {
			t.Errorf("%s: %d %s %q", c.line, code, h.Get("Content-Type"), text)
		}
		if code == 405 && h.Get("Allow") == "" {
			t.Errorf("%s: nothing is said of what is allowed", c.line)
		}
	}
	// The lists of what is not there are empty, and their index is that of a table
	// that never had a row.
	for _, path := range []string{"/v1/job/none/evaluations", "/v1/job/none/allocations", "/v1/evaluation/" + id + "/allocations", "/v1/node/" + id + "/allocations", "/v1/node/nope/allocations"} {
		if code, h, text := r.send("GET", path, nil); code != 200 || strings.TrimSpace(text) != "[]" || h.Get("X-Nomad-Index") != "0" {
			t.Errorf("%s: %d, index %q, %s", path, code, h.Get("X-Nomad-Index"), text)
		}
	}
}

// A query that waits answers when what it asks for has changed, with the index
// of that change, and at the end of its time otherwise.
func TestBlockingQueries(t *testing.T) {
	r := start(t, t.TempDir())
	n := r.node(1)
	reg, _, err := r.api.Jobs().Register(sleeper("web", 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.settled(reg.EvalID)
	job, meta, err := r.api.Jobs().Info("web", nil)
	if err != nil || meta.LastIndex < *job.ModifyIndex || !meta.KnownLeader {
		t.Fatalf("%+v %v", meta, err)
	}
	type answer struct {
		job  *nomad.Job
		meta *nomad.QueryMeta
	}
	answers := make(chan answer, 1)
	go func() {
		j, m, err := r.api.Jobs().Info("web", &nomad.QueryOptions{WaitIndex: meta.LastIndex, WaitTime: op.MaxWait})
		if err != nil {
			t.Error(err)
		}
		answers <- answer{j, m}
	}()
	// Another job is nothing to it.
	other, _, err := r.api.Jobs().Register(sleeper("other", 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.settled(other.EvalID)
	begin := time.Now()
	if _, m, err := r.api.Jobs().Info("web", &nomad.QueryOptions{WaitIndex: meta.LastIndex, WaitTime: 30 * time.Millisecond}); err != nil || m.LastIndex != meta.LastIndex || time.Since(begin) < 30*time.Millisecond {
		t.Errorf("with nothing new: %+v %v after %v", m, err, time.Since(begin))
	}
	select {
	case a := <-answers:
		t.Fatalf("another job has woken it: %+v", a.meta)
	default:
	}
	changed, _, err := r.api.Jobs().Register(sleeper("web", 2), nil)
	if err != nil {
		t.Fatal(err)
	}
	if a := <-answers; a.job == nil || *a.job.Version != 1 || a.meta.LastIndex < changed.JobModifyIndex || a.meta.LastIndex <= meta.LastIndex {
		t.Errorf("woken with %+v", a.meta)
	}
	r.settled(changed.EvalID)

	// A node that waits for work is woken by what is placed on it.
	var pulled op.NodeAllocIndexesAnswer
	n.call("Node.GetClientAllocs", &op.NodeAllocIndexes{NodeID: n.ID, SecretID: n.SecretID}, &pulled)
	before := len(pulled.Allocs)
	woken := make(chan int, 1)
	go func() {
		var next op.NodeAllocIndexesAnswer
		err := n.session.Call(t.Context(), "Node.GetClientAllocs", &op.NodeAllocIndexes{NodeID: n.ID, SecretID: n.SecretID, Query: op.Query{MinQueryIndex: pulled.Index, MaxQueryTime: op.MaxWait}}, &next)
		if err != nil || next.Index <= pulled.Index {
			t.Error(next.Index, err)
		}
		woken <- len(next.Allocs)
	}()
	if _, _, err := r.api.Jobs().Register(sleeper("more", 1), nil); err != nil {
		t.Fatal(err)
	}
	if got := <-woken; got != before+1 {
		t.Errorf("the node has %d allocations, and had %d", got, before)
	}
}

// The agent tells of itself, of the leader, and of its figures.
func TestTheAgent(t *testing.T) {
	r := start(t, t.TempDir())
	if _, _, err := r.api.Jobs().Register(sleeper("web", 3), nil); err != nil {
		t.Fatal(err)
	}
	self, err := r.api.Agent().Self()
	if err != nil || self.Member.Name != "s1" {
		t.Errorf("%+v %v", self, err)
	}
	health, err := r.api.Agent().Health()
	if err != nil || health.Server == nil || !health.Server.Ok || health.Client != nil {
		t.Errorf("%+v %v", health, err)
	}
	if code, _, _ := r.send("GET", "/v1/agent/health?type=client", nil); code != http.StatusInternalServerError {
		t.Errorf("the health of a client that is none: %d", code)
	}
	leader, err := r.api.Status().Leader()
	if err != nil || leader != r.rpc {
		t.Errorf("the leader is %q, %v", leader, err)
	}
	peers, err := r.api.Status().Peers()
	if err != nil || len(peers) != 1 || peers[0] != leader {
		t.Errorf("the peers are %q, %v", peers, err)
	}
	regions, err := r.api.Regions().List()
	if err != nil || len(regions) != 1 || regions[0] != "global" {
		t.Errorf("the regions are %q, %v", regions, err)
	}

	var queued *nomad.GaugeValue
	var sum nomad.MetricsSummary
	r.until("the job's allocations are queued", func() bool {
		text, err := r.api.Operator().Metrics(nil)
		if err == nil {
			err = eventually.Decode(text, &sum)
		}
		if err != nil {
			t.Fatal(err)
		}
		for i, g := range sum.Gauges {
			if g.Name == "nomad.nomad.job_summary.queued" {
				queued = &sum.Gauges[i]
			}
		}
		return queued != nil && queued.Value == 3
	})
	if d := cmp.Diff(map[string]string{"job": "web", "namespace": "default", "task_group": "g"}, queued.DisplayLabels); d != "" {
		t.Error(d)
	}
	names := map[string]bool{}
	for _, g := range sum.Gauges {
		names[g.Name] = true
	}
	for _, name := range []string{"nomad.nomad.broker.total_ready", "nomad.nomad.blocked_evals.total_blocked", "nomad.raft.appliedIndex", "nomad.uptime", "nomad.state.snapshotIndex", "nomad.runtime.alloc_bytes"} {
		if !names[name] {
			t.Errorf("there is no gauge %s", name)
		}
	}
	if len(sum.Counters) == 0 || sum.Counters[0].AggregateSample == nil || sum.Timestamp == "" {
		t.Errorf("the counters are %+v", sum.Counters)
	}
	text, err := r.api.Operator().Metrics(&nomad.QueryOptions{Params: map[string]string{"format": "prometheus"}})
	if err != nil || !bytes.Contains(text, []byte(`nomad_nomad_job_summary_queued{job="web",namespace="default",task_group="g"} 3`)) || !bytes.Contains(text, []byte("# TYPE nomad_raft_appliedIndex gauge")) {
		t.Errorf("%v\n%s", err, text)
	}
}

// The logs of an allocation whose agent is not connected are not there, and
// that is said. So it is when the agent was there and has gone.
func TestLogsOfAnUnreachableNode(t *testing.T) {
	r := start(t, t.TempDir())
	n := r.node(1)
	reg, _, err := r.api.Jobs().Register(sleeper("web", 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.settled(reg.EvalID)
	allocs, _, err := r.api.Jobs().Allocations("web", false, nil)
	if err != nil || len(allocs) != 1 {
		t.Fatal(allocs, err)
	}
	path := "/v1/client/fs/logs/" + allocs[0].ID + "?task=app&type=stdout"
	// This agent is connected, and serves no logs.
	if code, _, text := r.send("GET", path, nil); code < 400 {
		t.Errorf("%d %s", code, text)
	}
	if code, _, text := r.send("GET", strings.Replace(path, "task=app", "task=other", 1), nil); code != 404 || !strings.Contains(text, `has no task "other"`) {
		t.Errorf("a task that is not there: %d %s", code, text)
	}
	n.session.Close()
	r.until("the server has missed the agent", func() bool {
		code, _, text := r.send("GET", path, nil)
		return code == 404 && text == "the agent of node "+n.ID.String()+" is not connected to this server"
	})
	alloc, _, err := r.api.Allocations().Info(allocs[0].ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, errs := r.api.AllocFS().Logs(alloc, false, "app", "stdout", "start", 0, nil, nil)
	if err := <-errs; err == nil || !strings.Contains(err.Error(), "is not connected") {
		t.Errorf("the Go client says %v", err)
	}
}
