package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"berth/internal/api"
	"berth/internal/server"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/hashicorp/nomad/api/contexts"
)

// ids returns what a fuzzy search found in a context, as ID(scope).
func ids(list []nomad.FuzzyMatch) (out []string) {
	for _, m := range list {
		out = append(out, m.ID+"("+strings.Join(m.Scope, " ")+")")
	}
	return out
}

// The searches find what the caller may see: by the beginnings of IDs, and by
// parts of names with the object that each is a part of.
func TestSearch(t *testing.T) {
	r, _ := guarded(t)
	n := r.node(1)
	if _, err := r.api.Namespaces().Register(&nomad.Namespace{Name: "own"}, nil); err != nil {
		t.Fatal(err)
	}
	reg := must[*nomad.JobRegisterResponse, *nomad.WriteMeta](t)
	e := r.settled(reg(r.api.Jobs().Register(sleeper("web", 1), nil)).EvalID)
	own := sleeper("web-own", 1)
	own.Namespace = new("own")
	reg(r.api.Jobs().Register(own, &nomad.WriteOptions{Namespace: "own"}))
	for i := range 21 {
		j := sleeper(fmt.Sprintf("many%02d", i), 0)
		j.Constraints = []*nomad.Constraint{nomad.NewConstraint("${attr.none}", "=", "x")}
		reg(r.api.Jobs().Register(j, nil))
	}
	all := &nomad.QueryOptions{Namespace: "*"}
	prefix := func(c *nomad.Client, prefix string, context contexts.Context, q *nomad.QueryOptions) *nomad.SearchResponse {
		t.Helper()
		return must[*nomad.SearchResponse, *nomad.QueryMeta](t)(c.Search().PrefixSearch(prefix, context, q))
	}
	fuzzy := func(c *nomad.Client, text string, context contexts.Context, q *nomad.QueryOptions) *nomad.FuzzySearchResponse {
		t.Helper()
		return must[*nomad.FuzzySearchResponse, *nomad.QueryMeta](t)(c.Search().FuzzySearch(text, context, q))
	}
	same := func(what string, got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, not %q", what, got, want)
		}
	}
	same("jobs of a namespace", prefix(r.api, "web", contexts.Jobs, nil).Matches[contexts.Jobs], "web")
	same("jobs of all", prefix(r.api, "web", contexts.All, all).Matches[contexts.Jobs], "web", "web-own")
	same("a node", prefix(r.api, n.ID.String()[:4], contexts.Nodes, nil).Matches[contexts.Nodes], n.ID.String())
	same("an evaluation", prefix(r.api, e.ID[:8], contexts.All, nil).Matches[contexts.Evals], e.ID)
	same("a namespace", prefix(r.api, "ow", contexts.All, nil).Matches[contexts.Namespaces], "own")
	if many := prefix(r.api, "many", contexts.Jobs, nil); len(many.Matches[contexts.Jobs]) != 20 || !many.Truncations[contexts.Jobs] {
		t.Errorf("many jobs: %+v", many)
	}

	same("jobs by a part", ids(fuzzy(r.api, "EB", contexts.Jobs, all).Matches[contexts.Jobs]), "web(default web)", "web-own(own web-own)")
	got := fuzzy(r.api, "app", contexts.All, &nomad.QueryOptions{Namespace: "own"})
	same("tasks", ids(got.Matches[contexts.Tasks]), "app(own web-own g)")
	same("commands", ids(fuzzy(r.api, "sleep", contexts.Commands, &nomad.QueryOptions{Namespace: "own"}).Matches[contexts.Commands]), "/bin/sleep(own web-own g app)")
	same("nodes by name", ids(fuzzy(r.api, "n1", contexts.Nodes, nil).Matches[contexts.Nodes]), "n1("+n.ID.String()+")")
	if many := fuzzy(r.api, "any", contexts.Jobs, nil); len(many.Matches[contexts.Jobs]) != 20 || !many.Truncations[contexts.Jobs] {
		t.Errorf("many jobs: %+v", many)
	}

	// Who has rights in one namespace finds nothing of another.
	c := r.as(r.token("reader", `namespace "own" { policy = "read" }`, 0).SecretID)
	seen := prefix(c, "", contexts.All, all)
	same("jobs of a reader", seen.Matches[contexts.Jobs], "web-own")
	same("namespaces of a reader", seen.Matches[contexts.Namespaces], "own")
	if _, ok := seen.Matches[contexts.Nodes]; ok {
		t.Errorf("a reader of a namespace sees nodes: %+v", seen.Matches)
	}
	same("tasks of a reader", ids(fuzzy(c, "app", contexts.Tasks, all).Matches[contexts.Tasks]), "app(own web-own g)")
	_, _, err := c.Search().PrefixSearch("", contexts.Nodes, nil)
	refused(t, "nodes without the right", err, http.StatusForbidden, "Permission denied")
	_, _, err = c.Search().FuzzySearch("app", contexts.Jobs, nil)
	refused(t, "a namespace without rights", err, http.StatusForbidden, "Permission denied")
	_, _, err = r.as("nobody").Search().PrefixSearch("", contexts.All, nil)
	refused(t, "no token", err, http.StatusForbidden, "Permission denied")

	_, _, err = r.api.Search().FuzzySearch("a", contexts.Jobs, nil)
	refused(t, "a short text", err, http.StatusBadRequest, "fuzzy search query must be at least 2 characters, got 1")
	_, _, err = r.api.Search().PrefixSearch("a", "jobz", nil)
	refused(t, "an unknown context", err, http.StatusBadRequest, `Context: unknown context "jobz": want allocs,`)
	if code, h, text := r.send("GET", "/v1/search", nil); code != http.StatusMethodNotAllowed || h.Get("Allow") != "PUT, POST" || text != "Invalid method" {
		t.Errorf("GET: %d %v %q", code, h, text)
	}
}

