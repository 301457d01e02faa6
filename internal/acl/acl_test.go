package acl_test

import (
	"fmt"
	"strings"
	"testing"

	"berth/internal/acl"

	"pgregory.net/rapid"
)

// compile returns what policies allow.
func compile(t testing.TB, texts ...string) *acl.ACL {
	t.Helper()
	var ps []*acl.Policy
	for _, text := range texts {
		p, err := acl.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		ps = append(ps, p)
	}
	return acl.New(ps...)
}

func TestNothingIsAllowedByDefault(t *testing.T) {
	var none *acl.ACL
	for _, a := range []*acl.ACL{none, {}, acl.New()} {
		for _, c := range append(acl.All(), acl.Management, acl.Node, acl.Server) {
			for _, name := range []string{"", "default", acl.Any} {
				if a.Allows(c, name) {
					t.Errorf("%s in %q is allowed by nothing", c, name)
				}
			}
		}
		if a.Variable("default", "a", "read") || a.SomethingIn("default") || a.IsManagement() {
			t.Error("something is allowed by nothing")
		}
		if !a.Allows(acl.Open, "") {
			t.Error("what is open is not")
		}
	}
}

func TestCoarsePoliciesStandForCapabilities(t *testing.T) {
	read := compile(t, `namespace "default" { policy = "read" } node { policy = "read" } node_pool "gpu" { policy = "read" }`)
	write := compile(t, `{"namespace": {"default": {"policy": "write"}}, "node": {"policy": "write"}}`)
	for _, x := range []struct {
		c           acl.Capability
		name        string
		read, write bool
	}{
		{acl.ListJobs, "default", true, true}, {acl.ReadJob, "default", true, true}, {acl.SubmitJob, "default", false, true},
		{acl.AllocExec, "default", false, true}, {acl.AllocNodeExec, "default", false, false}, {acl.ScaleJob, "default", false, true},
		{acl.ReadJob, "other", false, false}, {acl.NodeRead, "", true, true}, {acl.NodeWrite, "", false, true},
		{acl.NodePoolRead, "gpu", true, false}, {acl.NodePoolRead, "default", false, false}, {acl.NodePoolRead, acl.Any, true, false},
		{acl.ReadJob, acl.Any, true, true}, {acl.OperatorRead, "", false, false}, {acl.Management, "", false, false},
	} {
		if got := read.Allows(x.c, x.name); got != x.read {
			t.Errorf("read: %s in %q is %v", x.c, x.name, got)
		}
		if got := write.Allows(x.c, x.name); got != x.write {
			t.Errorf("write: %s in %q is %v", x.c, x.name, got)
		}
	}
}

