package agent

import (
	"context"
	"encoding/json"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/limit"
	"berth/op"
)

// Limits of commands beside tasks.
const (
	maxExecs      = 64 // at a time, on one agent
	execHeartbeat = 10 * time.Second
	execPiece     = 32 << 10 // bytes of output in one message
)

var execsLimit = limit.Declare(limit.Info{
	Name: "commands_beside_tasks", Of: "Commands of alloc exec that run on an agent at a time", Unit: limit.Count, Default: maxExecs,
	Beyond: "429, and nothing is run",
})

// running counts what is in progress.
type running struct{ n atomic.Int64 }

// take counts one more, unless there are most. done must be called at its end.
func (r *running) take(l *limit.Limit, most int64) (done func(), err error) {
	n := r.n.Add(1)
	l.Use(min(n, most), most)
	if n > most {
		r.n.Add(-1)
		l.Refuse()
		return nil, berth.Errorf(berth.Limited, "this agent has %d of these already: try again later", most)
	}
	return func() { r.n.Add(-1) }, nil
}

// exec runs a command beside a task for a caller. It ends with the command, when
// the task ends, or when the caller leaves.
func (a *Agent) exec(ctx context.Context, q *op.ExecTask, from op.Incoming) error {
	words, err := q.Words()
	if err != nil {
		return err
	}
	_, r, err := a.find(q.AllocID)
	if err != nil {
		return err
	}
	if r == nil {
		return berth.Errorf(berth.Invalid, "Task not running: allocation %s has ended", q.AllocID)
	}
	execute, err := r.Execer(q.Task)
	if err != nil {
		return err
	}
	done, err := a.execs.take(execsLimit, maxExecs)
	if err != nil {
		return err
	}
	defer done()
	if err := from.Accept(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stdin, input := io.Pipe()
	s := &session{from: from, input: input, sizes: make(chan driver.TerminalSize), over: ctx.Done(), leave: cancel, skip: q.Handshake}
	var wg sync.WaitGroup
	wg.Go(s.receive)
	wg.Go(func() { s.beat(ctx) })
	code, err := execute(ctx, &driver.Exec{
		Command: words, TTY: q.TTY, Stdin: stdin, Stdout: output{s, false}, Stderr: output{s, true}, Resize: s.sizes,
	})
	cancel()
	from.Interrupt()
	stdin.Close()
	wg.Wait()
	if err != nil {
		return err
	}
	return s.send(&op.ExecOutput{Exited: true, Result: &op.ExecResult{ExitCode: code}})
}

// session is the caller's end of a command.
type session struct {
	from  op.Incoming
	input *io.PipeWriter
	sizes chan driver.TerminalSize
	over  <-chan struct{} // closed when the command shall end
	leave func()          // ends the command
	skip  bool            // the next message is no input

	mu sync.Mutex // one sends at a time
}

// receive passes on what the caller says, until it leaves.
func (s *session) receive() {
	defer s.leave()
	for {
		b, err := s.from.Recv()
		if err != nil {
			s.input.Close()
			return
		}
		if s.skip {
			s.skip = false
			continue
		}
		var in op.ExecInput
		if err := json.Unmarshal(b, &in); err != nil {
			s.input.Close()
			return
		}
		if in.TTYSize != nil {
			size := driver.TerminalSize{Rows: characters(in.TTYSize.Height), Columns: characters(in.TTYSize.Width)}
			select {
			case s.sizes <- size:
			case <-s.over:
			}
		}
		if in.Stdin != nil && len(in.Stdin.Data) > 0 {
			// It fails once the command takes no more, and that is no reason to
			// end it.
			_, _ = s.input.Write(in.Stdin.Data)
		}
		if in.Stdin != nil && in.Stdin.Close {
			s.input.Close()
		}
	}
}

// characters bounds a size of a terminal.
func characters(n int) uint16 { return uint16(max(0, min(n, 1<<16-1))) }

// beat tells the caller now and then that the command runs. Thereby it finds out
// that the caller is gone, even if the command says nothing.
func (s *session) beat(ctx context.Context) {
	t := time.NewTicker(execHeartbeat)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			if s.send(&op.ExecOutput{}) != nil {
				s.leave()
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// send sends one message.
func (s *session) send(out *op.ExecOutput) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sendJSON(s.from, out)
}

// output is one of the command's outputs. A write returns when the caller is
// about to take it, so a slow caller slows the command.
type output struct {
	s   *session
	err bool // standard error
}

// Write implements io.Writer.
func (o output) Write(b []byte) (n int, err error) {
	for len(b) > 0 {
		piece := &op.ExecData{Data: b[:min(len(b), execPiece)]}
		out := &op.ExecOutput{Stdout: piece}
		if o.err {
			out = &op.ExecOutput{Stderr: piece}
		}
		if err := o.s.send(out); err != nil {
			return n, err
		}
		n, b = n+len(piece.Data), b[len(piece.Data):]
	}
	return n, nil
}
