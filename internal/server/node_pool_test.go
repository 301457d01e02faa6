package server_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/op"

	nomad "github.com/hashicorp/nomad/api"
)

// joins puts a node into a pool.
func (r *running) joins(n *node, pool string) {
	r.t.Helper()
	x := *n.Node
	x.NodePool = pool
	n.call("Node.Register", &op.RegisterNode{Node: &x}, &op.NodeAnswer{})
}

func names(pools []*nomad.NodePool) string {
	var out []string
	for _, p := range pools {
		out = append(out, p.Name)
	}
	return strings.Join(out, " ")
}

// Node pools as Nomad's Go client sees them: made, changed, listed, used,
// deleted.
func TestNodePoolsThroughTheGoClient(t *testing.T) {
	r := start(t, t.TempDir())
	pools := r.api.NodePools()
	list := must[[]*nomad.NodePool, *nomad.QueryMeta](t)
	if all := list(pools.List(nil)); names(all) != "all default" || all[1].NodeIdentityTTL != 24*time.Hour || all[1].CreateIndex != 1 {
		t.Fatalf("there are %s, %+v", names(all), all)
	}
	over := true
	in := &nomad.NodePool{
		Name: "prod", Description: "<Work> that matters.", Meta: map[string]string{"env": "production"}, NodeIdentityTTL: 720 * time.Hour,
		SchedulerConfiguration: &nomad.NodePoolSchedulerConfiguration{SchedulerAlgorithm: nomad.SchedulerAlgorithmSpread, MemoryOversubscriptionEnabled: &over},
	}
	wm, err := pools.Register(in, nil)
	if err != nil || wm.LastIndex == 0 {
		t.Fatal(wm, err)
	}
	if _, err := pools.Register(&nomad.NodePool{Name: "dev"}, nil); err != nil {
		t.Fatal(err)
	}
	p, meta, err := pools.Info("prod", nil)
	if err != nil || p.Description != in.Description || p.Meta["env"] != "production" || p.NodeIdentityTTL != in.NodeIdentityTTL ||
		p.SchedulerConfiguration.SchedulerAlgorithm != "spread" || !*p.SchedulerConfiguration.MemoryOversubscriptionEnabled ||
		p.CreateIndex != wm.LastIndex || p.ModifyIndex != wm.LastIndex || meta.LastIndex != wm.LastIndex {
		t.Fatalf("the pool is %+v (%v)", p, err)
	}
	if dev, _, err := pools.Info("dev", nil); err != nil || dev.SchedulerConfiguration != nil || dev.NodeIdentityTTL != 24*time.Hour {
		t.Errorf("a pool of which only the name was said is %+v (%v)", dev, err)
	}

	// Lists are cut as other lists are.
	if got := names(list(pools.PrefixList("d", nil))); got != "default dev" {
		t.Errorf("with the prefix d there are %s", got)
	}
	page, meta, err := pools.List(&nomad.QueryOptions{PerPage: 3})
	if err != nil || names(page) != "all default dev" || meta.NextToken != "prod" {
		t.Errorf("the first page is %s, then %q (%v)", names(page), meta.NextToken, err)
	}
	if got := names(list(pools.List(&nomad.QueryOptions{PerPage: 3, NextToken: "prod"}))); got != "prod" {
		t.Errorf("the second page is %s", got)
	}
	if got := names(list(pools.List(&nomad.QueryOptions{Filter: `Meta.env == "production"`}))); got != "prod" {
		t.Errorf("the filter leaves %s", got)
	}
	if got := names(list(pools.List(&nomad.QueryOptions{Reverse: true}))); got != "prod dev default all" {
		t.Errorf("backwards they are %s", got)
	}

	// A node brings its pool along.
	n := r.node(1)
	r.joins(n, "gpu")
	job := sleeper("train", 1)
	job.NodePool = new("gpu")
	reg := must[*nomad.JobRegisterResponse, *nomad.WriteMeta](t)(r.api.Jobs().Register(job, nil))
	r.settled(reg.EvalID)
	nodes, _, err := pools.ListNodes("gpu", nil)
	if err != nil || len(nodes) != 1 || nodes[0].Name != "n1" || nodes[0].NodePool != "gpu" {
		t.Errorf("gpu has the nodes %v (%v)", nodes, err)
	}
	if nodes, _, err := pools.ListNodes("all", nil); err != nil || len(nodes) != 1 {
		t.Errorf("all has the nodes %v (%v)", nodes, err)
	}
	if nodes, _, err := pools.ListNodes("dev", nil); err != nil || len(nodes) != 0 {
		t.Errorf("dev has the nodes %v (%v)", nodes, err)
	}
	for pool, want := range map[string]int{"gpu": 1, "all": 0, "dev": 0} {
		if jobs, _, err := pools.ListJobs(pool, nil); err != nil || len(jobs) != want || want == 1 && jobs[0].ID != "train" {
			t.Errorf("%s has the jobs %v (%v)", pool, jobs, err)
		}
	}

	// What is wrong is refused in words.
	_, err = pools.Delete("gpu", nil)
	refused(t, "deleting a pool that is used", err, http.StatusBadRequest, `node pool "gpu" cannot be deleted: it has 1 node (n1) and 1 unfinished job (train)`)
	_, err = pools.Delete("default", nil)
	refused(t, "deleting a pool that is built in", err, http.StatusBadRequest, "built in")
	_, err = pools.Delete("gone", nil)
	refused(t, "deleting what is not there", err, http.StatusNotFound, `node pool "gone" not found`)
	_, err = pools.Register(&nomad.NodePool{Name: "all"}, nil)
	refused(t, "changing a pool that is built in", err, http.StatusBadRequest, `"all" is built in`)
	_, err = pools.Register(&nomad.NodePool{Name: "a b", SchedulerConfiguration: &nomad.NodePoolSchedulerConfiguration{SchedulerAlgorithm: "tetris"}}, nil)
	refused(t, "a bad name", err, http.StatusBadRequest, `"a b" is not a valid name of a node pool`)
	_, _, err = pools.Info("gone", nil)
	refused(t, "reading what is not there", err, http.StatusNotFound, "node pool not found: gone")
	_, _, err = pools.ListNodes("gone", nil)
	refused(t, "the nodes of what is not there", err, http.StatusNotFound, "node pool not found: gone")
	_, _, err = pools.ListJobs("gone", nil)
	refused(t, "the jobs of what is not there", err, http.StatusNotFound, "node pool not found: gone")
	job.NodePool = new("nowhere")
	_, _, err = r.api.Jobs().Register(job, nil)
	refused(t, "a job in a pool that is not there", err, http.StatusBadRequest, `job.node_pool: node pool "nowhere" not found`)

	if _, err := pools.Delete("dev", nil); err != nil {
		t.Error(err)
	}
	if got := names(list(pools.List(nil))); got != "all default gpu prod" {
		t.Errorf("at the end there are %s", got)
	}
}

