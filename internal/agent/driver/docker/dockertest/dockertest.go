// Package dockertest runs a Docker engine for the tests of a package: a dockerd
// of its own, with its own data, socket and bridge, and an image made of a small
// program. Everything is gone at the end.
package dockertest

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// Image is the image that an engine has. Its entrypoint is the program in task;
// it has nothing else.
const Image = "berth-test:1"

// Engine is an engine that runs.
type Engine struct {
	Host   string // its endpoint
	Client *client.Client

	// StopsAll has containers end when the engine's process does: it is started
	// without live restore.
	StopsAll bool

	dir, bridge string
	cmd         *exec.Cmd
	ended       chan struct{}
	log         *os.File
}

// startTime is how long an engine may take to answer. On an idle machine it
// takes one second.
const startTime = 3 * time.Minute

// downTime is how long an engine may take to end before it is killed. It gives its
// own parts 15 s.
const downTime = time.Minute

// Run runs the tests of a package with an engine, which it hands to ready. If
// this is not root, ready gets nil and the tests skip with [Need].
func Run(m *testing.M, ready func(*Engine)) int {
	e, err := Start()
	if err != nil && !errors.Is(err, errCannot) {
		fmt.Fprintln(os.Stderr, "dockertest:", err)
		return 1
	}
	if err == nil {
		defer func() {
			if err := e.End(); err != nil {
				fmt.Fprintln(os.Stderr, "dockertest:", err)
			}
		}()
	} else {
		fmt.Fprintln(os.Stderr, "dockertest: tests of the engine are skipped:", err)
	}
	ready(e)
	return m.Run()
}

// errCannot says that this machine cannot run an engine.
var errCannot = errors.New("no engine")

// Need returns the engine. Without one the tests do not run as root, and the
// test is skipped.
func Need(t testing.TB, e *Engine) *Engine {
	t.Helper()
	if e == nil {
		t.Skip("needs root")
	}
	return e
}

// Start starts an engine and gives it [Image].
func Start() (*Engine, error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: it needs root", errCannot)
	}
	path, err := exec.LookPath("dockerd")
	if err != nil {
		return nil, errors.New("dockerd is not installed: make deps installs it")
	}
	dir, err := os.MkdirTemp("", "dockertest")
	if err != nil {
		return nil, err
	}
	e := &Engine{dir: dir, Host: "unix://" + filepath.Join(dir, "sock")}
	if err := e.makeBridge(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := e.Up(path); err != nil {
		return nil, errors.Join(err, e.End())
	}
	if err := e.importSelf(); err != nil {
		return nil, errors.Join(err, e.End())
	}
	return e, nil
}

// makeBridge makes the network of the engine's containers, from those that
// documentation has: nothing else has its addresses.
func (e *Engine) makeBridge() error {
	e.bridge = fmt.Sprintf("bd%d", os.Getpid())
	for _, args := range [][]string{
		{"link", "add", e.bridge, "type", "bridge"},
		{"addr", "add", fmt.Sprintf("198.18.%d.1/24", os.Getpid()%250), "dev", e.bridge},
		{"link", "set", e.bridge, "up"},
	} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	return nil
}

