package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"berth"
	"berth/internal/eventually"
	"berth/internal/state"

	"github.com/rogpeppe/go-internal/testscript"
)

// runAsProgram is in the environment of the test binary where it is to be the
// program itself: see TestScripts.
const runAsProgram = "BERTH_TEST_RUN_AS_PROGRAM"

func TestMain(m *testing.M) {
	time.Local = time.UTC
	if os.Getenv(runAsProgram) != "" {
		os.Exit(Main(os.Args))
	}
	eventually.Main(m)
}

// The scripts in testdata run commands against a real server. They are the
// reference of every output. Only IDs and times are replaced by others of the
// same length. With BERTH_REWRITE set, expected outputs are rewritten.
//
// Each script runs under both names, berth and nomad. What the program says as
// nomad must be what the script expects of berth, but for the name. The first
// run of each command under a name is a process, started by a link of that name;
// others run within the test, which takes a tenth of the time.
//
//	berth ARGS…            runs a command, which must succeed
//	! berth ARGS…          … which must fail
//	exits N NAME ARGS…     … which must end with this code; NAME is berth or nomad
//	says ARGS…             runs a command that may fail, and prints its exit code too
//	eventually TEXT ARGS…  runs a command until its output holds TEXT
//	once TEXT ARGS… -- NAME ARGS…  runs berth ARGS, and when its output holds TEXT
//	                       another command of these, meanwhile; which both must succeed
//	! once …               … of which the first must fail
//	node NAME OPTION…      adds a node: cpu=, memory=, disk=, class=, dc=, pool=, idle=yes
//	fare ALLOC STATUS WHY  makes the agent report the status of an allocation
//	wrote ALLOC TASK STREAM INDEX FILE   puts a file's text into a log file
//	serves ALLOC SERVICE LABEL PORT TAG…  lets the agent register an instance of a service
//	damage FILE TO AT      copies a file, with the byte at AT another; below 0 it is counted from the end
//	cut FILE TO AT         copies a file up to there
//	checks ALLOC FILE      makes the agent report the checks of an allocation's services
func TestScripts(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"berth", nomadName} {
		link := filepath.Join(t.TempDir(), name)
		if err := os.Symlink(program, link); err != nil {
			t.Fatal(err)
		}
		if rewrite := os.Getenv("BERTH_REWRITE") != ""; !rewrite || name == "berth" {
			t.Run(name, func(t *testing.T) { scripts(t, link, rewrite) })
		}
	}
}

