package op_test

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"berth/internal/acl"
	"berth/op"
)

var update = flag.Bool("update", false, "rewrite testdata/operations.txt")

// The table of who may do what, to be read by a person: an operation that is
// added or changed shows here.
func TestTheTableOfOperations(t *testing.T) {
	var b strings.Builder
	for _, i := range op.All() {
		if strings.HasPrefix(i.Name, "failpoint.") { // only in builds for tests
			continue
		}
		local := ""
		if i.Local {
			local = " local"
		}
		if i.Leader {
			local = " leader"
		}
		if i.Servers {
			local = " for servers"
		}
		if i.Agents {
			local = " by agents"
		}
		body := fmt.Sprintf("%d KiB", i.MaxBody>>10)
		if i.MaxBody == 0 {
			body = "stream"
		}
		fmt.Fprintf(&b, "%-18s %-6s %-38s %-20s %-11s of %s, %s%s\n", i.Name, i.Verb(), dash(i.Path), dash(i.RPC), i.Need, i.Space, body, local)
	}
	const file = "testdata/operations.txt"
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("the operations are not those of %s; read the difference and run with -update:\n%s", file, b.String())
	}
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// No operation is there without a right that it needs and a place where the
// namespace of a request stands.
func TestEveryOperationSaysWhoMay(t *testing.T) {
	for _, i := range op.All() {
		if !i.Need.Known() {
			t.Errorf("%s needs %q, which is no capability", i.Name, i.Need)
		}
		in := map[acl.Space]string{acl.AllocSpace: "{AllocID}", acl.EvalSpace: "{EvalID}", acl.DeploymentSpace: "{DeploymentID}", acl.PolicySpace: "{PolicyID}", acl.NodeSpace: "{NodeID}", acl.NoSpace: "", acl.QuerySpace: "", acl.JobSpace: "", acl.VolumeSpace: "", acl.EventSpace: "", acl.NamedSpace: ""}
		name, known := in[i.Space]
		if !known {
			t.Errorf("%s: %q is no place where a namespace comes from", i.Name, i.Space)
		}
		if !strings.Contains(i.Path, name) {
			t.Errorf("%s: the namespace is that of what %s names, which is not in its path %q", i.Name, name, i.Path)
		}
		if i.Need.Namespaced() && i.Space == acl.NoSpace {
			t.Errorf("%s needs %q, which is had in a namespace, and says nothing of one", i.Name, i.Need)
		}
		if (i.Space == acl.QuerySpace || i.Space == acl.JobSpace) && !has(i.In, "Namespace") {
			t.Errorf("%s: %s cannot say a namespace", i.Name, i.In)
		}
		if i.Space == acl.JobSpace && !has(i.In, "Job") {
			t.Errorf("%s: %s has no job that could say a namespace", i.Name, i.In)
		}
	}
}

func has(t reflect.Type, field string) bool {
	_, ok := t.FieldByName(field)
	return ok
}

var pathForm = regexp.MustCompile(`^(/\.well-known)?(/[a-z][a-z0-9.-]*|/\{[A-Z][A-Za-z]*\})+$`)

// Names, routes and RPC names are each of one operation, and a route names
// what its input has.
func TestOperationsAreTold(t *testing.T) {
	seen := map[string]string{}
	once := func(what, value, name string) {
		if other, twice := seen[what+value]; twice {
			t.Errorf("%s and %s have the same %s, %s", other, name, what, value)
		}
		seen[what+value] = name
	}
	braces := regexp.MustCompile(`\{[^}]*\}`)
	for _, i := range op.All() {
		if i.Name == "" || i.Path == "" && i.RPC == "" {
			t.Errorf("an operation has no name, or can be called in no way: %+v", i)
		}
		once("name", i.Name, i.Name)
		if i.RPC != "" {
			once("RPC name", i.RPC, i.Name)
		}
		if !slices.Contains([]string{"GET", "PUT", "DELETE"}, i.Method) {
			t.Errorf("%s: method %q", i.Name, i.Method)
		}
		if i.IsRead() != (i.Method == "GET") || (i.MaxBody == 0) != (i.Bytes && !i.IsRead()) || i.MaxBody < 0 || i.MaxBody > op.MaxJobBody {
			t.Errorf("%s: %+v", i.Name, i)
		}
		if i.Path == "" {
			continue
		}
		once("route", i.Method+" "+braces.ReplaceAllString(i.Path, "{}"), i.Name)
		if !pathForm.MatchString(i.Path) {
			t.Errorf("%s: path %q", i.Name, i.Path)
		}
		for _, name := range braces.FindAllString(i.Path, -1) {
			f, ok := i.In.FieldByName(strings.Trim(name, "{}"))
			if !ok || f.Type.Kind() != reflect.String {
				t.Errorf("%s: %s of the path is no text of %s", i.Name, name, i.In)
			}
		}
	}
}

// What every request may say can be said in every operation: a read that
// embeds no Query could neither wait nor name a region.
func TestInputsCarryTheSharedFields(t *testing.T) {
	nothing, query := reflect.TypeFor[op.Nothing](), reflect.TypeFor[op.Query]()
	for _, i := range op.All() {
		want := "Query"
		if !i.IsRead() {
			want = "Write"
		}
		if i.In == nothing || i.In == query || i.Servers || i.Forwards {
			continue
		}
		if f, ok := i.In.FieldByName(want); !ok || !f.Anonymous {
			t.Errorf("%s: %s does not embed %s", i.Name, i.In, want)
		}
	}
}
