package task

import (
	"context"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/driver/mock"
	"berth/internal/agent/fetch"
	"berth/internal/agent/isolate/isolatetest"
	"berth/internal/saferoot"
	"berth/op"
)

// variables are servers that know variables of paths.
type variables struct {
	mu      sync.Mutex
	items   map[string]map[string]string
	version uint64
	changed chan struct{} // closed when they are
	asked   chan struct{} // one element for each call that waits
}

func newVariables() *variables {
	return &variables{items: map[string]map[string]string{}, version: 1, changed: make(chan struct{}), asked: make(chan struct{}, 100)}
}

func (v *variables) put(path string, items map[string]string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.items[path] = items
	v.version++
	close(v.changed)
	v.changed = make(chan struct{})
}

func (v *variables) values(ctx context.Context, q *op.WantsQuery) (*op.WantsAnswer, error) {
	for {
		v.mu.Lock()
		out := &op.WantsAnswer{}
		out.Index = v.version
		for _, w := range q.Wants {
			x := op.Wanted{}
			items, ok := v.items[w.Name]
			if ok {
				x.Variables = []op.Variable{{VariableStub: op.VariableStub{Path: w.Name}, Items: items}}
			}
			x.Missing = !ok
			out.Values = append(out.Values, x)
		}
		changed := v.changed
		v.mu.Unlock()
		if q.MinQueryIndex < out.Index {
			return out, nil
		}
		v.asked <- struct{}{}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// ready prepares a task whose inputs come from servers, and returns what the
// attempt made.
func ready(t *testing.T, task string, v *variables) (*attempt, *saferoot.Root, []string, error) {
	t.Helper()
	at, root := unready(t, task, v)
	var said []string
	at.doing = func(typ, message string, _ ...berth.TaskWait) { said = append(said, typ+": "+message) }
	err := at.prepare(t.Context())
	return at, root, said, err
}

// unready returns the attempt to start a task, before anything is there.
func unready(t *testing.T, task string, v *variables) (*attempt, *saferoot.Root) {
	t.Helper()
	a := sampleAlloc(t, task)
	root, err := saferoot.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	place := samplePlace()
	place.AllocDir = root.Path()
	command := isolatetest.Command()
	tk := a.Job.TaskGroups[0].Tasks[0]
	at := &attempt{
		alloc: a, task: tk, place: place, driver: mock.New(true), names: Names{Node: place.Node}, out: &driver.Task{Name: tk.Name, AllocDir: root},
		inputs: &Inputs{Command: command, Values: v.values, Fetch: fetch.New(fetch.Config{Command: command})},
		doing:  func(string, string, ...berth.TaskWait) {},
	}
	return at, root
}

// Secrets, artifacts and templates are there before a task starts, in this
// order.
func TestInputsAreThereBeforeTheStart(t *testing.T) {
	files := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("hello {{ env \"NAME\" }}\n")) }))
	defer files.Close()
	v := newVariables()
	v.put("nomad/jobs/web", map[string]string{"user": "u1", "password": "p1"})
	at, root, _, err := ready(t, `{"Name":"app","Driver":"mock_driver","Env":{"NAME":"${secret.db.user}"},
		"Secrets":[{"Name":"db","Provider":"nomad","Path":"nomad/jobs/web"}],
		"Artifacts":[{"GetterSource":"`+files.URL+`/file.tpl","RelativeDest":"local/in"}],
		"Templates":[
			{"SourcePath":"local/in/file.tpl","DestPath":"${NOMAD_TASK_DIR}/out","Perms":"0640"},
			{"EmbeddedTmpl":"A=\"{{ with nomadVar \"nomad/jobs/web\" }}{{ .password }}{{ end }}\"\n# no\nB=2 # two\n","DestPath":"secrets/env","Envvars":true},
			{"EmbeddedTmpl":"{{ file \"local/in/file.tpl\" | len }}","DestPath":"../alloc/data/shared"}],
		"Config":{"stdout_string":"${A}${secret.db.password}"}}`, v)
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]string{"app/local/out": "hello u1\n", "app/secrets/env": "A=\"p1\"\n# no\nB=2 # two\n", "alloc/data/shared": "23"} {
		if b, err := root.ReadFile(p, 1000); string(b) != want {
			t.Errorf("%s: %q, %v; want %q", p, b, err, want)
		}
	}
	if st, err := root.Lstat("app/local/out"); err != nil || st.Mode() != fs.FileMode(0o640) {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if at.names.Env["A"] != "p1" || at.names.Env["B"] != "2" || at.out.Config["stdout_string"] != "p1p1" || !at.fetched || len(at.rendered) != 3 {
		t.Errorf("%v %v %v %v", at.names.Env["A"], at.names.Env["B"], at.out.Config, at.rendered)
	}
}

