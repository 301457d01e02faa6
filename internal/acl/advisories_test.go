package acl_test

import (
	"strings"
	"testing"

	"berth/internal/acl"
)

// C17: a rule without a label is refused. It does not mean the namespace default.
// What is there twice is refused, or counts together with its twin and never more.
func TestAdvisory_C17_RulesNeedTheirLabel(t *testing.T) {
	for _, text := range []string{
		`namespace { policy = "write" }`, `namespace { capabilities = ["read-job"] }`, `namespace "" { policy = "read" }`, `node_pool { policy = "read" }`, `host_volume { policy = "read" }`,
		`{"namespace": {"policy": "write"}}`, `{"namespace": [{"policy": "write"}]}`, `{"namespace": {"": {"policy": "write"}}}`,
		`namespace "a" "b" { policy = "read" }`, `namespace = "a"`, `namespaces "a" { policy = "read" }`, `node { policy = "read" policy = "write" }`,
	} {
		if p, err := acl.Parse(text); err == nil {
			t.Errorf("%s: %+v", text, p)
		}
	}
	twice := compile(t, `namespace "a" { policy = "write" } namespace "a" { policy = "deny" }`)
	if twice.Allows(acl.ReadJob, "a") {
		t.Error("the first of two rules with one label counts alone")
	}
}

// C21: an empty set of rules, and none at all, allow nothing.
func TestAdvisory_C21_NothingIsNotEverything(t *testing.T) {
	var zero acl.ACL
	for what, a := range map[string]*acl.ACL{"the zero value": &zero, "no policy": compile(t), "an unrelated one": compile(t, `quota { policy = "deny" }`)} {
		for _, c := range append(acl.All(), acl.Management) {
			name := "default"
			if strings.Contains(string(c), ":") {
				name = ""
			}
			if c != acl.Open && (a.Allows(c, name) || a.Allows(c, acl.Any)) {
				t.Errorf("%s allows %s", what, c)
			}
		}
	}
}
