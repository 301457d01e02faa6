// Package podmantest runs podman's service for the tests of a package, with
// storage, socket and networks of its own, and the image of package dockertest.
// Everything is gone at the end.
package podmantest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"berth/internal/agent/driver/docker/dockertest"
	"berth/internal/freeport"
)

// Service is a service that runs.
type Service struct {
	Path     string // of its socket
	Registry string // address of a registry that needs no certificate; nothing serves there
	Client   *client.Client

	dir   string
	cmd   *exec.Cmd
	ended chan struct{}
}

// startTime is how long the service may take to answer or to end. On an idle
// machine it takes a tenth of a second.
const startTime = 3 * time.Minute

// Run runs the tests of a package with a service, which it hands to ready. Where
// this is not root, ready gets nil and the tests skip with [Need].
func Run(m *testing.M, ready func(*Service)) int {
	if os.Geteuid() != 0 {
		ready(nil)
		return m.Run()
	}
	s, err := Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "podmantest:", err)
		return 1
	}
	defer func() {
		if err := s.End(); err != nil {
			fmt.Fprintln(os.Stderr, "podmantest:", err)
		}
	}()
	ready(s)
	return m.Run()
}

// Need returns the service. It skips the test if there is no service, because the
// tests do not run as root.
func Need(t testing.TB, s *Service) *Service {
	t.Helper()
	if s == nil {
		t.Skip("needs root")
	}
	return s
}

// Start starts a service and gives it [dockertest.Image].
func Start() (*Service, error) {
	dir, err := os.MkdirTemp("", "podmantest")
	if err != nil {
		return nil, err
	}
	s := &Service{dir: dir, Path: filepath.Join(dir, "sock")}
	port, err := freeport.Take()
	if err != nil {
		return nil, errors.Join(err, s.End())
	}
	s.Registry = fmt.Sprintf("127.0.0.1:%d", port)
	if err := s.Up(); err != nil {
		return nil, errors.Join(err, s.End())
	}
	files, err := dockertest.Archive()
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), startTime)
		defer cancel()
		err = (&dockertest.Engine{Client: s.Client}).Import(ctx, dockertest.Image, files)
	}
	if err != nil {
		return nil, errors.Join(err, s.End())
	}
	return s, nil
}

// settings are the service's. A test may have fewer rights than containers get
// by default; addresses are those that documentation has.
const settings = `
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[network]
default_subnet = "198.19.%d.0/24"
`

// Up starts the service's process and waits until it answers.
func (s *Service) Up() (err error) {
	at := func(name string) string { return filepath.Join(s.dir, name) }
	if err := os.WriteFile(at("containers.conf"), fmt.Appendf(nil, settings, os.Getpid()%250), 0o600); err != nil {
		return err
	}
	registries := fmt.Sprintf("[[registry]]\nlocation = %q\ninsecure = true\n", s.Registry)
	if err := os.WriteFile(at("registries.conf"), []byte(registries), 0o600); err != nil {
		return err
	}
	runtime := "crun"
	if _, err := exec.LookPath("runc"); err == nil { // also where cgroups are of both versions
		runtime = "runc"
	}
	if err := os.RemoveAll(s.Path); err != nil { // of a service before
		return err
	}
	log, err := os.OpenFile(at("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd = exec.Command("podman", "--root", at("graph"), "--runroot", at("run"), "--tmpdir", at("tmp"), "--volumepath", at("volumes"), "--network-config-dir", at("networks"),
		"--storage-driver", "vfs", "--cgroup-manager", "cgroupfs", "--events-backend", "file", "--runtime", runtime, "system", "service", "--time=0", "unix://"+s.Path)
	s.cmd.Env = append(os.Environ(), "CONTAINERS_CONF="+at("containers.conf"), "CONTAINERS_REGISTRIES_CONF="+at("registries.conf"))
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = s.dir, log, log // its helper writes there
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.cmd.Start(); err != nil {
		s.cmd = nil
		return fmt.Errorf("%w; make deps installs podman", err)
	}
	ended := make(chan struct{})
	s.ended = ended
	go func(cmd *exec.Cmd) { _ = cmd.Wait(); close(ended) }(s.cmd)
	if s.Client == nil {
		if s.Client, err = client.New(client.WithHost("unix://" + s.Path)); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	for {
		if _, err = s.Client.Ping(ctx, client.PingOptions{}); err == nil {
			return nil
		}
		select {
		case <-ended:
			return fmt.Errorf("podman has ended:\n%s", s.Log())
		case <-ctx.Done():
			return fmt.Errorf("podman does not answer: %w\n%s", err, s.Log())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Down ends the service's process. Containers run on.
func (s *Service) Down() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(startTime):
		_ = s.cmd.Process.Kill()
		<-s.ended
	}
	s.cmd = nil
}

// Log returns what the service has logged.
func (s *Service) Log() string {
	b, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	return string(b)
}

// endMonitors kills what watches over commands beside tasks: podman keeps it for
// five minutes after their end.
func (s *Service) endMonitors() error {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range all {
		line, e := os.ReadFile(p)
		if e != nil || !strings.HasPrefix(filepath.Base(strings.SplitN(string(line), "\x00", 2)[0]), "conmon") || !strings.Contains(string(line), s.dir+"/") {
			continue
		}
		if pid, e := strconv.Atoi(filepath.Base(filepath.Dir(p))); e == nil {
			if e := syscall.Kill(pid, syscall.SIGKILL); e != nil && !errors.Is(e, syscall.ESRCH) {
				err = errors.Join(err, e)
			}
		}
	}
	return err
}

// End removes all containers, ends the service and removes all that it had.
func (s *Service) End() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	var errs []error
	if s.cmd != nil {
		list, err := s.Client.ContainerList(ctx, client.ContainerListOptions{All: true})
		errs = append(errs, err)
		for _, c := range list.Items {
			_, err := s.Client.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
			errs = append(errs, err)
		}
	}
	s.Down()
	errs = append(errs, s.endMonitors())
	b, err := os.ReadFile("/proc/self/mountinfo")
	errs = append(errs, err)
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], s.dir+"/") {
			errs = append([]error{syscall.Unmount(f[4], syscall.MNT_DETACH)}, errs...)
		}
	}
	return errors.Join(append(errs, os.RemoveAll(s.dir))...)
}
