package jobspec

import (
	"encoding/json"
	"strings"
	"testing"

	"berth"
)

func TestPoolSpecifications(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"all there is", `
node_pool "prod" {
  description = "Work that matters."
  meta {
    env   = "prod"
    tier  = 1
    paged = true
  }
  node_identity_ttl = "12h"
  scheduler_config {
    scheduler_algorithm             = "spread"
    memory_oversubscription_enabled = false
  }
}`, `{"Name":"prod","Description":"Work that matters.","Meta":{"env":"prod","paged":"true","tier":"1"},"NodeIdentityTTL":43200000000000,` +
			`"SchedulerConfiguration":{"SchedulerAlgorithm":"spread","MemoryOversubscriptionEnabled":false},"CreateIndex":0,"ModifyIndex":0}`},
		{"little", `node_pool "dev" {}`,
			`{"Name":"dev","Description":"","Meta":null,"NodeIdentityTTL":0,"SchedulerConfiguration":null,"CreateIndex":0,"ModifyIndex":0}`},
		{"meta as an attribute", `node_pool "dev" { meta = { a = 1, b = "two" } }`,
			`{"Name":"dev","Description":"","Meta":{"a":"1","b":"two"},"NodeIdentityTTL":0,"SchedulerConfiguration":null,"CreateIndex":0,"ModifyIndex":0}`},
		{"JSON", ` {"Name":"dev","Meta":{"a":"b"},"SchedulerConfiguration":{"MemoryOversubscriptionEnabled":true}}`,
			`{"Name":"dev","Description":"","Meta":{"a":"b"},"NodeIdentityTTL":0,"SchedulerConfiguration":` +
				`{"SchedulerAlgorithm":"","MemoryOversubscriptionEnabled":true},"CreateIndex":0,"ModifyIndex":0}`},
		{"nothing", ``, `p: node_pool: want one node_pool block`},
		{"a job", `job "web" {}`, `p:1,1-4: job: want one node_pool block`},
		{"two", "node_pool \"a\" {}\nnode_pool \"b\" {}", `p:2,1-10: node_pool: at most one node_pool block is allowed`},
		{"no name", `node_pool { }`, `p:1,1-10: node_pool: needs one label: node_pool "name" { … }`},
		{"a slip", `node_pool "a" { descripton = "x" }`, `p:1,17-27: node_pool.descripton: unknown attribute; did you mean "description"?`},
		{"an unknown block", "node_pool \"a\" {\n  metadata {}\n}", `p:2,3-11: node_pool.metadata: unknown block`},
		{"a block as an attribute", `node_pool "a" { scheduler_config = {} }`,
			`p:1,17-33: node_pool.scheduler_config: is a block; write scheduler_config { … } without =`},
		{"a function", `node_pool "a" { description = upper("x") }`, `p:1,31-41: node_pool.description: Function calls not allowed`},
		{"a variable", `node_pool "a" { description = var.x }`, `p:1,31-34: node_pool.description: Variables not allowed`},
		{"a wrong kind", `node_pool "a" { description = ["x"] }`, `p:1,31-36: node_pool.description: must be a string, a number, true or false`},
		{"a wrong duration", `node_pool "a" { node_identity_ttl = "soon" }`, `p: node_pool.node_identity_ttl: must be a duration such as`},
		{"blocks in meta", "node_pool \"a\" {\n  meta {\n    b {}\n  }\n}", `p:3,5-6: node_pool.meta.b: is a block; meta holds only strings`},
		{"a huge number", "node_pool \"a\" {\n  meta { b = 1e99999999 }\n}", `p:2,14-24: node_pool.meta.b: must be a string, a number, true or false`},
		{"an unknown field", `{"Name":"dev","Colour":"red"}`, ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := ParsePool(File{Name: "p", Text: []byte(c.text)})
			got := ""
			if err != nil {
				if got = err.Error(); berth.KindOf(err) != berth.Invalid {
					t.Errorf("the kind is %q", berth.KindOf(err))
				}
			} else {
				b, _ := json.Marshal(p)
				got = string(b)
			}
			if !strings.HasPrefix(got, c.want) {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

// Whatever the text, it is a pool or an error with a kind, and no panic.
func FuzzPool(f *testing.F) {
	for _, s := range []string{
		`node_pool "a" { meta { b = "c" } scheduler_config { scheduler_algorithm = "spread" } }`, `{"Name":"a","Meta":{"b":"c"}}`,
		`node_pool "a" { meta = { b = null } }`, `node_pool "a" { description = "${x}" }`, "node_pool \"a\" { description = <<E\nx\nE\n}",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if _, err := ParsePool(File{Name: "p", Text: []byte(s)}); err != nil && berth.KindOf(err) == "" {
			t.Fatalf("an error without a kind: %v", err)
		}
	})
}
