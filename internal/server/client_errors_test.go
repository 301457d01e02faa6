package server_test

import (
	"net/http"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
)

// Refusals that clients of Nomad's API compare, by their codes and words.
func TestGoClientErrors(t *testing.T) {
	r := start(t, t.TempDir())
	r.node(1)
	jobs := r.api.Jobs()
	reg := must[*nomad.JobRegisterResponse, *nomad.WriteMeta](t)
	r.settled(reg(jobs.Register(sleeper("batch", 1), nil)).EvalID)
	rolled := nomad.NewServiceJob("web", "web", "global", 50)
	group := nomad.NewTaskGroup("g", 1).AddTask(nomad.NewTask("app", "raw_exec").SetConfig("command", "/bin/true"))
	group.Update = nomad.DefaultUpdateStrategy()
	r.settled(reg(jobs.Register(rolled.AddTaskGroup(group), nil)).EvalID)
	two, nine := 2, uint64(9)
	const id = "11111111-2222-4333-8444-555555555555"
	for _, c := range []struct {
		what string
		call func() error
		code int
		text string
	}{
		{"a peer by ID", func() error { return r.api.Operator().RaftRemovePeerByID("nope", nil) }, 404, `id "nope" was not found in the Raft configuration`},
		{"a peer by address", func() error { return r.api.Operator().RaftRemovePeerByAddress("10.0.0.1:1", nil) }, 404, `address "10.0.0.1:1" was not found in the Raft configuration`},
		{"a revert from another version", func() error { _, _, err := jobs.Revert("web", 0, &nine, nil, "", ""); return err }, 409, "Current job has version 0; enforcing version 9"},
		{"a group to scale", func() error { _, _, err := jobs.Scale("web", "none", &two, "", false, nil, nil); return err }, 400, `task group "none" specified for scaling does not exist`},
		{"scaling while a deployment runs", func() error { _, _, err := jobs.Scale("web", "g", &two, "", false, nil, nil); return err }, 400, "job scaling blocked due to active deployment"},
		{"a submission", func() error { _, _, err := jobs.Submission("web", 7, nil); return err }, 404, "job source not found"},
		{"a job", func() error { _, _, err := jobs.Info("none", nil); return err }, 404, "not found"},
		{"the versions of a job", func() error { _, _, _, err := jobs.Versions("none", false, nil); return err }, 404, "not found"},
		{"an evaluation", func() error { _, _, err := r.api.Evaluations().Info(id, nil); return err }, 404, "eval not found"},
		{"an allocation", func() error { _, _, err := r.api.Allocations().Info(id, nil); return err }, 404, "alloc not found"},
		{"a node", func() error { _, _, err := r.api.Nodes().Info(id, nil); return err }, 404, "not found"},
		{"a namespace's name", func() error { _, err := r.api.Namespaces().Register(&nomad.Namespace{Name: "*"}, nil); return err }, 400, `invalid name "*".`},
		{"a namespace", func() error { _, _, err := r.api.Namespaces().Info("none", nil); return err }, 404, "not found"},
		{"a node pool", func() error { _, _, err := r.api.NodePools().Info("none", nil); return err }, 404, "not found"},
		{"a quota", func() error { _, _, err := r.api.Quotas().Info("none", nil); return err }, 404, "not found"},
		{"a scaling policy", func() error { _, _, err := r.api.Scaling().GetPolicy("i-do-not-exist", nil); return err }, 404, "not found"},
		{"a variable without items", func() error { _, _, err := r.api.Variables().Create(&nomad.Variable{Path: "a/b"}, nil); return err }, 400, "variable missing required Items object"},
		{"a topic without a name", func() error {
			_, err := r.api.EventStream().Stream(t.Context(), map[nomad.Topic][]string{"": {"*"}}, 0, nil)
			return err
		}, 400, "Invalid key value pair"},
	} {
		refused(t, c.what, c.call(), c.code, c.text)
	}
	if _, _, err := jobs.Scale("web", "g", nil, "no figures", true, nil, nil); err != nil {
		t.Errorf("an event while a deployment runs: %v", err)
	}
	if code, _, text := r.send(http.MethodGet, "/v1/agent/host?server_id=s9.global", nil); code < 400 {
		t.Errorf("a server that nobody knows: %d %s", code, text)
	}
}
