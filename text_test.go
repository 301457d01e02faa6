package berth

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// textFields are the names of fields that hold sentences for people. A field
// that programs decide on is an enum and has another name.
var textFields = []string{"Description", "DesiredDescription", "StatusDescription", "ClientDescription", "Reason", "Why", "Message"}

// readers are the functions that find out what a text says, by package.
var readers = map[string][]string{
	"strings": {"Compare", "Contains", "ContainsAny", "Count", "Cut", "CutPrefix", "CutSuffix", "EqualFold", "Fields", "HasPrefix", "HasSuffix", "Index",
		"LastIndex", "Split", "SplitN"},
	"slices": {"Contains", "Index"},
	"regexp": {"MatchString"},
}

// mayRead are the functions that may read a text, and why.
var mayRead = map[string]string{
	"internal/wire/certs/material.go":    "the reason of an x509.CertificateInvalidError is an enum",
	"internal/cli/data.go templateFault": "text/template has no error type for an unknown field; this words the message",
	"op/deployment.go DeploymentText":    "the state keeps a text, which must not change; this words it for people",
	"client/tls.go distrust":             "crypto/tls does not export the type of an alert; this words the message",
}

// No decision reads a text that is meant for people: to reword a message must
// change nothing else. Decisions read enums: the kind and code of an error, the
// reason of a stop.
func TestNoDecisionReadsText(t *testing.T) {
	used := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path == "test" || path == "bench" { // they judge what users see
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			for _, n := range readsOfText(f.Body) {
				place := path + " " + f.Name.Name
				if _, ok := mayRead[place]; !ok {
					place = path
				}
				if _, ok := mayRead[place]; ok {
					used[place] = true
					continue
				}
				t.Errorf("%s: %s decides on a text for people: use an enum, or the Kind and Code of an error", files.Position(n.Pos()), f.Name.Name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for place := range mayRead {
		if !used[place] {
			t.Errorf("%s reads no text any more: remove it from mayRead", place)
		}
	}
}

// readsOfText returns the expressions of a function that depend on what a text
// says. Whether there is a text at all, and whether two texts are the same, may
// be asked.
func readsOfText(body *ast.BlockStmt) (found []ast.Node) {
	texts := map[string]bool{} // variables that hold the text of an error
	isText := func(e ast.Expr) bool {
		switch e := e.(type) {
		case *ast.Ident:
			return texts[e.Name]
		case *ast.SelectorExpr:
			return slices.Contains(textFields, e.Sel.Name)
		case *ast.CallExpr:
			s, ok := e.Fun.(*ast.SelectorExpr)
			return ok && s.Sel.Name == "Error" && len(e.Args) == 0
		}
		return false
	}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, right := range n.Rhs {
				left, ok := n.Lhs[i].(*ast.Ident)
				call, isCall := right.(*ast.CallExpr)
				if ok && isCall && isText(call) && left.Name != "err" { // a future's Error is an error
					texts[left.Name] = true
				}
			}
		case *ast.BinaryExpr:
			if n.Op == token.EQL || n.Op == token.NEQ {
				x, y := isText(n.X), isText(n.Y)
				if x && !y && !isEmpty(n.Y) || y && !x && !isEmpty(n.X) {
					found = append(found, n)
				}
			}
		case *ast.SwitchStmt:
			if n.Tag != nil && isText(n.Tag) {
				found = append(found, n)
			}
		case *ast.IndexExpr:
			if isText(n.Index) {
				found = append(found, n)
			}
		case *ast.CallExpr:
			if isReader(n) && slices.ContainsFunc(n.Args, isText) {
				found = append(found, n)
			}
		}
		return true
	})
	return found
}

// isEmpty reports whether e is nil or "".
func isEmpty(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name == "nil"
	case *ast.BasicLit:
		return e.Value == `""`
	}
	return false
}

// isReader reports whether a call is one of readers, or a method that matches a
// regular expression.
func isReader(call *ast.CallExpr) bool {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	if from, ok := s.X.(*ast.Ident); ok {
		if names, ok := readers[from.Name]; ok {
			return slices.Contains(names, s.Sel.Name)
		}
	}
	return s.Sel.Name == "MatchString" || strings.HasPrefix(s.Sel.Name, "FindString") || strings.HasPrefix(s.Sel.Name, "FindAllString")
}

// The test above finds what it is for.
func TestReadsOfText(t *testing.T) {
	for _, code := range []string{
		`if err.Error() == "gone" {}`,
		`if "gone" != err.Error() {}`,
		`switch err.Error() { case "gone": }`,
		`switch { case strings.Contains(err.Error(), "gone"): }`,
		`text := err.Error(); if strings.HasPrefix(text, "gone") {}`,
		`switch text := err.Error(); { case strings.HasPrefix(text, "gone"): }`,
		`if a.DesiredDescription == berth.StopReplaced {}`,
		`switch a.Rest().DesiredDescription { case berth.StopReplaced: }`,
		`kind, _, _ := strings.Cut(x.Reason, ": ")`,
		`return kinds[x.Why]`,
		`return gone.MatchString(err.Error())`,
		`return slices.Contains(all, x.Message)`,
	} {
		if n := len(readsOfText(parsed(t, code))); n != 1 {
			t.Errorf("%s: found %d reads, want 1", code, n)
		}
	}
	for _, code := range []string{
		`if f.Error() != nil {}`,
		`if a.Description != "" {}`,
		`if a.Description == b.Description {}`,
		`if berth.KindOf(err) == berth.NotFound {}`,
		`err := future.Error(); if err == io.EOF {}`,
		`return strings.TrimSuffix(err.Error(), "\n")`,
	} {
		if n := len(readsOfText(parsed(t, code))); n != 0 {
			t.Errorf("%s: found %d reads, want none", code, n)
		}
	}
}

func parsed(t *testing.T, code string) *ast.BlockStmt {
	file, err := parser.ParseFile(token.NewFileSet(), "x.go", fmt.Sprintf("package x\nfunc f() { %s }", code), 0)
	if err != nil {
		t.Fatal(err)
	}
	return file.Decls[0].(*ast.FuncDecl).Body
}
