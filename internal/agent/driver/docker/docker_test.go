package docker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/driver/docker/dockertest"
	"berth/internal/agent/driver/drivertest"
	"berth/internal/agent/isolate/isolatetest"
	"berth/internal/agent/logs"
	"berth/internal/agent/supervise"
	"berth/internal/driverconfig"
	"berth/internal/eventually"
	"berth/internal/freeport"
	"berth/op"
)

// engine is what all tests of the package share; nil where there can be none.
var engine *dockertest.Engine

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "supervise" {
		os.Exit(supervise.Main(os.Args[2:]))
	}
	os.Exit(dockertest.Run(m, func(e *dockertest.Engine) { engine = e }))
}

// config returns the driver's configuration for the engine of the tests.
func config(t *testing.T) Config {
	c := Defaults()
	c.Endpoint, c.Node, c.Dangling = dockertest.Need(t, engine).Host, "node-of-tests", false
	c.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	c.KeepImages = true
	return c
}

// does returns the config of a task that runs the program with arguments.
func does(args ...string) map[string]any {
	list := make([]any, len(args))
	for i, a := range args {
		list[i] = a
	}
	return map[string]any{"image": dockertest.Image, "args": list}
}

// with returns a config with more keys.
func with(c map[string]any, more ...any) map[string]any {
	for i := 0; i < len(more); i += 2 {
		c[more[i].(string)] = more[i+1]
	}
	return c
}

// allocs makes tasks whose containers are gone at the end of the test.
func allocs(t *testing.T) func(launch uint64, config map[string]any) *driver.Task {
	t.Helper()
	s := drivertest.Driver{Supervisor: isolatetest.Command()}
	alloc := s.Alloc(t)
	return func(launch uint64, config map[string]any) *driver.Task {
		task := alloc(launch, config)
		complete(t, task)
		return task
	}
}

// complete gives a task what the agent gives it, and has its containers removed
// at the end of the test.
func complete(t *testing.T, task *driver.Task) {
	task.Progress, task.KillSignal = func(string) {}, syscall.SIGTERM
	for _, dir := range []string{"local", "secrets"} {
		if err := task.AllocDir.Mkdir("task/"+dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		list, err := engine.Client.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", labelAllocID+"="+task.AllocID)})
		if err != nil {
			t.Error(err)
		}
		for _, c := range list.Items {
			if err := engine.Remove(ctx, c.ID); err != nil {
				t.Error(err)
			}
			followers.Lock()
			f := followers.by[c.ID]
			followers.Unlock()
			if f != nil {
				f.abandon()
			}
		}
	})
}

// prepared is a driver that completes the tasks of the shared suite.
type prepared struct {
	*Driver
	t *testing.T
}

func (p prepared) Start(ctx context.Context, t *driver.Task) (driver.Handle, error) {
	complete(p.t, t)
	return p.Driver.Start(ctx, t)
}

func TestContract(t *testing.T) {
	c := config(t)
	disabled := c
	disabled.Disabled = true
	drivertest.Run(t, drivertest.Driver{
		New:      func() driver.Driver { return prepared{New(c), t} },
		Disabled: func() driver.Driver { return prepared{New(disabled), t} },
		Runs:     does("run"), Deaf: does("deaf"), DeafSays: "deaf",
		Ends:   func(code int) map[string]any { return does("exit", fmt.Sprint(code)) },
		Prints: func(stdout, stderr string) map[string]any { return does("print", stdout, stderr) },
		Refused: []map[string]any{
			{"args": []any{"x"}}, with(does("run"), "privileged", true), with(does("run"), "cap_add", []any{"sys_admin"}), with(does("run"), "volumes", []any{"/etc:/x"}),
			with(does("run"), "command", "/no/such/program", "entrypoint", []any{"/none"}), with(does("run"), "image", "UPPER CASE"), with(does("run"), "ports", []any{"none"}),
		},
		Supervisor: isolatetest.Command(),
	})
}

// ends runs a task to its end and returns how it ended and what it printed.
func ends(t *testing.T, d *Driver, task *driver.Task) (*driver.Exit, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	h, err := d.Start(ctx, task)
	if err != nil {
		t.Fatal(err)
	}
	x, err := h.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	out := printed(t, task, logs.Stdout)
	if err := h.Release(ctx); err != nil {
		t.Error(err)
	}
	return x, out
}

