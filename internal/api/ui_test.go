package api_test

import (
	"crypto/sha256"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"berth"
	"berth/internal/api"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"
)

// get reads a path of the UI's operations with a token.
func get[T any](t *testing.T, s *api.Server, path, token string) (out T, code int) {
	t.Helper()
	r := httptest.NewRequest("GET", path, nil)
	r.Header.Set(op.HeaderToken, token)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if w.Code == 200 {
		if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
			t.Fatal(err)
		}
	}
	return out, w.Code
}

// The overview counts, and lists what needs a person: here a job that waits.
func TestUIOverview(t *testing.T) {
	job := statetest.Job(t, `{"ID": "web", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "app", "Driver": "raw_exec", "Config": {"command": "/bin/true"}}]}]}`)
	s, _ := serve(t, nil, statetest.AddNode(1, 4000, 4000), statetest.Register(job, 1))
	out, code := get[op.UIOverview](t, s, "/v1/ui/overview?namespace=*", "")
	if code != 200 || out.Jobs.Total != 1 || out.Evals.Pending != 1 || out.Nodes == nil || out.Nodes.Total != 1 || len(out.Pools) != 1 || out.Index == 0 {
		t.Errorf("%d %+v", code, out)
	}
	top, code := get[op.UITopology](t, s, "/v1/ui/topology?job=web", "")
	if code != 200 || len(top.ID) != 1 || top.CPU[0] == 0 || len(top.OfJob) != 1 || top.Pools[top.Pool[0]] != berth.DefaultNodePool {
		t.Errorf("%d %+v", code, top)
	}
}

// A caller sees what its token allows, and the start of the UI says what that is.
func TestUIWithAccessControl(t *testing.T) {
	job := statetest.Job(t, `{"ID": "web", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "app", "Driver": "raw_exec", "Config": {"command": "/bin/true"}}]}]}`)
	token := func(secret, kind string, policies ...string) *berth.ACLToken {
		return &berth.ACLToken{AccessorID: secret, Name: secret, SecretHash: sha256.Sum256([]byte(secret)), Type: kind, Policies: policies}
	}
	s, _ := serve(t, func(c *api.Config) { c.ACL = true },
		&state.UpsertNamespaces{Namespaces: []*berth.Namespace{{Name: "team"}}},
		&state.UpsertACLPolicies{Policies: []*berth.ACLPolicy{{Name: "team", Rules: `namespace "team" { policy = "read" }`}}},
		&state.UpsertACLTokens{Tokens: []*berth.ACLToken{token("root", berth.TokenManagement), token("ann", berth.TokenClient, "team")}},
		statetest.AddNode(1, 4000, 4000), statetest.Register(job, 1))
	all, _ := get[op.UIOverview](t, s, "/v1/ui/overview?namespace=*", "root")
	own, code := get[op.UIOverview](t, s, "/v1/ui/overview?namespace=*", "ann")
	if all.Jobs.Total != 1 || all.Nodes == nil || code != 200 || own.Jobs.Total != 0 || own.Nodes != nil || len(own.Pools) != 0 || own.Evals.Pending != 0 {
		t.Errorf("root: %+v; ann: %d %+v", all, code, own)
	}
	for _, path := range []string{"/v1/ui/overview?namespace=*", "/v1/ui/overview?namespace=team", "/v1/ui/topology"} {
		if _, code := get[any](t, s, path, "nobody"); code != 403 {
			t.Errorf("%s: %d", path, code)
		}
	}
	start, _ := get[op.UIStart](t, s, "/v1/ui/start", "ann")
	rights := strings.Join(func() (l []string) {
		for _, c := range start.Rights["team"] {
			l = append(l, string(c))
		}
		return l
	}(), " ")
	if !start.ACL || !start.SignedIn || start.TokenName != "ann" || strings.Join(start.Namespaces, " ") != "team" || !strings.Contains(rights, "read-job") || strings.Contains(rights, "submit-job") {
		t.Errorf("%+v", start)
	}
	if start, code := get[op.UIStart](t, s, "/v1/ui/start", "nobody"); code != 200 || start.SignedIn || len(start.Namespaces) != 0 {
		t.Errorf("%d %+v", code, start)
	}
	if start, code := get[op.UIStart](t, s, "/v1/ui/start", ""); code != 200 || !start.ACL || start.SignedIn {
		t.Errorf("without a token: %d %+v", code, start)
	}
	if start, _ := get[op.UIStart](t, s, "/v1/ui/start", "root"); len(start.Rights[""]) == 0 {
		t.Errorf("%+v", start)
	}
}