// The rule with the most letters counts; the others are not asked.
func TestTheClosestRuleDecides(t *testing.T) {
	a := compile(t, `
		namespace "*"      { policy = "write" }
		namespace "prod-*" { policy = "read" }
		namespace "*-web"  { policy = "deny" }
		namespace "prod-api" { capabilities = ["submit-job"] }`)
	for name, want := range map[string][2]bool{ // read-job, submit-job
		"dev": {true, true}, "prod-db": {true, false}, "dev-web": {false, false}, "prod-web": {true, false}, "prod-api": {false, true},
	} {
		if got := [2]bool{a.Allows(acl.ReadJob, name), a.Allows(acl.SubmitJob, name)}; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestDenyWins(t *testing.T) {
	a := compile(t, `namespace "a" { policy = "write" } operator { policy = "write" }`, `namespace "a" { capabilities = ["deny"] } operator { policy = "deny" }`)
	if a.Allows(acl.ReadJob, "a") || a.Allows(acl.OperatorRead, "") || a.SomethingIn("a") {
		t.Error("deny does not win over another policy")
	}
	// Two labels that are equally close count together.
	if c := compile(t, `namespace "ab*" { policy = "write" } namespace "*yz" { policy = "deny" }`); c.Allows(acl.ReadJob, "ab-yz") || !c.Allows(acl.ReadJob, "ab-x") {
		t.Error("deny does not win over an equally close label")
	}
}

func TestVariablesAreGrantedByPath(t *testing.T) {
	a := compile(t, `
		namespace "default" {
			variables {
				path "*"           { capabilities = ["list"] }
				path "project/*"   { capabilities = ["read", "write"] }
				path "project/own" { capabilities = ["deny"] }
			}
		}
		namespace "no" {
			policy = "deny"
			variables { path "*" { capabilities = ["read"] } }
		}`)
	for _, x := range []struct {
		space, path, c string
		want           bool
	}{
		{"default", "x", "list", true}, {"default", "x", "read", false}, {"default", "project/a", "read", true}, {"default", "project/a", "list", true},
		{"default", "project/a", "write", true}, {"default", "project/a", "destroy", false}, {"default", "project/own", "list", false},
		{"no", "x", "read", false}, {"other", "x", "read", false},
	} {
		if got := a.Variable(x.space, x.path, x.c); got != x.want {
			t.Errorf("%s of %s in %s is %v", x.c, x.path, x.space, got)
		}
	}
	if !a.Allows(acl.VariablesRead, "default") || a.Allows(acl.VariablesRead, "no") || !a.Allows(acl.VariablesRead, acl.Any) || a.Allows(acl.VariablesDestroy, acl.Any) {
		t.Error("a right to some path of a namespace is not known")
	}
	if a.Allows(acl.ReadJob, "default") || !a.SomethingIn("default") || a.SomethingIn("no") {
		t.Error("variables grant something else, or nothing")
	}
}

func TestPoliciesAreRefusedWithTheirLines(t *testing.T) {
	for text, want := range map[string]string{
		`namespace { policy = "read" }`:                                 "line 1: namespace: needs a label",
		"\nnamespace \"a\" { policy = \"raed\" }":                       `"raed" is not one of deny, read, scale, write`,
		`namespace "a" { capabilities = ["fly"] }`:                      `"fly" is not one of deny,`,
		`namespace "a" { capabilities = "read-job" }`:                   "must be a list of names",
		`namespace "a" { policy = 3 }`:                                  "a value that is not text",
		`namespace "a" { }`:                                             "grants and denies nothing",
		`namespace "a" { policies = "read" }`:                           "namespace[a].policies: unknown: want policy or capabilities or variables",
		`namespace "a" { policy = "read" policy = "write" }`:            "is set twice",
		`namespace "a" "b" { policy = "read" }`:                         "needs one label",
		`namespace "" { policy = "read" }`:                              "the label must have 1 to 256 bytes",
		`node "a" { policy = "read" }`:                                  "has no label",
		`node = "read"`:                                                 "must be a block",
		`nodes { policy = "read" }`:                                     "unknown block: want agent, host_volume, namespace, node, node_pool, operator, plugin, quota",
		`variables { path "a" { capabilities = ["read"] } }`:            "unknown block",
		`namespace "a" { variables { path "a" { policy = "read" } } }`:  "is not one of",
		`namespace "a" { variables { key "a" { capabilities = [] } } }`: `unknown block "key"`,
		`{`:                                 "neither HCL nor JSON",
		strings.Repeat("[", 100):            "nests braces",
		strings.Repeat("#", acl.MaxRules+1): "at most 65536 are allowed",
		`{"namespace": {"a": {"policy": "read"}, "b": {"policy": "x"}}}`: `namespace[b].policy: "x"`,
	} {
		_, err := acl.Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", text, err, want)
		}
	}
}

// FuzzParse: no text makes the parser fail in another way than with an error.
func FuzzParse(f *testing.F) {
	f.Add(`namespace "a" { policy = "read" variables { path "x/*" { capabilities = ["read"] } } } node { policy = "write" }`)
	f.Add(`{"namespace": [{"a": {"policy": "read"}}], "node": {"policy": "read"}}`)
	f.Add("a = [<<E\nE\n]")
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := acl.Parse(text); err == nil {
			acl.New(p).Allows(acl.ReadJob, "default")
		}
	})
}

// label draws a label or a name that labels may match.
func label(t *rapid.T, what string) string {
	return rapid.StringOfN(rapid.SampledFrom([]rune("ab*")), 1, 4, 4).Draw(t, what)
}

// spaceCaps are the capabilities that the properties draw from.
var spaceCaps = []acl.Capability{acl.ReadJob, acl.SubmitJob, acl.ListJobs, acl.DispatchJob, acl.ParseJob, acl.ForcePeriodicJob}

// drawn is a policy as the reference evaluator sees it: a list of rules.
type drawn struct {
	labels []string
	grants [][]acl.Capability
}

