package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Executor runs a command beside the task that a check is about, writes its
// output to out and returns its exit code. It ends the command when ctx ends.
type Executor func(ctx context.Context, command []string, out io.Writer) (code int, err error)

// Exit codes of a script check, as publicly documented for Nomad. All others
// mean that the service does not work.
const (
	scriptPasses = 0
	scriptWarns  = 1
)

// runScript runs the command of a script check.
func (s *Spec) runScript(ctx context.Context, run Executor) Outcome {
	if run == nil {
		return failed(errors.New("there is no task to run the script in"))
	}
	var out head
	code, err := run(ctx, s.Command, &out)
	switch {
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return failed(fmt.Errorf("the script took longer than its timeout of %v", s.Timeout))
	case err != nil:
		return failed(err)
	}
	o := Outcome{OK: code == scriptPasses, Warning: code == scriptWarns, Output: clip(out.String())}
	if o.Warning && s.PassWarnings {
		o.OK = true
	}
	if o.Output == "" {
		o.Output = fmt.Sprintf("nomad: the script exited with code %d", code)
	}
	return o
}

// head keeps the beginning of what is written. Both outputs of a command may
// write at once.
type head struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (h *head) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.b.Write(b[:min(len(b), maxOutput-h.b.Len())])
	return len(b), nil
}

// String returns what is kept.
func (h *head) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.b.String()
}
