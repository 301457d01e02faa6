package berth_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layers is the map of the tree: a package may import from the lines above its
// own. Packages on one line do not know each other. A name
// that ends in /... stands for all packages below it that are not named
// themselves; those may know of each other.
const layers = `
internal/...
berth
internal/decode
internal/cron internal/condition internal/driverconfig internal/validate internal/audit internal/templating internal/traces
internal/admit
internal/acl internal/diff jobspec internal/streams internal/saferoot internal/keyring internal/authmethod
internal/login
op
internal/fit internal/quota internal/state/codec
internal/state
internal/state/statetest internal/invariant
internal/schedule/place internal/schedule/reconcile internal/streams/placement
internal/schedule
internal/streams/submit
internal/schedule/explain
internal/worker internal/leader internal/leader/broker internal/leader/planner internal/leader/heartbeat internal/leader/collector internal/leader/deploy internal/leader/drain internal/leader/claims internal/leader/fence internal/leader/finalize internal/leader/periodic internal/leader/rotate internal/leader/locks internal/leader/turns internal/leader/expire internal/leader/replicate
internal/consensus/... internal/gossip internal/wire/...
internal/consensus internal/peer
internal/events
internal/api client
internal/streams/connect
internal/agent/...
internal/agent
internal/config internal/server
internal/daemon
internal/cli
cmd/berth
bench/... test/... examples/...
`

// agentSees is what the agent may import of ours, beside its own packages and the
// helpers in internal that no line of the map names.
var agentSees = []string{
	"berth", "internal/cron", "internal/driverconfig", "internal/templating", "op", "client", "internal/wire", "internal/peer", "internal/saferoot", "internal/streams/connect",
}

// cliSees is what the command line may import of ours, beside the helpers in
// internal that no line of the map names.
var cliSees = []string{"berth", "client", "op", "jobspec", "internal/audit", "internal/config", "internal/cron", "internal/daemon", "internal/decode", "internal/diff", "internal/validate", "internal/wire/certs"}

// TestLayers keeps the map true.
func TestLayers(t *testing.T) {
	layer := map[string]int{}
	for i, line := range strings.Split(strings.TrimSpace(layers), "\n") {
		for _, pkg := range strings.Fields(line) {
			layer[pkg] = i
		}
	}
	place := func(pkg string) (string, int, bool) {
		if i, ok := layer[pkg]; ok {
			return pkg, i, true
		}
		for dir := pkg; dir != "."; dir = path.Dir(dir) {
			if i, ok := layer[dir+"/..."]; ok {
				return dir + "/...", i, true
			}
		}
		return "", 0, false
	}
	for _, f := range sources(t) {
		name, at, known := place(f.pkg)
		if !known {
			t.Errorf("%s is not on the map", f.pkg)
			continue
		}
		for _, imp := range f.imports {
			below, i, ok := place(imp)
			family := below == name && strings.HasSuffix(name, "/...")
			if !ok || i >= at && !family {
				t.Errorf("%s: %s imports %s, which does not stand above it", f.path, f.pkg, imp)
			}
			helper := below == "internal/..."
			if f.pkg == "internal/cli" && !helper && !slices.Contains(cliSees, imp) {
				t.Errorf("%s: the command line imports %s; it sees %s only", f.path, imp, strings.Join(cliSees, ", "))
			}
			if agents(f.pkg) && !agents(imp) && !helper && !seen(imp) {
				t.Errorf("%s: the agent imports %s; it sees %s only", f.path, imp, strings.Join(agentSees, ", "))
			}
		}
	}
}

func agents(pkg string) bool {
	return pkg == "internal/agent" || strings.HasPrefix(pkg, "internal/agent/")
}

func seen(imp string) bool {
	for _, s := range agentSees {
		if imp == s || strings.HasPrefix(imp, s+"/") {
			return true
		}
	}
	return false
}