// scripts runs all scripts under the name that the link has.
func scripts(t *testing.T, link string, rewrite bool) {
	var started sync.Map // commands that ran as a process
	testscript.Run(t, testscript.Params{
		Dir: "testdata", UpdateScripts: rewrite, RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			c, err := startCluster(filepath.Join(e.WorkDir, ".cluster"))
			if err != nil {
				return err
			}
			e.Defer(func() {
				if err := c.stop(); err != nil {
					t.Error(err)
				}
			})
			e.Values["cluster"], e.Values["link"], e.Values["started"] = c, link, &started
			e.Setenv("BERTH_ADDR", c.http)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"berth": func(ts *testscript.TestScript, neg bool, args []string) {
				if code := runScript(ts, "berth", args); (code != 0) != neg {
					ts.Fatalf("exit code %d", code)
				}
			},
			"exits": func(ts *testscript.TestScript, _ bool, args []string) {
				if code := runScript(ts, args[1], args[2:]); strconv.Itoa(code) != args[0] {
					ts.Fatalf("exit code %d", code)
				}
			},
			"says": func(ts *testscript.TestScript, _ bool, args []string) {
				code, out, errs := program(ts, "berth", args)
				fmt.Fprintf(ts.Stdout(), "%sexit code %d\n", ts.Value("cluster").(*cluster).normal(out+errs), code)
			},
			"eventually": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(poll(func() (bool, error) {
					_, out, errs := program(ts, "berth", args[1:])
					return strings.Contains(out+errs, args[0]), nil
				}))
			},
			"once": func(ts *testscript.TestScript, neg bool, args []string) {
				at := slices.Index(args, "--")
				out := &listener{text: args[0], told: make(chan struct{})}
				other := make(chan error, 1)
				go func() {
					<-out.told
					other <- meanwhile(ts, args[at+1], args[at+2:])
				}()
				code, errs := programTo(ts, "berth", args[1:at], out)
				out.tell()
				ts.Check(<-other)
				fmt.Fprint(ts.Stdout(), ts.Value("cluster").(*cluster).normal(out.all.String()))
				fmt.Fprint(ts.Stderr(), ts.Value("cluster").(*cluster).normal(errs))
				if (code != 0) != neg {
					ts.Fatalf("exit code %d", code)
				}
			},
			"serves": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(ts.Value("cluster").(*cluster).serves(args[0], args[1], args[2], args[3], args[4:]))
			},
			"damage": func(ts *testscript.TestScript, _ bool, args []string) {
				bytes, at := bytesOf(ts, args)
				bytes[at] ^= 0x20
				ts.Check(os.WriteFile(ts.MkAbs(args[1]), bytes, 0o600))
			},
			"cut": func(ts *testscript.TestScript, _ bool, args []string) {
				bytes, at := bytesOf(ts, args)
				ts.Check(os.WriteFile(ts.MkAbs(args[1]), bytes[:at], 0o600))
			},
			"checks": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(ts.Value("cluster").(*cluster).checks(args[0], ts.ReadFile(args[1])))
			},
			"node": func(ts *testscript.TestScript, _ bool, args []string) {
				c, o := ts.Value("cluster").(*cluster), options{}
				for _, a := range args[1:] {
					k, v, _ := strings.Cut(a, "=")
					o[k] = v
				}
				_, err := c.addNode(args[0], len(c.nodes)+1, o)
				ts.Check(err)
			},
			"fare": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(ts.Value("cluster").(*cluster).fare(args[0], args[1], strings.Join(args[2:], " ")))
			},
			"wrote": func(ts *testscript.TestScript, _ bool, args []string) {
				index, err := strconv.Atoi(args[3])
				ts.Check(err)
				ts.Check(ts.Value("cluster").(*cluster).wrote(args[0], args[1], args[2], index, ts.ReadFile(args[4])))
			},
		},
	})
}

// bytesOf returns the bytes of a file, and the place among them that a script
// names.
func bytesOf(ts *testscript.TestScript, args []string) ([]byte, int) {
	bytes := []byte(ts.ReadFile(args[0]))
	at, err := strconv.Atoi(args[2])
	ts.Check(err)
	if at < 0 {
		at += len(bytes)
	}
	return bytes, at
}

// runScript runs a command and leaves its outputs to the script.
func runScript(ts *testscript.TestScript, name string, args []string) int {
	code, out, errs := program(ts, name, args)
	c := ts.Value("cluster").(*cluster)
	fmt.Fprint(ts.Stdout(), c.normal(out))
	fmt.Fprint(ts.Stderr(), c.normal(errs))
	return code
}

// program runs a command as a process would run it in the script's place. An
// argument {NAME} is the ID of the first allocation of that name, {eval-N} that
// of the Nth evaluation, {deploy-N} that of the Nth deployment; {NAME:8} is how
// it begins.
func program(ts *testscript.TestScript, name string, args []string) (code int, out, errs string) {
	var o strings.Builder
	code, errs = programTo(ts, name, args, &o)
	return code, o.String(), errs
}