// printed returns what a task has printed.
func printed(t *testing.T, task *driver.Task, stream string) string {
	t.Helper()
	dir, err := task.AllocDir.Sub(logs.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	var b strings.Builder
	err = logs.Stream(t.Context(), dir, logs.Request{Task: task.Name, Stream: stream}, func(f *op.StreamFrame) error {
		b.Write(f.Data)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A task sees its directories at their places, and what it writes is on the
// host.
func TestDirectoriesAndMounts(t *testing.T) {
	c := config(t)
	task := allocs(t)
	host := t.TempDir()
	for name, text := range map[string]string{filepath.Join(host, "f"): "volume"} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tk := task(1, with(does("cat", "/alloc/a", "/local/b", "/secrets/c", "/vol/f", "/rel/b", "/abs/b", "/named/b", "/labeled/f"), "volumes", []any{"local:/rel:ro", "/local:/abs"},
		"mount", []any{map[string]any{"type": "bind", "source": "local", "target": "/named", "readonly": true}, map[string]any{"type": "tmpfs", "target": "/ram", "tmpfs_options": []any{map[string]any{"size": 1 << 20}}}}))
	tk.Mounts = []driver.Mount{{Source: host, Destination: "/vol", ReadOnly: true}, {Source: host, Destination: "/labeled", ReadOnly: true, Propagation: "private", Label: "z"}}
	for name, text := range map[string]string{"alloc/a": "alloc", "task/local/b": "local", "task/secrets/c": "secret"} {
		if err := tk.AllocDir.Replace(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d := New(c)
	_, out := ends(t, d, tk)
	want := "/alloc/a: alloc <nil>\n/local/b: local <nil>\n/secrets/c: secret <nil>\n/vol/f: volume <nil>\n/rel/b: local <nil>\n/abs/b: local <nil>\n/named/b: local <nil>\n/labeled/f: volume <nil>\n"
	if out != want {
		t.Errorf("got %s", out)
	}
	for i, tt := range []struct {
		file string
		ok   bool
	}{{"/local/new", true}, {"/ram/x", true}, {"/vol/x", false}} {
		w := task(uint64(i+2), with(does("write", tt.file, "x"), "mount", []any{map[string]any{"type": "tmpfs", "target": "/ram"}}))
		w.Mounts = tk.Mounts
		if x, out := ends(t, d, w); x.Success() != tt.ok {
			t.Errorf("%s: %+v %s", tt.file, x, out)
		}
	}
	if b, err := os.ReadFile(filepath.Join(tk.Dir, "local", "new")); string(b) != "x" {
		t.Errorf("%q, %v", b, err)
	}
}

// No path leads out of the allocation's directory, through a link or otherwise.
func TestAdvisory_C01_PathsThatAreRefused(t *testing.T) {
	d := New(config(t))
	tk := allocs(t)(1, nil)
	if err := os.Symlink("/etc", filepath.Join(tk.Dir, "local", "link")); err != nil {
		t.Fatal(err)
	}
	for _, source := range []string{"/etc", "../../..", "local/link", "local/link/x", "../.supervise", "/local/../../../..", "/alloc/../.."} {
		for _, config := range []map[string]any{
			with(does("run"), "volumes", []any{source + ":/x"}),
			with(does("run"), "mount", []any{map[string]any{"type": "bind", "source": source, "target": "/x"}}),
		} {
			tk.Config = config
			if _, err := d.Start(t.Context(), tk); berth.KindOf(err) != berth.Denied && berth.KindOf(err) != berth.Invalid {
				t.Errorf("%s: %v", source, err)
			}
		}
	}
	if _, err := os.Stat("/etc/x"); err == nil {
		t.Error("a directory was made outside")
	}
}

// What the configuration allows is done, and it is refused by name otherwise.
func TestAdvisory_C02_C36_AllowLists(t *testing.T) {
	for key, v := range map[string]any{
		"privileged": true, "pid_mode": "host", "ipc_mode": "host", "uts_mode": "host", "userns_mode": "host", "security_opt": []any{"seccomp=unconfined"},
		"devices": []any{map[string]any{"host_path": "/dev/kmsg"}}, "cap_add": []any{"CAP_NET_ADMIN"}, "runtime": "runsc",
	} {
		closed, open := New(config(t)), config(t)
		open.AllowPrivileged, open.Volumes, open.AllowCaps, open.AllowRuntimes = true, true, []string{"net_admin"}, []string{"runsc"}
		vals, err := driverconfig.Docker.Read(with(does("run"), key, v))
		if err != nil {
			t.Fatal(err)
		}
		if err := closed.allowed(vals); err == nil || !strings.Contains(err.Error(), "config."+key) {
			t.Errorf("%s: %v", key, err)
		}
		if err := New(open).allowed(vals); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// Ports of the group are published on the host.
func TestPorts(t *testing.T) {
	d := New(config(t))
	port, err := freeport.Take()
	if err != nil {
		t.Fatal(err)
	}
	tk := allocs(t)(1, with(does("serve", "8080", "hello"), "ports", []any{"http"}))
	tk.Ports = []berth.PortMapping{{Label: "http", Value: port, To: 8080, HostIP: "127.0.0.1"}}
	tk.Env = append(tk.Env, "VERSION=v1")
	h, err := d.Start(t.Context(), tk)
	if err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(3 * time.Minute)
	for {
		resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d", port))
		if err == nil {
			b := make([]byte, 100)
			n, _ := resp.Body.Read(b)
			resp.Body.Close()
			if got := string(b[:n]); got != "hello v1\n" {
				t.Errorf("%q", got)
			}
			break
		}
		if time.Now().After(until) {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if u, err := h.Usage(t.Context()); err != nil || u.Processes == 0 || u.Memory == 0 {
		t.Errorf("%+v, %v", u, err)
	}
}

// A container that takes more memory than it may is killed, and the exit says
// so.
func TestOutOfMemory(t *testing.T) {
	tk := allocs(t)(1, does("eat"))
	tk.Limits.Memory = 32 << 20
	x, _ := ends(t, New(config(t)), tk)
	if x.Success() || !x.OOMKilled {
		t.Errorf("%+v", x)
	}
}

// A command beside a task has its streams, its exit code and, with a terminal,
// one stream; it ends with its context.
func TestExec(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	h, err := New(config(t)).Start(ctx, allocs(t)(1, does("run")))
	if err != nil {
		t.Fatal(err)
	}
	x := h.(driver.Execer)
	var out, complaint strings.Builder
	code, err := x.Exec(ctx, &driver.Exec{Command: []string{dockertest.Program, "echo"}, Stdin: strings.NewReader("abc"), Stdout: &out, Stderr: &complaint})
	if err != nil || code != 3 || out.String() != "got abc" || complaint.String() != "bye" {
		t.Errorf("%d %v %q %q", code, err, &out, &complaint)
	}
	out.Reset()
	sizes := make(chan driver.TerminalSize, 1)
	sizes <- driver.TerminalSize{Rows: 50, Columns: 100}
	code, err = x.Exec(ctx, &driver.Exec{Command: []string{dockertest.Program, "print", "one ", "two"}, TTY: true, Stdout: &out, Resize: sizes})
	if err != nil || code != 0 || out.String() != "one two" {
		t.Errorf("%d %v %q", code, err, &out)
	}
	if _, err := x.Exec(ctx, &driver.Exec{Command: []string{"/none"}}); err == nil {
		t.Log("the engine reports a missing program by its exit code")
	}
	short, end := context.WithTimeout(ctx, 200*time.Millisecond)
	defer end()
	if _, err := x.Exec(short, &driver.Exec{Command: []string{dockertest.Program, "run"}}); err == nil {
		t.Error("it ended by itself")
	}
	alone(t, h)
}

// A command ends with its context even while the engine is starting it.
func TestExecEndsWhileItStarts(t *testing.T) {
	h, err := New(config(t)).Start(t.Context(), allocs(t)(1, does("run")))
	if err != nil {
		t.Fatal(err)
	}
	for after := time.Duration(0); after < 120*time.Millisecond; after += 4 * time.Millisecond {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		if _, err := h.(driver.Execer).Exec(ctx, &driver.Exec{Command: []string{dockertest.Program, "run"}}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %s: %v", after, err)
		}
		cancel()
	}
	alone(t, h)
}

// alone waits until the task's own process is the only one of its container.
func alone(t *testing.T, h driver.Handle) {
	t.Helper()
	eventually.True(t, "the commands have ended", func() bool {
		top, err := engine.Client.ContainerTop(t.Context(), h.(*handle).id, client.ContainerTopOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return len(top.Processes) == 1
	})
}