// C15, C37: whatever a path turns into, it stays in the task's directory.
func TestAdvisory_C37_PathsAreCheckedAfterInterpolation(t *testing.T) {
	v := newVariables()
	for _, p := range []string{
		"../../x", "../other/local/x", "/etc/cron.d/x", "local/../../../x", "${UP}/x", "${NOMAD_TASK_DIR}/../../../x", "${NONE}/x", ".", "", "../alloc/logs/app.stdout.0",
		"local/\x00x", `..\x`, "../.fetch/x", "../.supervise/x",
	} {
		task := `{"Name":"app","Driver":"mock_driver","Env":{"UP":"../.."},"Templates":[{"EmbeddedTmpl":"x","DestPath":"local/x"}]}`
		a := sampleAlloc(t, task)
		_ = a
		at, _, _, err := ready(t, task, v)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := at.inside("x", p); err == nil {
			t.Errorf("%q is %q", p, got)
		}
	}
}

// A task waits for a variable that is not there, and says so; when it changes,
// the task is told.
func TestAChangedVariableRestartsTheTask(t *testing.T) {
	v := newVariables()
	b := newBench(t, `{"Name":"app","Driver":"mock_driver","Config":{"run_for":"1h"},"RestartPolicy":{"Attempts":0,"Interval":"1h","Delay":"1s","Mode":"fail"},"KillTimeout":"1s",
		"Templates":[{"EmbeddedTmpl":"{{ with nomadVar \"nomad/jobs/web\" }}{{ .x }}{{ end }}","DestPath":"local/x","ChangeMode":"restart"}]}`)
	b.c.Inputs = Inputs{Command: isolatetest.Command(), Values: v.values}
	news := make(chan struct{}, 1)
	b.c.Changed = func() {
		select {
		case news <- struct{}{}:
		default:
		}
	}
	r, end := b.agent(t)
	defer end()
	until := func(what string, ok func(State) bool) {
		t.Helper()
		for !ok(r.State()) {
			select {
			case <-news:
			case <-t.Context().Done():
				t.Fatalf("%s: %s", what, history(r.State()))
			}
		}
	}
	until("it says what it waits for", func(s State) bool {
		n := len(s.Task.Events)
		return n > 0 && s.Task.Events[n-1].Type == berth.EventTemplate && strings.Contains(s.Task.Events[n-1].DisplayMessage, "variable nomad/jobs/web")
	})
	v.put("nomad/jobs/web", map[string]string{"x": "1"})
	until("it runs", func(s State) bool { return s.Phase == Running && s.Launch == 1 })
	v.put("nomad/jobs/web", map[string]string{"x": "2"})
	until("it runs again", func(s State) bool { return s.Phase == Running && s.Launch == 2 })
	if got, err := b.c.AllocDir.ReadFile("app/local/x", 10); string(got) != "2" {
		t.Errorf("%q, %v", got, err)
	}
	if s := r.State(); s.Task.Restarts != 1 || s.Task.Failed {
		t.Errorf("%d restarts, failed %v: %s", s.Task.Restarts, s.Task.Failed, history(s))
	}
}

// C15: a template reads and writes nothing through a link that the task, or an
// artifact, left where it looks.
func TestAdvisory_C15_TemplatesFollowNoLinks(t *testing.T) {
	outside := t.TempDir()
	if err := os.WriteFile(outside+"/secret", []byte("secret of the host"), 0o644); err != nil {
		t.Fatal(err)
	}
	for what, tpl := range map[string]string{
		"a source that is a link":         `{"SourcePath":"local/link","DestPath":"local/out"}`,
		"a source behind a link":          `{"SourcePath":"local/dir/secret","DestPath":"local/out"}`,
		"a file that is a link":           `{"EmbeddedTmpl":"{{ file \"local/link\" }}","DestPath":"local/out"}`,
		"a file behind a link":            `{"EmbeddedTmpl":"{{ file \"local/dir/secret\" }}","DestPath":"local/out"}`,
		"a file of the host":              `{"EmbeddedTmpl":"{{ file \"` + outside + `/secret\" }}","DestPath":"local/out"}`,
		"a destination behind a link":     `{"EmbeddedTmpl":"x","DestPath":"local/dir/made"}`,
		"a destination below a link file": `{"EmbeddedTmpl":"x","DestPath":"local/link/made"}`,
	} {
		at, root := unready(t, `{"Name":"app","Driver":"mock_driver","Templates":[`+tpl+`]}`, newVariables())
		if err := root.MkdirAll("app/local", 0o755); err != nil {
			t.Fatal(err)
		}
		for name, to := range map[string]string{"link": outside + "/secret", "dir": outside} {
			if err := os.Symlink(to, root.Path()+"/app/local/"+name); err != nil {
				t.Fatal(err)
			}
		}
		if err := at.prepare(t.Context()); err == nil {
			b, _ := root.ReadFile("app/local/out", 1000)
			t.Errorf("%s: it is rendered: %q", what, b)
		}
		if list, err := os.ReadDir(outside); err != nil || len(list) != 1 {
			t.Errorf("%s: there are %v outside", what, list)
		}
	}
}
