package external

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/driver/drivertest"
	"berth/internal/agent/isolate/isolatetest"
	"berth/internal/agent/plugin"
	"berth/internal/agent/supervise"
)

// plugins is the directory with the example of a driver.
var plugins string

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "supervise" {
		os.Exit(supervise.Main(os.Args[2:]))
	}
	signal.Ignore(syscall.SIGHUP) // as under nohup: tasks get it all the same
	os.Exit(run(m))
}

// run builds the example and runs the tests.
func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "berth-plugin-test-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-o", dir, "berth/examples/plugins/shell")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		panic(string(out))
	}
	plugins = dir
	return m.Run()
}

// open starts the plugin as a new agent does.
func open(t *testing.T) (*Driver, *plugin.Plugins) {
	t.Helper()
	ps, err := plugin.Open(t.Context(), plugin.Config{Dir: plugins, Node: rand.Text(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	d, err := New(t.Context(), ps.Drivers()[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.Close()
		if err := ps.Close(); err != nil {
			t.Error(err)
		}
	})
	return d, ps
}

func sh(script string) map[string]any { return map[string]any{"script": script} }

func suite(t *testing.T) drivertest.Driver {
	return drivertest.Driver{
		New:      func() driver.Driver { d, _ := open(t); return d },
		Disabled: func() driver.Driver { d, _ := open(t); return driver.Disabled(d) },
		Runs:     sh("exec sleep 1000"),
		Deaf:     sh("trap '' TERM; printf deaf; while :; do sleep 0.01; done"),
		DeafSays: "deaf",
		Shell:    sh,
		Ends:     func(code int) map[string]any { return sh(fmt.Sprint("exit ", code)) },
		Prints: func(out, err string) map[string]any {
			return sh(fmt.Sprintf("printf '%s'; printf '%s' >&2", out, err))
		},
		Refused: []map[string]any{
			nil, {"script": ""}, {"script": []any{"a"}}, {"script": "true", "args": "x"}, {"script": "true", "more": 1}, {"script": "true", "env": "x"},
		},
		Supervisor: isolatetest.Command(),
	}
}

func TestContract(t *testing.T) { drivertest.Run(t, suite(t)) }

// kill kills the plugin's process.
func kill(t *testing.T) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if line, err := os.ReadFile(p); err == nil && string(line) == filepath.Join(plugins, "shell")+"\x00" {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(p)))
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Log(err)
			}
		}
	}
}

// TestThePluginIsKilled kills the plugin at each step of a task: all goes on with
// its next process, and nothing is done twice.
func TestThePluginIsKilled(t *testing.T) {
	s := suite(t)
	d, _ := open(t)
	task := s.Alloc(t)
	kill(t)
	const script = `trap 'echo hup' HUP; echo started; while test ! -e local/end; do sleep 0.05; done; echo ended; exit 7`
	var h driver.Handle
	var mine *driver.Task
	for launch := uint64(1); h == nil; launch++ { // a start may meet the process at its end
		mine = task(launch, sh(script))
		var err error
		if h, err = d.Start(t.Context(), mine); err != nil && !driver.IsRecoverable(err) {
			t.Fatal(err)
		}
	}
	waited := make(chan *driver.Exit, 1)
	go func() {
		x, err := h.Wait(t.Context())
		if err != nil {
			t.Error(err)
		}
		waited <- x
	}()
	kill(t)
	drivertest.Printed(t, mine, "started\n") // before, a signal would end it
	for err := h.Signal(t.Context(), syscall.SIGHUP); err != nil; err = h.Signal(t.Context(), syscall.SIGHUP) {
		if berth.KindOf(err) != berth.Unavailable { // the call met the process at its end
			t.Fatal(err)
		}
	}
	kill(t)
	if err := os.WriteFile(filepath.Join(mine.Dir, "local", "end"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	x := <-waited
	if x == nil || x.Code != 7 {
		t.Errorf("%+v", x)
	}
	kill(t)
	if err := h.Release(t.Context()); err != nil {
		t.Error(err)
	}
	got := drivertest.Output(t, mine, "stdout")
	if strings.Count(got, "started\n") != 1 || strings.Count(got, "ended\n") != 1 || !strings.Contains(got, "hup\n") {
		t.Errorf("%q", got)
	}
}

// TestATaskThatIsGone tests that a task which ended with nobody to tell is lost,
// and not waited for.
func TestATaskThatIsGone(t *testing.T) {
	s := suite(t)
	d, _ := open(t)
	task := s.Alloc(t)(1, s.Runs)
	h, err := d.Start(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	state := h.State()
	other, _ := open(t)
	if _, err := other.Recover(t.Context(), task, []byte("{")); !errors.Is(err, driver.ErrLost) {
		t.Errorf("with a damaged state: %v", err)
	}
	// The processes of the task were killed in any order, so its keeper may have had
	// the time to write down how the script ended.
	if err := os.Remove(filepath.Join(task.Dir, ".exit-1")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if _, err := other.Recover(t.Context(), task, state); !errors.Is(err, driver.ErrLost) {
		t.Errorf("after it was ended: %v", err)
	}
}
