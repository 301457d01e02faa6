package main

import (
	"bytes"
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"berth/internal/failpoint"
)

// The program that people install has no fault points: neither their names nor
// the routes that arm them are in it, and it refuses to start when the variable
// that sets them is there. A build with the tag has them all, so this test would
// notice if it looked for the wrong names.
func TestReleaseHasNoFaultPoints(t *testing.T) {
	names := pointNames(t)
	if len(names) < 30 {
		t.Fatalf("only %d names found: %q", len(names), names)
	}
	names = append(names, "operator/failpoint", "agent/failpoint")
	release, faults := build(t), build(t, "-tags", "faults")
	released, tagged := read(t, release), read(t, faults)
	for _, name := range names {
		file := []byte(name + ".go") // a source file of that name is no point
		if bytes.Contains(bytes.ReplaceAll(released, file, nil), []byte(name)) {
			t.Errorf("the release binary contains %q", name)
		}
		if !bytes.Contains(bytes.ReplaceAll(tagged, file, nil), []byte(name)) {
			t.Errorf("the binary with fault points does not contain %q", name)
		}
	}
	for _, args := range [][]string{{"agent", "-dev"}, {"agent", "-server", "-data-dir", t.TempDir()}, {"supervise", "x"}} {
		cmd := exec.CommandContext(t.Context(), release, args...)
		cmd.Env = []string{failpoint.Env + "=consensus/unsynced=error*", "HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), failpoint.Env+" is set, but this build has no fault points") {
			t.Errorf("berth %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// pointNames returns the names of all points that the product passes, as they
// stand in the source: the arguments of failpoint.Hit.
func pointNames(t *testing.T) (names []string) {
	t.Helper()
	err := filepath.WalkDir("../../internal", func(path string, d fs.DirEntry, err error) error {
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
			if !ok || f.Sel.Name != "Hit" {
				return true
			}
			ast.Inspect(call.Args[0], func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					s, _ := strconv.Unquote(lit.Value)
					names = append(names, strings.TrimSuffix(s, "%T"))
				}
				return true
			})
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// build builds the program, and returns where it is.
func build(t *testing.T, flags ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "berth")
	cmd := exec.CommandContext(context.Background(), "go", append(append([]string{"build"}, flags...), "-o", out, ".")...)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
