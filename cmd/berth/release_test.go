package main

import (
	"bytes"
	"debug/elf"
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
		if contains(released, name) {
			t.Errorf("the release binary contains %q", name)
		}
		if !contains(tagged, name) {
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

// make needs nothing but Go: no C compiler, and what it builds runs without a libc.
// The program has no debug information and stays small enough to copy around.
func TestMakeNeedsOnlyGo(t *testing.T) {
	goBin, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir() // with links to make, the shell, go, and nothing else
	for _, name := range []string{"make", "bash", "sh", "grep"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	out := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "make", "-C", "../..", "build", "GO="+goBin, "BIN="+out)
	cmd.Env = []string{"PATH=" + bin}
	for _, kv := range os.Environ() { // where Go keeps modules and what it built
		if name, _, _ := strings.Cut(kv, "="); name == "HOME" || name == "GOCACHE" || name == "GOMODCACHE" || name == "GOPATH" || name == "GOPROXY" || name == "GONOSUMDB" || name == "GOFLAGS" || name == "GOSUMDB" {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make build: %v\n%s", err, text)
	}
	file, err := elf.Open(filepath.Join(out, "berth"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the program is not static: it has a segment %v", p.Type)
		}
	}
	if file.Section(".debug_info") != nil || file.Section(".zdebug_info") != nil || file.Section(".symtab") != nil {
		t.Error("the program has debug information or symbols")
	}
	info, err := os.Stat(filepath.Join(out, "berth"))
	if err != nil {
		t.Fatal(err)
	}
	if most := int64(62 << 20); info.Size() > most {
		t.Errorf("the program has %d bytes, allowed are %d", info.Size(), most)
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

// contains reports whether a program contains a name. A source file of that name
// does not count.
func contains(program []byte, name string) bool {
	for {
		i := bytes.Index(program, []byte(name))
		if i < 0 {
			return false
		}
		if program = program[i+len(name):]; !bytes.HasPrefix(program, []byte(".go")) {
			return true
		}
	}
}

// build builds the program as make does, and returns where it is.
func build(t *testing.T, flags ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "berth")
	cmd := exec.CommandContext(t.Context(), "go", append(append([]string{"build", "-trimpath", "-ldflags", "-s -w"}, flags...), "-o", out, ".")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
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