// programTo is program whose output is written to out as it comes.
func programTo(ts *testscript.TestScript, name string, args []string, out io.Writer) (code int, errs string) {
	link := ts.Value("link").(string)
	p := &Program{Name: name, Args: withIDs(ts, args), Dir: ts.MkAbs("."), In: strings.NewReader(""), Now: time.Now}
	if stdin := ts.MkAbs("stdin"); slices.Contains(args, "-") {
		text, err := os.ReadFile(stdin)
		ts.Check(err)
		p.In = strings.NewReader(string(text))
	}
	for _, name := range []string{"BERTH_ADDR", "BERTH_NAMESPACE", "BERTH_CLI_FORCE_COLOR", "BERTH_CACERT", "BERTH_VAR_count", "NOMAD_ADDR", "NOMAD_NAMESPACE", "NOMAD_VAR_count", "NOMAD_REGION", "NOMAD_TOKEN"} {
		if v := ts.Getenv(name); v != "" {
			p.Env = append(p.Env, name+"="+v)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Limit)
	defer cancel()
	var e strings.Builder
	p.Out, p.Err = out, &e
	if as := filepath.Base(link); as != name && name == "berth" {
		p.Name, p.Out, p.Err = as, &renamer{to: out}, &renamer{to: &e}
	}
	// A program called by a fixed name in a script is run within the test.
	if p.Name == filepath.Base(link) && first(ts, p.Args) {
		code, err := process(ctx, link, p)
		ts.Check(err)
		return code, e.String()
	}
	return p.Run(ctx), e.String()
}

// first reports that a command runs for the first time under a name.
func first(ts *testscript.TestScript, args []string) bool {
	command := ""
	if f := find(commands(), args); f.exact != nil {
		command = f.exact.name
	}
	_, again := ts.Value("started").(*sync.Map).LoadOrStore(command, true)
	return !again
}

// withIDs puts IDs into arguments: see program.
func withIDs(ts *testscript.TestScript, args []string) []string {
	ids, out := ts.Value("cluster").(*cluster).ids(), slices.Clone(args)
	oldest := slices.SortedFunc(maps.Keys(ids), func(a, b string) int { return strings.Compare(ids[a].short, ids[b].short) })
	for i, a := range out {
		for _, id := range oldest {
			n := ids[id]
			a = strings.ReplaceAll(a, "{"+n.name+"}", id)
			a = strings.ReplaceAll(a, "{"+n.name+":8}", id[:8])
		}
		out[i] = a
	}
	return out
}

// process runs a program as a process that the link starts.
func process(ctx context.Context, link string, p *Program) (code int, err error) {
	cmd := exec.CommandContext(ctx, link, p.Args...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = p.Dir, p.In, p.Out, p.Err
	cmd.Env = append(slices.Clone(p.Env), runAsProgram+"=1", "HOME="+p.Dir, "PATH="+os.Getenv("PATH"), "GORACE="+os.Getenv("GORACE"))
	err = cmd.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		err = nil
	}
	return cmd.ProcessState.ExitCode(), err
}

// renamer writes berth where a program that is called as nomad says its name, and
// wrongName where it says berth.
type renamer struct{ to io.Writer }

// wrongName is in no script.
const wrongName = "BERTH-BUT-CALLED-AS-NOMAD"

// calls matches the program's name before a command or an option.
var calls = sync.OnceValue(func() [2]*regexp.Regexp {
	words := []string{"-h", "help", "<command>", "CLI"}
	for _, c := range commands() {
		words = append(words, regexp.QuoteMeta(strings.Fields(c.name)[0]))
	}
	after := ` (` + strings.Join(words, "|") + `)`
	return [2]*regexp.Regexp{regexp.MustCompile(`\bberth` + after), regexp.MustCompile(`\bnomad` + after)}
})

func (w *renamer) Write(b []byte) (int, error) {
	text := b
	if bytes.Contains(b, []byte("berth ")) { // most output has neither, and the race detector makes expressions slow
		text = calls()[0].ReplaceAll(text, []byte(wrongName+" $1"))
	}
	if bytes.Contains(b, []byte("nomad ")) {
		text = calls()[1].ReplaceAll(text, []byte("berth $1"))
	}
	if _, err := w.to.Write(text); err != nil {
		return 0, err
	}
	return len(b), nil
}

// listener keeps what is written, and signals when it contains a text.
type listener struct {
	text string
	all  strings.Builder
	told chan struct{}
	once sync.Once
}

func (w *listener) Write(b []byte) (int, error) {
	w.all.Write(b)
	if strings.Contains(w.all.String(), w.text) {
		w.tell()
	}
	return len(b), nil
}

func (w *listener) tell() { w.once.Do(func() { close(w.told) }) }

// meanwhile runs what a script wants while it waits for something else.
func meanwhile(ts *testscript.TestScript, name string, args []string) error {
	if name == "fare" {
		return ts.Value("cluster").(*cluster).fare(args[0], args[1], strings.Join(args[2:], " "))
	}
	if code, out, errs := program(ts, name, args); code != 0 {
		return fmt.Errorf("%s %v: exit code %d\n%s%s", name, args, code, out, errs)
	}
	return nil
}

// named is how a script shows an ID.
type named struct{ name, short string }

// ids names the IDs that are drawn by chance, by the order they came in.
func (c *cluster) ids() map[string]named {
	snap, out := c.server.Store().Snapshot(), map[string]named{c.server.ID(): {"server", "server-0"}}
	allocs := slices.SortedFunc(snap.Allocs(), func(a, b *berth.Alloc) int {
		return cmp.Or(cmp.Compare(a.CreateIndex, b.CreateIndex), cmp.Compare(a.Name(), b.Name()))
	})
	for i, a := range allocs {
		out[a.ID.String()] = named{a.Name(), fmt.Sprintf("alloc-%02d", i+1)}
	}
	evals := slices.SortedFunc(snap.Evals(), func(a, b *berth.Eval) int {
		return cmp.Or(cmp.Compare(a.CreateIndex, b.CreateIndex), cmp.Compare(a.TriggeredBy, b.TriggeredBy))
	})
	for i, e := range evals {
		out[e.ID.String()] = named{fmt.Sprintf("eval-%d", i+1), fmt.Sprintf("eval--%02d", i+1)}
	}
	deployments := slices.SortedFunc(snap.Deployments(), func(a, b *berth.Deployment) int { return cmp.Compare(a.CreateIndex, b.CreateIndex) })
	for i, d := range deployments {
		out[d.ID.String()] = named{fmt.Sprintf("deploy-%d", i+1), fmt.Sprintf("deply-%02d", i+1)}
	}
	return out
}

var (
	anyTime  = regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
	anyMilli = regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d\d\dZ`)
	anyAge   = regexp.MustCompile(`\b(\d+m)?\d+[ms] (ago|from now)( *)`)
	anySpan  = regexp.MustCompile(`\b\d+(\.\d+)?(ns|µs|ms|s)\b`)
	anyIndex = regexp.MustCompile(`(Modify Index +=) \d+`)
	anyUID   = regexp.MustCompile(`\b([a-z])-[0-9a-f]{16}-[0-9a-f]{2,}\b`)
	anyPort  = regexp.MustCompile(`127\.0\.0\.1:(2|3)\d{4}\b`)
)

// normal replaces what differs from run to run, without moving columns.
func (c *cluster) normal(s string) string {
	for id, n := range c.ids() {
		s = strings.ReplaceAll(s, id, n.short+"-0000-0000-0000-000000000000")
		s = strings.ReplaceAll(s, id[:8], n.short)
	}
	if c.server.Store().Snapshot().Count(state.Streams) > 0 { // how many commands a submission takes is not the same each time
		s = anyUID.ReplaceAllString(s, "$1-################-##")
	}
	s = strings.ReplaceAll(s, c.http, "http://AGENT")
	s = strings.ReplaceAll(s, c.rpc, "127.0.0.1:RRRRR")
	s = anyTime.ReplaceAllString(s, "2026-01-02T03:04:05Z")
	s = anyMilli.ReplaceAllString(s, "2026-01-02T03:04:05.678Z")
	s = anyIndex.ReplaceAllString(s, "$1 NN") // evaluations may come in between
	s = anyPort.ReplaceAllString(s, "127.0.0.1:PPPPP")
	s = anyAge.ReplaceAllStringFunc(s, func(age string) string {
		// The longest that comes up is as wide as the heading of its column.
		m := anyAge.FindStringSubmatch(age)
		text := "1s " + m[2]
		if m[3] == "" {
			return text
		}
		return text + strings.Repeat(" ", max(1, len(age)-len(text)))
	})
	return anySpan.ReplaceAllStringFunc(s, func(d string) string {
		if d == "1s" {
			return d
		}
		return "<span>"
	})
}