// The limits of the fuzzy search are those of the configuration.
func TestSearchLimits(t *testing.T) {
	r := startWith(t, t.TempDir(), func(c *server.Config) {
		c.Search = api.SearchLimits{LimitQuery: 1, LimitResults: 2, MinTermLength: 3}
	})
	for _, id := range []string{"web1", "web2"} {
		if _, _, err := r.api.Jobs().Register(sleeper(id, 0), nil); err != nil {
			t.Fatal(err)
		}
	}
	got, _, err := r.api.Search().FuzzySearch("web", contexts.Jobs, nil)
	if err != nil || len(got.Matches[contexts.Jobs]) != 1 || !got.Truncations[contexts.Jobs] {
		t.Errorf("%+v %v", got, err)
	}
	_, _, err = r.api.Search().FuzzySearch("we", contexts.Jobs, nil)
	refused(t, "a short text", err, http.StatusBadRequest, "at least 3 characters, got 2")
	off := startWith(t, t.TempDir(), func(c *server.Config) { c.Search.FuzzyOff = true })
	_, _, err = off.api.Search().FuzzySearch("web", contexts.Jobs, nil)
	refused(t, "a search that is off", err, http.StatusBadRequest, "fuzzy search is not enabled")
}

// The overview of jobs says how each is: its allocations, its deployment, its
// children.
func TestJobStatuses(t *testing.T) {
	r := start(t, t.TempDir())
	r.node(1)
	reg := must[*nomad.JobRegisterResponse, *nomad.WriteMeta](t)
	r.settled(reg(r.api.Jobs().Register(sleeper("web", 2), nil)).EvalID)
	parent := sleeper("batch", 1)
	parent.Type, parent.ParameterizedJob = new("batch"), &nomad.ParameterizedJobConfig{}
	reg(r.api.Jobs().Register(parent, nil))
	child := must[*nomad.JobDispatchResponse, *nomad.WriteMeta](t)(r.api.Jobs().Dispatch("batch", nil, nil, "", nil))
	r.settled(child.EvalID)

	type standing struct {
		ID, Namespace, Status string
		GroupCountSum         int
		Allocs                []struct {
			ID, Group, ClientStatus, NodeID string
			JobVersion                      uint64
		}
		ChildStatuses    []string
		LatestDeployment *struct {
			ID                string
			IsActive          bool
			RequiresPromotion bool
		}
	}
	ask := func(method, query, body string) (out []standing, h http.Header) {
		t.Helper()
		code, h, text := r.send(method, "/v1/jobs/statuses"+query, strings.NewReader(body))
		if code != http.StatusOK {
			t.Fatalf("%s %s: %d %s", method, query, code, text)
		}
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			t.Fatal(err)
		}
		return out, h
	}
	got, _ := ask("GET", "?reverse=true", "")
	if len(got) != 2 || got[0].ID != "batch" || len(got[0].ChildStatuses) != 1 || got[1].ID != "web" || len(got[1].Allocs) != 2 ||
		got[1].Allocs[0].ClientStatus != "pending" || got[1].Allocs[0].Group != "g" || got[1].GroupCountSum != 2 || got[1].LatestDeployment == nil || !got[1].LatestDeployment.IsActive {
		t.Errorf("%+v", got)
	}
	if got, _ = ask("GET", "?include_children=true", ""); len(got) != 3 {
		t.Errorf("with children: %+v", got)
	}
	for _, method := range []string{"POST", "PUT"} {
		if got, _ = ask(method, "?namespace=*", `{"jobs": [{"namespace": "default", "id": "web"}, {"namespace": "default", "id": "none"}]}`); len(got) != 1 || got[0].ID != "web" {
			t.Errorf("%s: %+v", method, got)
		}
	}
	first, h := ask("GET", "?per_page=1&include_children=true", "")
	second, _ := ask("GET", "?include_children=true&next_token="+h.Get("X-Nomad-NextToken"), "")
	if len(first) != 1 || len(second) != 2 || first[0].ID != "web" || second[0].ID != "batch" {
		t.Errorf("pages: %+v, %+v", first, second)
	}
	if got, _ = ask("GET", `?filter=Name+matches+"we"+and+Status+==+"running"`, ""); len(got) != 1 || got[0].ID != "web" {
		t.Errorf("filtered: %+v", got)
	}
	if code, _, text := r.send("POST", "/v1/jobs/statuses", strings.NewReader(`{"jobs": 3}`)); code != http.StatusBadRequest || !strings.Contains(text, "body.jobs") {
		t.Errorf("a list that is none: %d %s", code, text)
	}
}