// Up starts the engine's process and waits until it answers. path is that of
// dockerd, "" to look for it.
func (e *Engine) Up(path string) (err error) {
	if path == "" {
		path = "dockerd"
	}
	if e.log, err = os.OpenFile(filepath.Join(e.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	at := func(name string) string { return filepath.Join(e.dir, name) }
	e.cmd = exec.Command(path, "--data-root", at("data"), "--exec-root", at("exec"), "--pidfile", at("pid"), "--host", e.Host, "--config-file", at("none.json"),
		"--iptables=false", "--ip6tables=false", "--ip-masq=false", "--ip-forward=false", "--bridge", e.bridge, fmt.Sprint("--live-restore=", !e.StopsAll))
	e.cmd.Stdout, e.cmd.Stderr = e.log, e.log
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := os.WriteFile(at("none.json"), []byte("{}"), 0o600); err != nil {
		return err
	}
	if err := e.cmd.Start(); err != nil {
		return err
	}
	e.ended = make(chan struct{})
	go func() { _ = e.cmd.Wait(); close(e.ended) }()
	if e.Client == nil {
		if e.Client, err = client.New(client.WithHost(e.Host)); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	for {
		if _, err = e.Client.Ping(ctx, client.PingOptions{}); err == nil {
			return nil
		}
		select {
		case <-e.ended:
			return fmt.Errorf("dockerd has ended:\n%s", e.Log())
		case <-ctx.Done():
			return fmt.Errorf("dockerd does not answer: %w\n%s", err, e.Log())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Down ends the engine's process. Containers run on, unless StopsAll was set when
// it was started.
func (e *Engine) Down() error {
	if e.cmd == nil {
		return nil
	}
	_ = e.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-e.ended:
	case <-time.After(downTime): // dockerd was once seen to take no notice of the signal
		_ = e.cmd.Process.Kill()
		<-e.ended
		e.endContainerd()
	}
	e.cmd = nil
	return e.log.Close()
}

// endContainerd kills the containerd of an engine that was killed: the next one
// would take it for its own while it ends.
func (e *Engine) endContainerd() {
	file := filepath.Join(e.dir, "exec", "containerd", "containerd.pid")
	b, err := os.ReadFile(file)
	if err != nil {
		return
	}
	if pid, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil && pid > 1 {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	_ = os.Remove(file)
}

// Log returns what the engine has logged.
func (e *Engine) Log() string {
	b, _ := os.ReadFile(filepath.Join(e.dir, "log"))
	return string(b)
}

// End removes all containers, ends the engine and removes all that it had.
func (e *Engine) End() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	var errs []error
	if e.cmd != nil {
		list, err := e.Client.ContainerList(ctx, client.ContainerListOptions{All: true})
		errs = append(errs, err)
		for _, c := range list.Items {
			errs = append(errs, e.Remove(ctx, c.ID))
		}
	}
	errs = append(errs, e.Down(), e.endShims(), e.unmount())
	if out, err := exec.Command("ip", "link", "del", e.bridge).CombinedOutput(); err != nil {
		errs = append(errs, fmt.Errorf("ip link del: %w: %s", err, out))
	}
	return errors.Join(append(errs, os.RemoveAll(e.dir))...)
}

// Remove removes a container. If the engine is removing it already, as for an
// agent that has ended meanwhile, Remove waits until that is done.
func (e *Engine) Remove(ctx context.Context, id string) error {
	_, err := e.Client.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if errdefs.IsConflict(err) {
		removed := e.Client.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: container.WaitConditionRemoved})
		select {
		case <-removed.Result:
			return nil
		case err = <-removed.Error:
		}
	}
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// endShims ends the processes that stood beside containers. An engine that was
// restarted while containers ended forgets some.
func (e *Engine) endShims() error {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		args, _ := os.ReadFile(path) // it may have ended
		if !bytes.Contains(args, []byte("containerd-shim")) || !bytes.Contains(args, []byte("\x00"+e.dir+"/")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return err
}

// unmount unmounts what is left below the engine's directory.
func (e *Engine) unmount() error {
	b, err := os.ReadFile("/proc/self/mountinfo")
	var errs []error
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], e.dir+"/") {
			errs = append([]error{syscall.Unmount(f[4], syscall.MNT_DETACH)}, errs...)
		}
	}
	return errors.Join(append(errs, err)...)
}

// importSelf makes [Image] of this program.
func (e *Engine) importSelf() error {
	b, err := Archive()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	return e.Import(ctx, Image, b)
}

// Import makes an image of a tar archive of its files, whose entrypoint is [Program].
func (e *Engine) Import(ctx context.Context, name string, files []byte) error {
	out, err := e.Client.ImageImport(ctx, client.ImageImportSource{Source: bytes.NewReader(files), SourceName: "-"}, name, client.ImageImportOptions{
		Changes: []string{`ENTRYPOINT ["` + Program + `"]`, `ENV PATH=/bin IMAGE=` + name},
	})
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, out)
	return errors.Join(err, out.Close())
}

// Containers lists the names of an engine's containers, also of those that have
// ended.
func Containers(ctx context.Context, c *client.Client) (out []string, err error) {
	list, err := c.ContainerList(ctx, client.ContainerListOptions{All: true})
	for _, x := range list.Items {
		out = append(out, x.Names...)
	}
	return out, err
}

// Program is the path of the program in [Image].
const Program = "/bin/task"

// Archive returns an archive of the image's files: the static program in task.
func Archive() ([]byte, error) {
	dir, err := os.MkdirTemp("", "dockertest-build")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	bin := filepath.Join(dir, "task")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", bin, "berth/internal/agent/driver/docker/dockertest/task")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w: %s", err, out)
	}
	b, err := os.ReadFile(bin)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, d := range []string{"bin/", "tmp/", "etc/"} {
		if err := w.WriteHeader(&tar.Header{Name: d, Mode: 0o755, Typeflag: tar.TypeDir}); err != nil {
			return nil, err
		}
	}
	err = w.WriteHeader(&tar.Header{Name: "bin/task", Mode: 0o755, Size: int64(len(b))})
	if err == nil {
		_, err = w.Write(b)
	}
	err = errors.Join(err, w.Close())
	return out.Bytes(), err
}
