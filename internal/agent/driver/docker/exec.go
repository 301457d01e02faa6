package docker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/moby/moby/client"

	"berth"
	"berth/internal/agent/driver"
)

// Exec implements [driver.Execer].
func (h *handle) Exec(ctx context.Context, e *driver.Exec) (int, error) {
	if len(e.Command) == 0 {
		return 0, berth.Errorf(berth.Invalid, "exec: no command")
	}
	id, conn, err := h.startExec(ctx, e)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	if e.Stdin != nil {
		go func() { // ends with its reader, or when the connection is closed
			_, _ = io.Copy(conn.Conn, e.Stdin)
			_ = conn.CloseWrite()
		}()
	}
	if e.TTY && e.Resize != nil {
		go h.resize(inner, id, e.Resize)
	}
	copied := make(chan error, 1)
	go func() {
		if e.TTY {
			_, err := io.Copy(orDiscard(e.Stdout), conn.Reader)
			copied <- err
			return
		}
		copied <- demultiplex(orDiscard(e.Stdout), orDiscard(e.Stderr), conn.Reader)
	}()
	select {
	case err = <-copied:
		close(copied)
	case <-ctx.Done():
		h.endExec(ctx, id, copied)
		return 0, ctx.Err()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		h.endExec(ctx, id, copied)
		return 0, fmt.Errorf("exec: its output: %w", err)
	}
	code, err := h.execExit(ctx, id)
	if err != nil {
		h.endExec(ctx, id, copied)
	}
	return code, err
}

// startExec has the engine start a command, and returns the command's ID and
// its streams. An engine that has been asked to start a command starts it even if
// the caller has left. So from then on startExec does not end with ctx: the caller
// needs the streams to tell when there is a command to kill.
func (h *handle) startExec(ctx context.Context, e *driver.Exec) (string, client.ExecAttachResult, error) {
	engine, none := h.d.engine, client.ExecAttachResult{}
	made, err := engine.ExecCreate(ctx, h.id, client.ExecCreateOptions{
		TTY: e.TTY, AttachStdin: e.Stdin != nil, AttachStdout: true, AttachStderr: !e.TTY, Cmd: e.Command,
	})
	if err != nil {
		return "", none, fmt.Errorf("exec: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return "", none, err
	}
	starting, cancel := late(ctx)
	defer cancel()
	conn, err := engine.ExecAttach(starting, made.ID, client.ExecAttachOptions{TTY: e.TTY})
	if err != nil {
		ended := make(chan error)
		close(ended)
		h.endExec(ctx, made.ID, ended)
		return "", none, fmt.Errorf("exec: %w", err)
	}
	return made.ID, conn, nil
}

// orDiscard returns w, or a writer that drops everything.
func orDiscard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// resize passes on the sizes of a terminal.
func (h *handle) resize(ctx context.Context, id string, sizes <-chan driver.TerminalSize) {
	for {
		select {
		case s, ok := <-sizes:
			if !ok {
				return
			}
			_, err := h.d.engine.ExecResize(ctx, id, client.ExecResizeOptions{Height: uint(s.Rows), Width: uint(s.Columns)})
			if err != nil && ctx.Err() == nil {
				h.d.log.Debug("a terminal cannot be resized", "container", h.id, "error", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// execExit returns the exit code of a command whose output has ended. The
// command may run on without it.
func (h *handle) execExit(ctx context.Context, id string) (int, error) {
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		got, err := h.d.engine.ExecInspect(ctx, id, client.ExecInspectOptions{})
		if err != nil {
			return 0, fmt.Errorf("exec: %w", err)
		}
		if !got.Running {
			return got.ExitCode, nil
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// endExec kills a command. If the engine is still starting it, endExec waits for
// up to a minute until the command runs and can be killed. Once output has a
// result or is closed, a command that does not run has ended or failed to start.
func (h *handle) endExec(ctx context.Context, id string, output <-chan error) {
	ctx, cancel := late(ctx)
	defer cancel()
	for wait, over := 5*time.Millisecond, false; ; wait = min(2*wait, time.Second) {
		select {
		case <-output:
			over = true
		default:
		}
		got, err := h.d.engine.ExecInspect(ctx, id, client.ExecInspectOptions{})
		if err == nil && got.Running && got.PID > 1 {
			h.killExec(got.PID)
			return
		}
		if starting := err == nil && got.Running; gone(err) || over && !starting {
			return
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			h.d.log.Warn("it is unknown whether a command in a container runs on: the engine does not say", "container", h.id, "error", err)
			return
		}
	}
}

// killExec kills a command in the container. The engine has no call for it, so
// its process is killed on the host, if it is one of the container.
func (h *handle) killExec(pid int) {
	in, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil || !strings.Contains(string(in), h.id) {
		h.d.log.Warn("a command in a container cannot be ended: its process is not on this machine", "container", h.id)
		return
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		h.d.log.Warn("a command in a container cannot be ended", "container", h.id, "error", err)
	}
}

// demultiplex splits the two streams that an engine sends in frames.
func demultiplex(stdout, stderr io.Writer, r io.Reader) error {
	var head [8]byte
	for {
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return err
		}
		w := stdout
		if head[0] == 2 {
			w = stderr
		}
		if _, err := io.CopyN(w, r, int64(binary.BigEndian.Uint32(head[4:]))); err != nil {
			return err
		}
	}
}