// TestRootHoldsNounsOnly: everything of ours imports the root package, so it
// stays small and needs nothing but the standard library.
func TestRootHoldsNounsOnly(t *testing.T) {
	const mostFiles, mostLines = 30, 4300
	files, lines := 0, 0
	for _, f := range sources(t) {
		if f.pkg != "berth" {
			continue
		}
		files++
		lines += strings.Count(read(t, f.path), "\n")
		for _, spec := range f.file.Imports {
			imp, _ := strconv.Unquote(spec.Path.Value)
			if first, _, _ := strings.Cut(imp, "/"); first == "berth" || strings.Contains(first, ".") {
				t.Errorf("%s imports %s; the root package imports the standard library only", f.path, imp)
			}
		}
	}
	if files == 0 || files > mostFiles || lines > mostLines {
		t.Errorf("the root package has %d files with %d lines; allowed are %d and %d", files, lines, mostFiles, mostLines)
	}
}

// doors are modules that one package of ours uses on behalf of all others, so
// that they can be replaced in one place.
var doors = map[string]string{
	"github.com/go-json-experiment/json": "internal/strictjson",
	"github.com/vmihailenco/msgpack":     "", // internal/msgpack is our own
	"github.com/hashicorp/go-msgpack":    "internal/gossip",
}

// TestDoors keeps modules behind their doors.
func TestDoors(t *testing.T) {
	for _, f := range sources(t) {
		for _, spec := range f.file.Imports {
			imp, _ := strconv.Unquote(spec.Path.Value)
			for module, door := range doors {
				if (imp == module || strings.HasPrefix(imp, module+"/")) && f.pkg != door {
					t.Errorf("%s: %s imports %s: that is for %q alone", f.path, f.pkg, imp, door)
				}
			}
		}
	}
}

// TestPackageComments: each package comment says what it promises.
func TestPackageComments(t *testing.T) {
	promise := map[string]bool{}
	for _, f := range sources(t) {
		if f.file.Doc != nil && len(f.file.Doc.Text()) > 40 {
			promise[f.pkg] = true
		} else if _, ok := promise[f.pkg]; !ok {
			promise[f.pkg] = false
		}
	}
	for pkg, ok := range promise {
		if !ok {
			t.Errorf("package %s does not say what it promises", pkg)
		}
	}
}

// defaultLog finds what is logged to the process's default log.
var defaultLog = regexp.MustCompile(`\bslog\.(Debug|Info|Warn|Error|Log|LogAttrs)(Context)?\(`)

// TestNothingUsesTheDefaultLog: nothing logs past the log of its agent, which has
// the level and the form that an operator chose.
func TestNothingUsesTheDefaultLog(t *testing.T) {
	for _, f := range sources(t) {
		for n, line := range strings.Split(read(t, f.path), "\n") {
			if defaultLog.MatchString(line) {
				t.Errorf("%s:%d: the default log is used: %s", f.path, n+1, strings.TrimSpace(line))
			}
		}
	}
}

// TestBubblesRunOnOneThread: whoever uses a bubble in tests keeps the race
// detector from ending the process for a defect that is not ours
// (internal/onethread says which).
func TestBubblesRunOnOneThread(t *testing.T) {
	bubbles, kept := map[string]bool{}, map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			switch spec.Path.Value {
			case `"testing/synctest"`:
				bubbles[filepath.Dir(path)] = true
			case `"berth/internal/onethread"`:
				kept[filepath.Dir(path)] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for dir := range bubbles {
		if !kept[dir] {
			t.Errorf("tests of %s use testing/synctest and do not import berth/internal/onethread", dir)
		}
	}
}

// source is a file of one of our packages that is not a test.
type source struct {
	path, pkg string
	imports   []string // ours, without the module's name
	file      *ast.File
}

func sources(t *testing.T) (out []source) {
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); name == "testdata" || path != "." && (strings.HasPrefix(name, ".") || nested(path)) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		s := source{path: path, pkg: filepath.ToSlash(filepath.Dir(path)), file: file}
		if s.pkg == "." {
			s.pkg = "berth"
		}
		for _, spec := range file.Imports {
			imp, _ := strconv.Unquote(spec.Path.Value)
			if imp == "berth" || strings.HasPrefix(imp, "berth/") {
				s.imports = append(s.imports, strings.TrimPrefix(imp, "berth/"))
			}
		}
		out = append(out, s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// nested reports whether a folder is a module of its own.
func nested(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}
