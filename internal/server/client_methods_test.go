package server_test

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
)

var updateMethods = flag.Bool("update-methods", false, "write the list of methods that no test calls again")

// handles are the parts of Nomad's Go client, by the method of the client that
// returns them.
func handles() map[string]reflect.Type {
	out := map[string]reflect.Type{}
	c := reflect.TypeFor[*nomad.Client]()
	for m := range c.Methods() {
		f := m.Type
		if f.NumIn() == 1 && f.NumOut() == 1 && f.Out(0).Kind() == reflect.Pointer && f.Out(0).Elem().PkgPath() == c.Elem().PkgPath() && f.Out(0).NumMethod() > 0 {
			out[m.Name] = f.Out(0)
			delete(out, "ACLOIDC") // a deprecated name of ACLAuth, whose methods it has
		}
	}
	// Parts that functions with arguments return, and the client itself.
	out["Locks"], out["NewLockLeaser"] = reflect.TypeFor[*nomad.Locks](), reflect.TypeFor[*nomad.LockLeaser]()
	out["NewFrameReader"], out["NewClient"], out["Event"] = reflect.TypeFor[*nomad.FrameReader](), c, reflect.TypeFor[*nomad.Event]()
	return out
}

// takesArguments are the functions with arguments that return a part, and the
// part that it is.
var takesArguments = map[string]string{
	"Locks": "Locks", "NewLockLeaser": "NewLockLeaser", "NewFrameReader": "NewFrameReader", "NewClient": "NewClient",
	"GetNodeClient": "NewClient", "GetNodeClientWithTimeout": "NewClient",
}

// called returns the methods that the tests of some folders call, as
// "Jobs.Register". A handle is known by the call that returns it, or by the
// variable that it was assigned to in the same file.
func called(t *testing.T, parts map[string]reflect.Type, dirs ...string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, text, 0)
			if err != nil {
				t.Fatal(err)
			}
			vars := map[string]string{}
			// Events have too many names to tell which variable is one.
			usesEvents := strings.Contains(string(text), "nomad.Event")
			ast.Inspect(f, func(n ast.Node) bool {
				if a, ok := n.(*ast.AssignStmt); ok && (len(a.Lhs) == len(a.Rhs) || len(a.Rhs) == 1) {
					for i, x := range a.Rhs { // a part is the first of several results
						if name, ok := a.Lhs[i].(*ast.Ident); ok && partOf(parts, x) != "" {
							vars[name.Name] = partOf(parts, x)
						}
					}
				}
				return true
			})
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					part := partOf(parts, s.X)
					if v, ok := s.X.(*ast.Ident); ok && part == "" {
						part = vars[v.Name]
					}
					if part != "" {
						out[part+"."+s.Sel.Name] = true
					} else if usesEvents {
						out["Event."+s.Sel.Name] = true
					}
				}
				return true
			})
		}
	}
	return out
}

// partOf returns the part of the client that an expression returns, "" if it
// returns none.
func partOf(parts map[string]reflect.Type, x ast.Expr) string {
	if s, ok := x.(*ast.SelectorExpr); ok && s.Sel.Name == "api" {
		return "NewClient" // the field of what runs in tests
	}
	c, ok := x.(*ast.CallExpr)
	if !ok {
		return ""
	}
	s, ok := c.Fun.(*ast.SelectorExpr)
	switch {
	case !ok:
		return ""
	case len(c.Args) > 0:
		return takesArguments[s.Sel.Name]
	case parts[s.Sel.Name] == nil:
		return ""
	}
	return s.Sel.Name
}

// The list names each method of Nomad's Go client that no test of a server or
// agent in one process, and none of the real programs, calls. It only gets
// shorter.
func TestMethodsOfTheGoClient(t *testing.T) {
	parts := handles()
	seen := called(t, parts, ".", "../api", "../daemon", "../../test/real")
	var missing []string
	all := 0
	for part, typ := range parts {
		for m := range typ.Methods() {
			if part == "NewClient" && (parts[m.Name] != nil || m.Name == "ACLOIDC") {
				continue // returns a part
			}
			if _, ofOptions := reflect.TypeFor[*nomad.WriteOptions]().MethodByName(m.Name); part == "Locks" && ofOptions {
				continue // asks no server
			}
			if all++; !seen[part+"."+m.Name] {
				missing = append(missing, part+"."+m.Name)
			}
		}
	}
	slices.Sort(missing)
	if all < 150 {
		t.Fatalf("the client has %d methods", all)
	}
	text := strings.Join(missing, "\n") + "\n"
	const file = "testdata/client_methods.txt"
	if *updateMethods {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if allowed := strings.Split(string(want), "\n"); slices.ContainsFunc(missing, func(m string) bool { return !slices.Contains(allowed, m) }) {
		t.Errorf("no test calls these methods, and %s does not list them all:\n%s", file, text)
	}
}