// The routes that Nomad's Go client does not use, in every method they have.
func TestNodePoolRoutes(t *testing.T) {
	r := start(t, t.TempDir())
	for _, c := range []struct {
		method, path, body string
		code               int
		want               string
	}{
		{"POST", "/v1/node/pool/dev", `{"Description":"d"}`, 200, ""},
		{"PUT", "/v1/node/pool/dev", `{"Name":"dev","Description":"e","NodeIdentityTTL":"","Meta":null}`, 200, ""},
		{"POST", "/v1/node/pools", `{"Name":"prod","NodeIdentityTTL":3600000000000}`, 200, ""},
		{"GET", "/v1/node/pool/dev", "", 200, `"Description":"e"`},
		{"GET", "/v1/node/pool/prod", "", 200, `"NodeIdentityTTL":"1h0m0s"`},
		{"PUT", "/v1/node/pool/dev", `{"Name":"prod"}`, 400, `Name: "prod" in the body differs from "dev" in the path`},
		{"PUT", "/v1/node/pools", `{}`, 400, "Name: "},
		{"PUT", "/v1/node/pools", `{"Name":"x","NodeIdentityTTL":"soon"}`, 400, `must be a duration such as "90s" or "1h30m", got "soon"`},
		{"DELETE", "/v1/node/pool/dev", "", 200, ""},
		{"DELETE", "/v1/node/pools", "", 405, "Invalid method"},
		{"GET", "/v1/node/pool/dev", "", 404, "node pool not found: dev"},
	} {
		code, _, text := r.send(c.method, c.path, strings.NewReader(c.body))
		if code != c.code || !strings.Contains(text, c.want) {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, code, text)
		}
	}
}

