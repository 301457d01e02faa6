package pattern

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func TestMatchString(t *testing.T) {
	p := New(`^[a-z]{1,3}$`)
	for s, want := range map[string]bool{"a": true, "abc": true, "": false, "abcd": false, "A": false} {
		if got := p.MatchString(s); got != want {
			t.Errorf("%q: %v", s, got)
		}
	}
}

// Every pattern of the program is a literal that compiles: nobody sees the panic of one
// that does not before it is used.
func TestAllPatternsCompile(t *testing.T) {
	found := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			f, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || f.Sel.Name != "New" {
				return true
			}
			if pkg, ok := f.X.(*ast.Ident); !ok || pkg.Name != "pattern" {
				return true
			}
			lit, ok := call.Args[0].(*ast.BasicLit)
			if !ok {
				t.Errorf("%s: a pattern is not a literal", path)
				return true
			}
			found++
			text, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Errorf("%s: %v", path, err)
			}
			if _, err := regexp.Compile(text); err != nil {
				t.Errorf("%s: %v", path, err)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 20 {
		t.Errorf("only %d patterns found", found)
	}
}
