package podman

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
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
	"berth/internal/agent/driver/podman/podmantest"
	"berth/internal/agent/isolate/isolatetest"
	"berth/internal/agent/logs"
	"berth/internal/agent/supervise"
	"berth/internal/eventually"
	"berth/internal/freeport"
)

// service is what all tests of the package share; nil where there can be none.
var service *podmantest.Service

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "supervise" {
		os.Exit(supervise.Main(os.Args[2:]))
	}
	os.Exit(podmantest.Run(m, func(s *podmantest.Service) { service = s }))
}

// config returns the driver's configuration for the service of the tests.
func config(t *testing.T) Config {
	c := Defaults()
	c.Sockets = map[string]string{DefaultSocket: podmantest.Need(t, service).Path}
	c.Engine.Node, c.Engine.Dangling = "node-of-tests", false
	c.Engine.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
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

// prepared is a driver that completes the tasks of the shared suite.
type prepared struct {
	*Driver
	t *testing.T
}

func (p prepared) Start(ctx context.Context, t *driver.Task) (driver.Handle, error) {
	prepare(p.t, t)
	return p.Driver.Start(ctx, t)
}

// prepare gives a task what the agent gives it, and has its containers removed
// at the end of the test.
func prepare(t *testing.T, task *driver.Task) {
	task.Progress, task.KillSignal = func(string) {}, syscall.SIGTERM
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		list, err := service.Client.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", "com.hashicorp.nomad.alloc_id="+task.AllocID)})
		if err != nil {
			t.Error(err)
		}
		for _, c := range list.Items {
			if _, err := service.Client.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true}); err != nil {
				t.Error(err)
			}
		}
	})
}

// newTask makes a task of an allocation of its own.
func newTask(t *testing.T, config map[string]any) *driver.Task {
	t.Helper()
	s := drivertest.Driver{Supervisor: isolatetest.Command()}
	task := s.Alloc(t)(1, config)
	prepare(t, task)
	return task
}