// Who waits for a pool, or for its nodes, hears of a change of it.
func TestWaitingForNodePools(t *testing.T) {
	r := start(t, t.TempDir())
	pools := r.api.NodePools()
	if _, err := pools.Register(&nomad.NodePool{Name: "dev"}, nil); err != nil {
		t.Fatal(err)
	}
	p, meta, err := pools.Info("dev", nil)
	if err != nil || p.Description != "" {
		t.Fatal(p, err)
	}
	heard := make(chan string, 2)
	wait := &nomad.QueryOptions{WaitIndex: meta.LastIndex, WaitTime: op.MaxWait}
	go func() {
		p, _, err := pools.Info("dev", wait)
		if err != nil {
			heard <- err.Error()
			return
		}
		heard <- p.Description
	}()
	_, nodes, err := pools.ListNodes("dev", nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		index, list := nodes.LastIndex, []*nomad.NodeListStub(nil)
		for len(list) == 0 { // any node that changes ends a wait
			var meta *nomad.QueryMeta
			var err error
			if list, meta, err = pools.ListNodes("dev", &nomad.QueryOptions{WaitIndex: index, WaitTime: op.MaxWait}); err != nil {
				heard <- err.Error()
				return
			}
			index = meta.LastIndex
		}
		heard <- list[0].Name
	}()
	r.joins(r.node(1), "dev")
	_, err = pools.Register(&nomad.NodePool{Name: "dev", Description: "changed"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{<-heard, <-heard}
	if !(got[0] == "n1" && got[1] == "changed" || got[0] == "changed" && got[1] == "n1") {
		t.Errorf("heard was %q", got)
	}
}

// Events of pools, as Nomad's Go client reads them.
func TestEventsOfNodePools(t *testing.T) {
	r := start(t, t.TempDir())
	ch := r.subscribe(map[nomad.Topic][]string{nomad.TopicNodePool: {"dev"}}, 0, "default")
	pools := r.api.NodePools()
	for _, name := range []string{"dev", "prod"} {
		if _, err := pools.Register(&nomad.NodePool{Name: name, Description: "d", NodeIdentityTTL: time.Hour}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := pools.Delete("dev", nil); err != nil {
		t.Fatal(err)
	}
	got := r.wait(ch, "the pool is deleted", func(e nomad.Event) bool { return e.Type == "NodePoolDeleted" })
	if len(got) != 2 || got[0].Type != "NodePoolUpserted" || got[0].Key != "dev" {
		t.Fatalf("the events are %+v", got)
	}
	if p, err := got[0].NodePool(); err != nil || p.Name != "dev" || p.Description != "d" || p.NodeIdentityTTL != time.Hour {
		t.Errorf("the pool of the event is %+v (%v)", p, err)
	}
}

// A node takes no more work and takes it again, by Nomad's Go client.
func TestEligibilityThroughTheGoClient(t *testing.T) {
	r := start(t, t.TempDir())
	n := r.node(1)
	r.placed("web", n)
	id := n.ID.String()
	out, err := r.api.Nodes().ToggleEligibility(id, false, nil)
	if err != nil || out.NodeModifyIndex == 0 || len(out.EvalIDs) != 0 || out.LastIndex != out.NodeModifyIndex {
		t.Fatalf("%+v (%v)", out, err)
	}
	info, _, err := r.api.Nodes().Info(id, nil)
	if err != nil || info.SchedulingEligibility != nomad.NodeSchedulingIneligible || info.Status != "ready" || info.ModifyIndex != out.NodeModifyIndex {
		t.Fatalf("%+v (%v)", info, err)
	}
	blocked := must[*nomad.JobRegisterResponse, *nomad.WriteMeta](t)(r.api.Jobs().Register(sleeper("api", 1), nil))
	if e := r.settled(blocked.EvalID); e.BlockedEval == "" {
		t.Errorf("a node that takes no work was given some: %+v", e)
	}
	// What its agent hears says so.
	var heard op.NodeAnswer
	n.call("Node.UpdateStatus", &op.BeatNode{NodeID: n.ID, SecretID: n.SecretID, Status: berth.NodeReady}, &heard)
	if heard.SchedulingEligibility != berth.NodeIneligible {
		t.Errorf("the agent hears that its node is %s", heard.SchedulingEligibility)
	}
	if out, err = r.api.Nodes().ToggleEligibility(id, true, nil); err != nil || len(out.EvalIDs) == 0 || out.EvalCreateIndex != out.NodeModifyIndex {
		t.Fatalf("%+v (%v)", out, err)
	}
	r.until("what waited is placed", func() bool {
		allocs, _, err := r.api.Jobs().Allocations("api", false, nil)
		return err == nil && len(allocs) == 1
	})
	for body, want := range map[string]string{
		`{"Eligibility":"maybe"}`: `Eligibility: unknown eligibility "maybe": want eligible or ineligible`, `{}`: `Eligibility: unknown eligibility ""`,
	} {
		if code, _, text := r.send("POST", "/v1/node/"+id+"/eligibility", strings.NewReader(body)); code != 400 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", body, code, text)
		}
	}
	if _, err := r.api.Nodes().ToggleEligibility("99999999-9999-9999-9999-999999999999", true, nil); err == nil {
		t.Error("a node that is not there takes work")
	}
}

// The scheduler configuration as Nomad's Go client reads and writes it.
func TestSchedulerConfigurationThroughTheGoClient(t *testing.T) {
	r := start(t, t.TempDir())
	o := r.api.Operator()
	got, _, err := o.SchedulerGetConfiguration(nil)
	if err != nil || got.SchedulerConfig.SchedulerAlgorithm != nomad.SchedulerAlgorithmBinpack ||
		got.SchedulerConfig.PreemptionConfig != (nomad.PreemptionConfig{SystemSchedulerEnabled: true}) || got.SchedulerConfig.ModifyIndex != 0 {
		t.Fatalf("%+v (%v)", got.SchedulerConfig, err)
	}
	in := &nomad.SchedulerConfiguration{
		SchedulerAlgorithm: nomad.SchedulerAlgorithmSpread, MemoryOversubscriptionEnabled: true, NodeLimitForFeasibilityChecks: 100,
		PreemptionConfig: nomad.PreemptionConfig{ServiceSchedulerEnabled: true, BatchSchedulerEnabled: true, SysBatchSchedulerEnabled: true},
	}
	set, _, err := o.SchedulerSetConfiguration(in, nil)
	if err != nil || !set.Updated {
		t.Fatal(set, err)
	}
	got, _, err = o.SchedulerGetConfiguration(nil)
	now := got.SchedulerConfig
	if err != nil || now.SchedulerAlgorithm != "spread" || !now.MemoryOversubscriptionEnabled || now.NodeLimitForFeasibilityChecks != 100 ||
		now.PreemptionConfig != in.PreemptionConfig || now.ModifyIndex == 0 || now.ModifyIndex != got.LastIndex && got.LastIndex != 0 {
		t.Fatalf("%+v (%v)", now, err)
	}
	stale := *now
	stale.ModifyIndex, stale.PauseEvalBroker = now.ModifyIndex-1, true
	if set, _, err = o.SchedulerCASConfiguration(&stale, nil); err != nil || set.Updated {
		t.Errorf("an old index was taken: %+v (%v)", set, err)
	}
	now.SchedulerAlgorithm = "balanced"
	if set, _, err = o.SchedulerCASConfiguration(now, nil); err != nil || !set.Updated {
		t.Errorf("%+v (%v)", set, err)
	}
	_, _, err = o.SchedulerSetConfiguration(&nomad.SchedulerConfiguration{SchedulerAlgorithm: "tetris"}, nil)
	refused(t, "an unknown algorithm", err, http.StatusBadRequest, `unknown algorithm "tetris": want binpack, spread or balanced`)
}
