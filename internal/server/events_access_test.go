package server_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"berth/internal/eventually"
	"berth/op"

	nomad "github.com/hashicorp/nomad/api"
)

// Changes of who may do what, of variables and of the scheduler configuration are
// events, of which none holds a secret; each needs its right.
func TestEventsOfAccess(t *testing.T) {
	r, secret := guarded(t)
	const canary = "canary-7f3a"
	write := func(method, path, body string) map[string]any {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, r.http+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(op.HeaderToken, secret)
		code, text := r.do(req)
		out := map[string]any{}
		if code != http.StatusOK {
			t.Fatalf("%s %s: %d %s", method, path, code, text)
		}
		json.Unmarshal([]byte(text), &out) // some answers are not objects
		return out
	}
	write("PUT", "/v1/acl/policy/p", `{"Name": "p", "Rules": "namespace \"default\" {\n variables {\n path \"open/*\" {\n capabilities = [\"list\"]\n}\n}\n}"}`)
	role := write("PUT", "/v1/acl/role", `{"Name": "r", "Policies": [{"Name": "p"}]}`)
	tok := write("PUT", "/v1/acl/token", `{"Name": "t", "Type": "client", "Policies": ["p"]}`)
	write("PUT", "/v1/acl/auth-method", `{"Name": "m", "Type": "OIDC", "TokenLocality": "local", "MaxTokenTTL": "1h", "Config": {"OIDCDiscoveryURL": "http://127.0.0.1:1", "OIDCClientID": "c", "OIDCClientSecret": "`+canary+`", "AllowedRedirectURIs": ["http://127.0.0.1:4649/oidc/callback"]}}`)
	rule := write("PUT", "/v1/acl/binding-rule", `{"AuthMethod": "m", "BindType": "management"}`)
	write("PUT", "/v1/var/open/a", `{"Path": "open/a", "Items": {"k": "`+canary+`"}}`)
	write("PUT", "/v1/var/closed/a", `{"Path": "closed/a", "Items": {"k": "`+canary+`"}}`)
	write("PUT", "/v1/operator/scheduler/configuration", `{"SchedulerAlgorithm": "spread"}`)
	write("DELETE", "/v1/var/open/a", "")
	write("DELETE", "/v1/acl/binding-rule/"+rule["ID"].(string), "")
	write("DELETE", "/v1/acl/role/"+role["ID"].(string), "")
	write("PUT", "/v1/operator/scheduler/configuration", `{"SchedulerAlgorithm": "binpack"}`)

	// read returns the events until the last write, as "Type key".
	read := func(c *nomad.Client, last string, topics ...string) (out []string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), eventually.Limit)
		defer cancel()
		want := map[nomad.Topic][]string{}
		for _, s := range topics {
			name, key, _ := strings.Cut(s, ":")
			want[nomad.Topic(name)] = append(want[nomad.Topic(name)], key)
		}
		ch, err := c.EventStream().Stream(ctx, want, 0, &nomad.QueryOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for set := range ch {
			if set.Err != nil {
				t.Fatal(set.Err, out)
			}
			for _, e := range set.Events {
				text, _ := json.Marshal(e)
				for _, s := range []string{canary, secret, tok["SecretID"].(string)} {
					if strings.Contains(string(text), s) {
						t.Errorf("an event tells a secret: %s", text)
					}
				}
				if e.Payload[string(e.Topic)] == nil && e.Topic != "Operator" || len(e.Payload) == 0 {
					t.Errorf("an event without its row: %s", text)
				}
				if out = append(out, e.Type+" "+e.Key); out[len(out)-1] == last {
					return out
				}
			}
		}
		return out
	}
	all := read(r.api, "ACLRoleDeleted "+role["ID"].(string), "ACLToken", "ACLPolicy", "ACLRole", "ACLAuthMethod", "ACLBindingRule", "Variable", "Operator")
	for _, want := range []string{
		"ACLPolicyUpserted p", "ACLRoleUpserted " + role["ID"].(string), "ACLTokenUpserted " + tok["AccessorID"].(string), "ACLAuthMethodUpserted m",
		"ACLBindingRuleUpserted " + rule["ID"].(string), "VariableUpserted open/a", "VariableUpserted closed/a", "SchedulerConfigUpdated scheduler",
		"VariableDeleted open/a", "ACLBindingRuleDeleted " + rule["ID"].(string),
	} {
		if !slices.Contains(all, want) {
			t.Errorf("no event %q in %q", want, all)
		}
	}
	if got := read(r.api, "ACLRoleDeleted "+role["ID"].(string), "ACLRole:r"); len(got) != 2 {
		t.Errorf("the events of a role by name are %q", got)
	}
	// Who may list some variables sees the events of those, and no tokens.
	limited := r.as(tok["SecretID"].(string))
	if got := read(limited, "VariableDeleted open/a", "Variable"); len(got) != 2 {
		t.Errorf("the events of the variables that a caller may list are %q", got)
	}
	for _, topic := range []nomad.Topic{"ACLToken", "ACLPolicy", "ACLRole", "ACLAuthMethod", "ACLBindingRule", "Operator"} {
		_, err := limited.EventStream().Stream(t.Context(), map[nomad.Topic][]string{topic: nil}, 0, &nomad.QueryOptions{})
		refused(t, string(topic), err, http.StatusForbidden, "Permission denied")
	}
	_, err := r.api.EventStream().Stream(t.Context(), map[nomad.Topic][]string{"Jobs": nil}, 0, &nomad.QueryOptions{})
	refused(t, "a topic that is none", err, http.StatusBadRequest, `unknown topic "Jobs"`)
}