// draw draws policies, and returns them as text as well.
func draw(t *rapid.T) (d drawn, texts []string) {
	for p := range rapid.IntRange(1, 3).Draw(t, "policies") {
		text := ""
		for r := range rapid.IntRange(1, 4).Draw(t, "rules") {
			l := label(t, fmt.Sprint("label", p, r))
			cs := rapid.SliceOfN(rapid.SampledFrom(append(spaceCaps[:4:4], acl.Deny)), 1, 3).Draw(t, "caps")
			d.labels, d.grants = append(d.labels, l), append(d.grants, cs)
			text += rule(l, cs)
		}
		texts = append(texts, text)
	}
	return d, texts
}

// rule writes a rule.
func rule(label string, cs []acl.Capability) string {
	q := make([]string, len(cs))
	for i, c := range cs {
		q[i] = fmt.Sprintf("%q", c)
	}
	return fmt.Sprintf("namespace %q { capabilities = [%s] }\n", label, strings.Join(q, ", "))
}

// fits is a plain matcher of labels.
func fits(label, name string) bool {
	if label == "" {
		return name == ""
	}
	if label[0] == '*' {
		return fits(label[1:], name) || name != "" && fits(label, name[1:])
	}
	return name != "" && label[0] == name[0] && fits(label[1:], name[1:])
}

// allows is the reference: the rules that fit closest, joined; deny wins.
func (d drawn) allows(c acl.Capability, name string) bool {
	best, exact := -1, false
	for _, l := range d.labels {
		if l == name && !strings.Contains(l, "*") {
			exact = true
		}
		if n := len(strings.ReplaceAll(l, "*", "")); fits(l, name) {
			best = max(best, n)
		}
	}
	granted := false
	for i, l := range d.labels {
		glob := strings.Contains(l, "*")
		if !fits(l, name) || exact && glob || len(strings.ReplaceAll(l, "*", "")) != best {
			continue
		}
		for _, g := range d.grants[i] {
			switch {
			case g == acl.Deny:
				return false
			case g == c,
				g == acl.SubmitJob && (c == acl.ParseJob || c == acl.ForcePeriodicJob),
				g == acl.DispatchJob && c == acl.ForcePeriodicJob:
				granted = true
			}
		}
	}
	return granted
}

// TestPoliciesAgreeWithTheReference compares what policies allow with a simple
// evaluator, and checks that a deny never allows more. Run it with
// -rapid.checks=100000 for the figure of docs/access.md.
func TestPoliciesAgreeWithTheReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, texts := draw(t)
		a := compileRapid(t, texts...)
		more := compileRapid(t, append(texts, rule(label(t, "denied"), []acl.Capability{acl.Deny}))...)
		for range 4 {
			name := rapid.StringOfN(rapid.SampledFrom([]rune("ab")), 1, 4, 4).Draw(t, "name")
			c := rapid.SampledFrom(spaceCaps).Draw(t, "capability")
			got, want := a.Allows(c, name), d.allows(c, name)
			if got != want {
				t.Fatalf("%s in %s: %v, the reference says %v\n%s", c, name, got, want, strings.Join(texts, "--\n"))
			}
			if more.Allows(c, name) && !got {
				t.Fatalf("%s in %s: a deny allows more\n%s", c, name, strings.Join(texts, "--\n"))
			}
			if got && !a.Allows(c, acl.Any) {
				t.Fatalf("%s is allowed in %s, but nowhere", c, name)
			}
		}
	})
}

// compileRapid is compile for a property.
func compileRapid(t *rapid.T, texts ...string) *acl.ACL {
	var ps []*acl.Policy
	for _, text := range texts {
		p, err := acl.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		ps = append(ps, p)
	}
	return acl.New(ps...)
}

// BenchmarkAllows is the cost of one check against 20 rules.
func BenchmarkAllows(b *testing.B) {
	text := `namespace "team-*" { policy = "write" }` + "\n"
	for i := range 20 {
		text += rule(fmt.Sprintf("ns%d", i), spaceCaps[:3])
	}
	a := compile(b, text)
	for _, name := range []string{"ns7", "team-a"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !a.Allows(acl.ReadJob, name) {
					b.Fatal("refused")
				}
			}
		})
	}
}