func TestContract(t *testing.T) {
	c := config(t)
	disabled := c
	disabled.Engine.Disabled = true
	drivertest.Run(t, drivertest.Driver{
		New:      func() driver.Driver { return prepared{New(c), t} },
		Disabled: func() driver.Driver { return prepared{New(disabled), t} },
		Runs:     does("run"), Deaf: does("deaf"), DeafSays: "deaf",
		Ends:   func(code int) map[string]any { return does("exit", fmt.Sprint(code)) },
		Prints: func(stdout, stderr string) map[string]any { return does("print", stdout, stderr) },
		Refused: []map[string]any{
			{"args": []any{"x"}}, with(does("run"), "privileged", true), with(does("run"), "cap_add", []any{"sys_admin"}), with(does("run"), "volumes", []any{"/etc:/x"}),
			with(does("run"), "image", "UPPER CASE"), with(does("run"), "ports", []any{"none"}),
			with(does("run"), "socket", "none"), with(does("run"), "network_mode", "ns:/proc/1/ns/net"), with(does("run"), "devices", []any{"/dev/kmsg"}),
			with(does("run"), "security_opt", []any{"seccomp=unconfined"}), with(does("run"), "selinux_opts", []any{"disable"}),
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
	out := drivertest.Output(t, task, logs.Stdout)
	if err := h.Release(ctx); err != nil {
		t.Error(err)
	}
	return x, out
}

// A task sees its directories at their places, its volumes, and what its config
// asks for.
func TestFiles(t *testing.T) {
	volume := t.TempDir()
	task := newTask(t, with(does("cat", "/alloc/a", "b", "/secrets/c", "/vol/f", "/rel/b", "/proc/mounts"),
		"working_dir", "/local", "volumes", []any{"local:/rel:ro"}, "tmpfs", []any{"/scratch:size=5m", "/more"}, "readonly_rootfs", true, "shm_size", "7m"))
	task.Mounts = []driver.Mount{{Source: volume, Destination: "/vol", ReadOnly: true}}
	if err := os.WriteFile(filepath.Join(volume, "f"), []byte("volume"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"alloc/a": "alloc", "task/local/b": "local", "task/secrets/c": "secret"} {
		if err := task.AllocDir.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := task.AllocDir.Replace(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	x, out := ends(t, New(config(t)), task)
	if !x.Success() {
		t.Errorf("%+v", x)
	}
	for _, want := range []string{"/alloc/a: alloc <nil>", "\nb: local <nil>", "/secrets/c: secret <nil>", "/vol/f: volume <nil>", "/rel/b: local <nil>", "/scratch tmpfs", "size=5120k", "/more tmpfs", "size=7168k"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > 3 && (f[1] == "/" || f[1] == "/vol" || f[1] == "/rel") && !strings.HasPrefix(f[3], "ro") {
			t.Errorf("not read-only: %s", line)
		}
	}
}

// All output is kept as it is: long lines, and what ends without a line's end.
func TestOutputIsExact(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 4000) // more than podman's longest message
	for _, text := range []string{"a\n\nb", long + "\n" + long, "x\r\ny\n"} {
		if _, out := ends(t, New(config(t)), newTask(t, does("print", text))); out != text {
			t.Errorf("got %d bytes, want %d: %.100q", len(out), len(text), out)
		}
	}
}

// Ports of the group are published on the host, and what runs tells its usage.
func TestPorts(t *testing.T) {
	port, err := freeport.Take()
	if err != nil {
		t.Fatal(err)
	}
	task := newTask(t, with(does("serve", "8080", "hello"), "ports", []any{"http"}))
	task.Ports = []berth.PortMapping{{Label: "http", Value: port, To: 8080, HostIP: "127.0.0.1"}}
	task.Env = append(task.Env, "VERSION=v1")
	h, err := New(config(t)).Start(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the port answers", func() bool {
		resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d", port))
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return err == nil && string(b) == "hello v1\n"
	})
	if u, err := h.Usage(t.Context()); err != nil || u.Processes == 0 || u.Memory == 0 || u.CPU == 0 {
		t.Errorf("%+v, %v", u, err)
	}
}

// A container that takes more memory than it may is killed. podman tells why
// since version 4.4, which Debian 12 does not have.
func TestOutOfMemory(t *testing.T) {
	task := newTask(t, does("eat"))
	task.Limits.Memory = 32 << 20
	if x, _ := ends(t, New(config(t)), task); x.Signal != int(syscall.SIGKILL) || x.Success() {
		t.Errorf("%+v", x)
	}
}

// A task joins the network of its group, with its names and its resolver.
func TestNetworkOfAGroup(t *testing.T) {
	c := config(t)
	name := fmt.Sprintf("podmantest%d", os.Getpid())
	ip(t, "netns", "add", name)
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", name).Run() })
	ip(t, "-n", name, "link", "add", "berthprobe", "type", "bridge")
	task := newTask(t, with(does("cat", "/proc/self/net/dev", "/etc/resolv.conf", "/etc/hosts", "/proc/sys/kernel/hostname"), "ports", []any{"http"}))
	task.Ports = []berth.PortMapping{{Label: "http", Value: 1, To: 8080}}
	task.Network = &driver.Network{Mode: "bridge", Namespace: "/run/netns/" + name, Hostname: "front", Hosts: map[string]string{"db.example": "192.0.2.7"},
		DNS: &berth.DNSConfig{Servers: []string{"192.0.2.53"}, Searches: []string{"berth.example"}}}
	x, out := ends(t, New(c), task)
	if !x.Success() {
		t.Errorf("%+v", x)
	}
	for _, want := range []string{"berthprobe:", "nameserver 192.0.2.53", "search berth.example", "192.0.2.7\tdb.example", "hostname: front"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}

// ip runs the program ip.
func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %v: %v: %s", args, err, out)
	}
}

// A task joins the network of another of its group.
func TestNetworkOfAnotherTask(t *testing.T) {
	c := config(t)
	server := newTask(t, does("serve", "8080", "hello"))
	h, err := New(c).Start(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	second := *server
	second.Name, second.Config = "second", with(does("cat", "/proc/self/net/tcp6", "/proc/self/net/tcp"), "network_mode", "task:task")
	eventually.True(t, "the second task sees the port of the first", func() bool {
		second.Launch++
		x, out := ends(t, New(c), &second)
		return x.Success() && strings.Contains(out, ":1F90 ") // port 8080
	})
	if err := h.Stop(t.Context(), syscall.SIGKILL, 0); err != nil {
		t.Error(err)
	}
}

// A command beside a task has its streams and its exit code.
func TestExec(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	h, err := New(config(t)).Start(ctx, newTask(t, does("run")))
	if err != nil {
		t.Fatal(err)
	}
	x := h.(driver.Execer)
	var out, complaint bytes.Buffer
	code, err := x.Exec(ctx, &driver.Exec{Command: []string{dockertest.Program, "echo"}, Stdin: strings.NewReader("abc"), Stdout: &out, Stderr: &complaint})
	if err != nil || code != 3 || out.String() != "got abc" || complaint.String() != "bye" {
		t.Errorf("%d %v %q %q", code, err, &out, &complaint)
	}
	out.Reset()
	sizes := make(chan driver.TerminalSize, 1)
	sizes <- driver.TerminalSize{Rows: 50, Columns: 100}
	code, err = x.Exec(ctx, &driver.Exec{Command: []string{dockertest.Program, "print", "one ", "two"}, TTY: true, Stdout: &out, Resize: sizes})
	if err != nil || code != 0 || out.String() != "one two" {
		t.Errorf("terminal: %d %v %q", code, err, &out)
	}
	ran, end := context.WithCancel(ctx)
	if _, err := x.Exec(ran, &driver.Exec{Command: []string{dockertest.Program, "run"}, Stdout: writer(func([]byte) { end() })}); err == nil {
		t.Error("it ended by itself")
	}
	end()
	for after := time.Duration(0); after < 400*time.Millisecond; after += 20 * time.Millisecond { // while the engine starts it
		short, end := context.WithTimeout(ctx, after)
		if _, err := x.Exec(short, &driver.Exec{Command: []string{dockertest.Program, "run"}}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %s: %v", after, err)
		}
		end()
	}
	id := containerID(t, h)
	eventually.True(t, "the commands have ended with their contexts", func() bool { return inContainer(id) == 1 })
}

// writer is a function as an io.Writer.
type writer func([]byte)

func (w writer) Write(b []byte) (int, error) {
	w(b)
	return len(b), nil
}

// inContainer counts the processes of a container.
func inContainer(id string) (n int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cgroup")
	for _, p := range all {
		if b, err := os.ReadFile(p); err == nil && bytes.Contains(b, []byte("libpod-"+id)) {
			n++
		}
	}
	return n
}

// containerID returns the ID of a task's container from what the agent keeps.
func containerID(t *testing.T, h driver.Handle) string {
	t.Helper()
	_, rest, _ := strings.Cut(string(h.State()), `"ID":"`)
	id, _, ok := strings.Cut(rest, `"`)
	if !ok {
		t.Fatalf("%s", h.State())
	}
	return id
}

// A task runs while the service is away, its exit is found by the next, and the
// driver says so.
func TestTheServiceIsAway(t *testing.T) {
	d := New(config(t))
	task := newTask(t, does("run"))
	h, err := d.Start(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	drivertest.Printed(t, task, "running") // it handles signals now
	if info := d.Fingerprint(t.Context()); !info.Healthy {
		t.Errorf("%+v", info)
	}
	service.Down()
	info := d.Fingerprint(t.Context())
	if err := service.Up(); err != nil {
		t.Fatal(err)
	}
	if info.Healthy || !info.Detected || !strings.Contains(info.HealthDescription, "the podman engine does not answer") {
		t.Errorf("away: %+v", info)
	}
	if info := d.Fingerprint(t.Context()); !info.Healthy || info.Attributes["driver.podman.rootless"] != "false" || info.Attributes["driver.podman.version"] == "" {
		t.Errorf("back: %+v", info)
	}
	if err := h.Stop(t.Context(), syscall.SIGTERM, time.Minute); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if x, err := h.Wait(ctx); err != nil || !x.Success() {
		t.Errorf("%+v, %v", x, err)
	}
}

// A node has several sockets, and a task names one of them.
func TestSockets(t *testing.T) {
	c := config(t)
	c.Sockets = map[string]string{DefaultSocket: "/nowhere/default.sock", "app": "unix:/" + service.Path} // two slashes, as documented
	d := New(c)
	if x, _ := ends(t, d, newTask(t, with(does("exit", "0"), "socket", "app"))); !x.Success() {
		t.Errorf("%+v", x)
	}
	if _, err := d.Start(t.Context(), newTask(t, does("exit", "0"))); err == nil {
		t.Error("the default socket is not there")
	}
	info := d.Fingerprint(t.Context())
	if info.Healthy || !strings.Contains(info.HealthDescription, `socket "default"`) || info.Attributes["driver.podman.app.version"] == "" {
		t.Errorf("%+v", info)
	}
}
