package external

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/plugin"
	wire "berth/internal/agent/plugin/pluginwire"
)

// Exec implements [driver.Execer].
func (h *handle) Exec(ctx context.Context, e *driver.Exec) (int, error) {
	if len(e.Command) == 0 {
		return 0, berth.Errorf(berth.Invalid, "exec: no command")
	}
	c, err := h.conn(ctx)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := plugin.OpenStream[wire.ExecRequest, wire.ExecResponse](ctx, c, wire.DriverService, "ExecTaskStreaming")
	if err != nil {
		return 0, fmt.Errorf("exec: %w", err)
	}
	var sending sync.Mutex // a stream takes one message at a time
	send := func(r *wire.ExecRequest) error {
		sending.Lock()
		defer sending.Unlock()
		return s.Send(r)
	}
	if err := send(&wire.ExecRequest{Setup: &wire.ExecSetup{TaskID: h.id, Command: e.Command, TTY: e.TTY}}); err != nil {
		return 0, fmt.Errorf("exec: %w", err)
	}
	go input(e.Stdin, send)
	if e.Resize != nil {
		go func() {
			for {
				select {
				case <-ctx.Done():
					return
				case size, ok := <-e.Resize:
					if !ok || send(&wire.ExecRequest{Size: &wire.ExecSize{Height: int32(size.Rows), Width: int32(size.Columns)}}) != nil {
						return
					}
				}
			}
		}()
	}
	for {
		got, err := s.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("the driver does not say how the command ended")
			}
			return 0, fmt.Errorf("exec: %w", err)
		}
		for _, o := range []struct {
			from *wire.ExecIO
			to   io.Writer
		}{{got.Stdout, e.Stdout}, {got.Stderr, e.Stderr}} {
			if o.from != nil && len(o.from.Data) > 0 && o.to != nil {
				if _, err := o.to.Write(o.from.Data); err != nil {
					return 0, err
				}
			}
		}
		if got.Exited {
			if got.Result == nil {
				return 0, errors.New("exec: the driver does not say how the command ended")
			}
			return int(got.Result.Code), nil
		}
	}
}

// input sends the input of a command, and its end. It ends with its reader, or
// when the stream has ended.
func input(r io.Reader, send func(*wire.ExecRequest) error) {
	buf := make([]byte, 32<<10)
	for r != nil {
		n, err := r.Read(buf)
		if n > 0 && send(&wire.ExecRequest{Stdin: &wire.ExecIO{Data: append([]byte(nil), buf[:n]...)}}) != nil {
			return
		}
		if err != nil {
			break
		}
	}
	_ = send(&wire.ExecRequest{Stdin: &wire.ExecIO{Close: true}})
}
