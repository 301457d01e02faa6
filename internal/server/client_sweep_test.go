package server_test

import (
	"io"
	"net/http"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
)

// ok fails a test if a call of the Go client did.
func ok(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// Roles and rules of binding are read, changed and deleted by the methods of the Go
// client.
func TestGoClientAccess(t *testing.T) {
	r, _ := guarded(t)
	rules, roles := r.api.ACLBindingRules(), r.api.ACLRoles()
	if _, err := r.api.ACLPolicies().Upsert(&nomad.ACLPolicy{Name: "p", Rules: `node { policy = "read" }`}, nil); err != nil {
		t.Fatal(err)
	}
	role, _, err := roles.Create(&nomad.ACLRole{Name: "ops", Policies: []*nomad.ACLRolePolicyLink{{Name: "p"}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	role.Description = "changed"
	if got, _, err := roles.Update(role, nil); err != nil || got.Description != "changed" {
		t.Errorf("%+v %v", got, err)
	}
	if got, _, err := roles.Get(role.ID, nil); err != nil || got.Name != "ops" {
		t.Errorf("%+v %v", got, err)
	}
	if got, _, err := roles.GetByName("ops", nil); err != nil || got.ID != role.ID {
		t.Errorf("%+v %v", got, err)
	}
	if got, _, err := roles.List(nil); err != nil || len(got) != 1 {
		t.Errorf("%+v %v", got, err)
	}
	self, _, err := r.api.ACLTokens().Self(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, _, err := r.api.ACLTokens().Info(self.AccessorID, nil); err != nil || got.Type != "management" {
		t.Errorf("%+v %v", got, err)
	}
	_, _, err = r.api.ACLTokens().BootstrapOpts("6c2a1b34-0000-4000-8000-000000000000", nil)
	refused(t, "a second bootstrap", err, http.StatusBadRequest, "ACL bootstrap already done")

	if _, _, err := r.api.ACLAuthMethods().Create(&nomad.ACLAuthMethod{
		Name: "jwt", Type: "JWT", TokenLocality: "local", MaxTokenTTL: 3600e9, Config: &nomad.ACLAuthMethodConfig{JWTValidationPubKeys: []string{publicKey}},
	}, nil); err != nil {
		t.Fatal(err)
	}
	rule, _, err := rules.Create(&nomad.ACLBindingRule{AuthMethod: "jwt", BindType: "role", BindName: "ops"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	rule.Description = "changed"
	if got, _, err := rules.Update(rule, nil); err != nil || got.Description != "changed" {
		t.Errorf("%+v %v", got, err)
	}
	if got, _, err := rules.Get(rule.ID, nil); err != nil || got.BindName != "ops" {
		t.Errorf("%+v %v", got, err)
	}
	_, err = rules.Delete(rule.ID, nil)
	ok(t, "deleting a rule", err)
	_, _, err = rules.Get(rule.ID, nil)
	refused(t, "a rule that is gone", err, http.StatusNotFound, "not found")
	_, err = roles.Delete(role.ID, nil)
	ok(t, "deleting a role", err)
	_, _, err = roles.Get(role.ID, nil)
	refused(t, "a role that is gone", err, http.StatusNotFound, "not found")
}

// publicKey validates tokens of nobody.
const publicKey = `-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEEVs/o5+uQbTjL3chynL4wXgUg2R9
q9UU8I5mEovUf86QZ7kOBIjJwqnzD1omageEHWwHdBO6B+dFabmdT9POxg==
-----END PUBLIC KEY-----`

// What the Go client asks of jobs, nodes, agents, quotas and variables in forms that
// no other test has.
func TestGoClientForms(t *testing.T) {
	r := start(t, t.TempDir())
	n := r.node(1)
	jobs, agent := r.api.Jobs(), r.api.Agent()
	reg := must[*nomad.JobRegisterResponse, *nomad.WriteMeta](t)
	r.settled(reg(jobs.Register(atOnce(sleeper("web", 1)), nil)).EvalID)

	if got, _, err := jobs.ListOptions(&nomad.JobListOptions{Fields: &nomad.JobListFields{Meta: true}}, nil); err != nil || len(got) != 1 {
		t.Errorf("%+v %v", got, err)
	}
	if got, err := jobs.ParseHCLOpts(&nomad.JobsParseRequest{JobHCL: "job \"x\" {\n group \"g\" {\n task \"t\" {\n driver = \"raw_exec\"\n config {\n command = \"/bin/true\"\n }\n}\n}\n}"}); err != nil || *got.ID != "x" {
		t.Errorf("%+v %v", got, err)
	}
	count := int64(2)
	if got, _, err := jobs.ScaleWithRequest("web", &nomad.ScalingRequest{Count: &count, Target: map[string]string{"Group": "g"}}, nil); err != nil || got.EvalID == "" {
		t.Errorf("%+v %v", got, err)
	}
	if got, _, err := jobs.Services("web", nil); err != nil || len(got) != 0 {
		t.Errorf("%+v %v", got, err)
	}
	_, err := jobs.TagVersionOpts("web", "good", &nomad.TagVersionRequest{Version: 0, Description: "the first"}, nil)
	ok(t, "a tag", err)
	list := must[[]*nomad.AllocationListStub, *nomad.QueryMeta](t)(jobs.Allocations("web", false, nil))
	if got, _, err := r.api.Allocations().Services(list[0].ID, nil); err != nil || len(got) != 0 {
		t.Errorf("%+v %v", got, err)
	}

	if got, _, err := r.api.Nodes().PrefixList(n.ID.String()[:4]); err != nil || len(got) != 1 {
		t.Errorf("%+v %v", got, err)
	}
	if got, _, err := r.api.Nodes().PrefixListOpts("ff", nil); err != nil || len(got) != 0 {
		t.Errorf("%+v %v", got, err)
	}
	_, err = r.api.Nodes().Identity().Get(&nomad.NodeIdentityGetRequest{}, nil)
	refused(t, "the identity of this node", err, http.StatusBadRequest, "node_id: missing: this agent is not a node")
	if got, _, err := r.api.Namespaces().PrefixList("def", nil); err != nil || len(got) != 1 {
		t.Errorf("%+v %v", got, err)
	}
	if got, err := r.api.Status().RegionLeader("global"); err != nil || got == "" {
		t.Errorf("%q %v", got, err)
	}
	if got, err := agent.Members(); err != nil || len(got.Members) != 1 {
		t.Errorf("%+v %v", got, err)
	}
	if got, err := agent.MembersOpts(&nomad.QueryOptions{AllowStale: true}); err != nil || got.ServerRegion == "" && len(got.Members) != 1 {
		t.Errorf("%+v %v", got, err)
	}

	if _, _, err := r.api.Variables().Create(&nomad.Variable{Path: "a/b", Items: nomad.VariableItems{"k": "v"}}, nil); err != nil {
		t.Fatal(err)
	}
	if got, _, err := r.api.Variables().GetVariableItems("a/b", nil); err != nil || got["k"] != "v" {
		t.Errorf("%+v %v", got, err)
	}
	//lint:ignore SA1019 clients still call it
	if got, _, err := r.api.Variables().GetItems("a/b", nil); err != nil || (*got)["k"] != "v" {
		t.Errorf("%+v %v", got, err)
	}
	quotas := r.api.Quotas()
	_, err = quotas.Register(&nomad.QuotaSpec{Name: "team", Limits: []*nomad.QuotaLimit{{Region: "global"}}}, nil)
	ok(t, "a quota", err)
	if got, _, err := quotas.PrefixList("te", nil); err != nil || len(got) != 1 {
		t.Errorf("%+v %v", got, err)
	}
	if got, _, err := quotas.ListUsage(nil); err != nil || len(got) != 1 {
		t.Errorf("%+v %v", got, err)
	}
	if got, _, err := quotas.PrefixListUsage("x", nil); err != nil || len(got) != 0 {
		t.Errorf("%+v %v", got, err)
	}
}

// The raw calls of the Go client, and those that only Nomad Enterprise answers.
func TestGoClientRaw(t *testing.T) {
	r := start(t, t.TempDir())
	raw := r.api.Raw()
	body, err := raw.Response("/v1/status/leader", nil)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(body)
	if body.Close(); len(text) < 3 {
		t.Errorf("%q", text)
	}
	var out struct{ EvalID string }
	_, err = raw.Write("/v1/system/gc", nil, &out, nil)
	ok(t, "a raw write", err)
	_, err = raw.Delete("/v1/job/none", nil, nil)
	ok(t, "a raw delete", err)

	const only = "Nomad Enterprise only endpoint"
	rec, pol := r.api.Recommendations(), r.api.SentinelPolicies()
	_, _, err = rec.List(nil)
	refused(t, "recommendations", err, http.StatusNotImplemented, only)
	_, _, err = rec.Info("x", nil)
	refused(t, "a recommendation", err, http.StatusNotImplemented, only)
	_, _, err = rec.Upsert(&nomad.Recommendation{}, nil)
	refused(t, "a new recommendation", err, http.StatusNotImplemented, only)
	_, err = rec.Delete([]string{"x"}, nil)
	refused(t, "recommendations that go", err, http.StatusNotImplemented, only)
	_, _, err = rec.Apply([]string{"x"}, false)
	refused(t, "recommendations to apply", err, http.StatusNotImplemented, only)
	_, _, err = pol.List(nil)
	refused(t, "policies of Sentinel", err, http.StatusNotImplemented, only)
	_, _, err = pol.Info("x", nil)
	refused(t, "a policy of Sentinel", err, http.StatusNotImplemented, only)
	_, err = pol.Upsert(&nomad.SentinelPolicy{Name: "x"}, nil)
	refused(t, "a new policy of Sentinel", err, http.StatusNotImplemented, only)
	_, err = pol.Delete("x", nil)
	refused(t, "a policy of Sentinel that goes", err, http.StatusNotImplemented, only)
	_, err = r.api.Operator().LicensePut("x", nil)
	refused(t, "a license", err, http.StatusNotImplemented, only)
	_, err = r.api.Operator().ApplyLicense("x", nil, nil)
	refused(t, "a license to apply", err, http.StatusNotImplemented, only)
}
