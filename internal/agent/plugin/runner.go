package plugin

import (
	"context"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
)

// process runs a plugin's program for go-plugin. It ends with the agent, however
// that ends, and closes done when the program has ended.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr io.ReadCloser
	done           chan struct{}
	err            error // of Wait, once done is closed
}

// newProcess prepares the program. env is what go-plugin wants of it besides.
func newProcess(path string, args, env []string) (*process, error) {
	p := &process{cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.cmd.Env = env
	p.cmd.Dir = "/"
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
	// Pipes of our own: Wait must not close them before all is read.
	var err error
	var out, errs *os.File
	if p.stdout, out, err = pipe(); err != nil {
		return nil, err
	}
	if p.stderr, errs, err = pipe(); err != nil {
		_ = p.stdout.Close()
		_ = out.Close()
		return nil, err
	}
	p.cmd.Stdout, p.cmd.Stderr = out, errs
	return p, nil
}

// pipe returns the ends of a pipe.
func pipe() (io.ReadCloser, *os.File, error) {
	r, w, err := os.Pipe()
	return r, w, err
}

// Start implements go-plugin's runner. The kernel kills a process with a death
// signal when the thread that started it ends, so that thread is kept until the
// process has ended.
func (p *process) Start(context.Context) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		_ = p.cmd.Stdout.(*os.File).Close()
		_ = p.cmd.Stderr.(*os.File).Close()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.done)
		}
	}()
	err := <-started
	if err != nil {
		_ = p.stdout.Close()
		_ = p.stderr.Close()
	}
	return err
}

// Wait implements go-plugin's runner.
func (p *process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Kill implements go-plugin's runner.
func (p *process) Kill(context.Context) error {
	select {
	case <-p.done:
		return nil
	default:
		return p.cmd.Process.Kill()
	}
}

// Stdout implements go-plugin's runner.
func (p *process) Stdout() io.ReadCloser { return p.stdout }

// Stderr implements go-plugin's runner.
func (p *process) Stderr() io.ReadCloser { return p.stderr }

// Name implements go-plugin's runner.
func (p *process) Name() string { return p.cmd.Path }

// ID implements go-plugin's runner.
func (p *process) ID() string {
	if p.cmd.Process == nil {
		return ""
	}
	return strconv.Itoa(p.cmd.Process.Pid)
}

// Diagnose implements go-plugin's runner.
func (p *process) Diagnose(context.Context) string {
	return "it must be a program for this machine that speaks the protocol of task drivers and device plugins"
}

// PluginToHost implements go-plugin's runner: addresses are the same on both
// sides.
func (p *process) PluginToHost(network, addr string) (string, string, error) {
	return network, addr, nil
}

// HostToPlugin implements go-plugin's runner.
func (p *process) HostToPlugin(network, addr string) (string, string, error) {
	return network, addr, nil
}
