package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"

	"berth"
	"berth/client"
	"berth/op"
)

// allocExecCommand runs a command beside a task. Its output is not cleaned of
// control characters: it is a program's, and may be binary.
func allocExecCommand() *command {
	return &command{
		name: "alloc exec", args: "<allocation> <command> [argument]...", synopsis: "Run a command in a running task", min: 1, max: -1,
		example: "alloc exec -task web 0af996ed /bin/sh",
		help: `Runs a command beside a running task: as its user, in its directory, with its environment and limits, and, if the driver isolates
			tasks, inside its namespaces. The allocation is given by ID or prefix. With -job, there is no allocation argument, and the command picks one of the job's
			allocations, preferably a running one. Flags stand before the command. The task can be omitted if the allocation has only one.

			The exit code is the command's. With a terminal, the escape character followed by a dot, at the beginning of a line, ends the session. The command is
			killed when the connection is lost, and when the task ends.`,
		setup: func(f *flags) action {
			x := allocExec{
				stdin:  f.FlagSet.Bool("i", true, "Pass standard input to the command."),
				tty:    f.FlagSet.Bool("t", false, "Give the command a terminal. This is the default if standard input and output are terminals."),
				escape: f.FlagSet.String("e", "~", "The escape `character` of a session with a terminal, or none."),
				job:    f.String("job", "Pick an allocation of this `job`, given by ID or unique prefix."),
				group:  f.String("group", "With -job: pick an allocation of this `group`."),
				task:   f.String("task", "The `task` beside which to run the command."),
			}
			f.words = func() int { // before the command
				if *x.job != "" {
					return 0
				}
				return 1
			}
			return x.run
		},
	}
}

// allocExec holds the flags of "alloc exec".
type allocExec struct {
	stdin, tty               *bool
	escape, job, group, task *string
}

// exitExec is the exit code when the session, not the command, fails.
const exitExec = 1

// run runs the command and ends with its exit code.
func (x allocExec) run(ctx context.Context, c *call) error {
	words := c.args
	if *x.job == "" {
		words = words[1:]
	}
	escape, err := x.escapeChar(c)
	switch {
	case err != nil:
		return err
	case len(words) == 0:
		return c.usagef("missing argument: the command to run")
	case *x.group != "" && *x.job == "":
		return c.usagef("-group requires -job")
	}
	var a op.Alloc
	if *x.job != "" {
		a, err = c.allocOfJob(ctx, *x.job, *x.group)
	} else {
		a, err = c.findAlloc(ctx, c.args[0])
	}
	if err != nil {
		return err
	}
	task, err := c.chooseTask(&a, *x.task)
	if err != nil {
		return err
	}
	text, err := json.Marshal(words)
	if err != nil {
		return err
	}
	return x.session(ctx, c, escape, func(tty bool) (op.Duplex, error) {
		return client.Open(ctx, c.client, op.Exec, op.ExecTask{
			AllocID: a.ID.String(), Task: task, Command: string(text), TTY: tty, Query: op.Query{Namespace: a.Namespace},
		})
	})
}

// session opens a session with a command, talks with it and ends with its exit
// code.
func (x allocExec) session(ctx context.Context, c *call, escape byte, open func(tty bool) (op.Duplex, error)) (err error) {
	s := &execSession{call: c, in: c.In, escape: escape}
	if !*x.stdin {
		s.in = strings.NewReader("")
	}
	tty := *x.tty
	if !c.flags.given("t") {
		tty = *x.stdin && isTerminal(c.In) && isTerminal(c.Out)
	}
	if s.to, err = open(tty); err != nil {
		return err
	}
	defer s.to.Close()
	code, err := s.talk(ctx, tty)
	switch {
	case err != nil:
		return err
	case code != 0:
		return exit(code)
	}
	return nil
}

// escapeChar is the escape character; 0 is none.
func (x allocExec) escapeChar(c *call) (byte, error) {
	switch e := *x.escape; {
	case e == "none" || e == "":
		return 0, nil
	case len(e) == 1:
		return e[0], nil
	default:
		return 0, c.usagef("flag -e must be one character or none, got %q", e)
	}
}

// chooseTask returns the named task of an allocation, or its only one.
func (c *call) chooseTask(a *op.Alloc, name string) (string, error) {
	tasks := tasksOf(a)
	switch {
	case name == "" && len(tasks) == 1:
		return tasks[0], nil
	case name == "":
		return "", c.usagef("allocation %s has several tasks: choose one of %s with -task", a.ID.Short(), strings.Join(tasks, ", "))
	case !slices.Contains(tasks, name):
		return "", berth.Errorf(berth.NotFound, "allocation %s has no task %q: want one of %s", a.ID.Short(), name, strings.Join(tasks, ", "))
	}
	return name, nil
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// execSession is our end of a command beside a task.
type execSession struct {
	*call
	in     io.Reader
	to     op.Duplex
	escape byte // 0 is none

	mu sync.Mutex // one sends at a time
}

// execBeat is how often the session says that it is there.
const execBeat = 10 * time.Second

// errDetached ends a session that its user has left.
var errDetached = errors.New("the session was ended by its escape character")

// talk passes input and output until the command has ended, and returns its exit
// code.
func (s *execSession) talk(ctx context.Context, tty bool) (code int, err error) {
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	defer context.AfterFunc(ctx, func() { s.to.Close() })()
	if tty && isTerminal(s.call.In) {
		fd := int(s.call.In.(*os.File).Fd())
		was, err := term.MakeRaw(fd)
		if err != nil {
			return 0, err
		}
		defer term.Restore(fd, was)
		s.watchSize(ctx, fd)
	}
	go s.send(leave, tty) // ends with the process if nothing is typed any more
	go s.beat(ctx)
	for {
		b, err := s.to.Recv()
		if cause := context.Cause(ctx); err != nil && cause != nil {
			if errors.Is(cause, errDetached) {
				return exitExec, nil
			}
			return 0, cause
		}
		if errors.Is(err, io.EOF) {
			return 0, berth.Errorf(berth.Unavailable, "the session ended before the command did")
		}
		if err != nil {
			return 0, err
		}
		var out op.ExecOutput
		if err := json.Unmarshal(b, &out); err != nil {
			return 0, fmt.Errorf("a message of the agent cannot be read: %w", err)
		}
		switch {
		case out.Exited && out.Result != nil:
			return out.Result.ExitCode, nil
		case out.Stdout != nil:
			_, err = s.Out.Write(out.Stdout.Data)
		case out.Stderr != nil:
			_, err = s.Err.Write(out.Stderr.Data)
		}
		if err != nil {
			return 0, err
		}
	}
}

// say sends one message. That the connection is lost shows where messages are
// received.
func (s *execSession) say(m *op.ExecInput) {
	b, err := json.Marshal(m)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.to.Send(b)
}

// send passes on the input, and its end.
func (s *execSession) send(leave context.CancelCauseFunc, tty bool) {
	escape := escapes{char: s.escape, start: true}
	b := make([]byte, 4<<10)
	for {
		n, err := s.in.Read(b)
		data := b[:n]
		if tty {
			var left bool
			if data, left = escape.filter(data); left {
				leave(errDetached)
				return
			}
		}
		if len(data) > 0 {
			s.say(&op.ExecInput{Stdin: &op.ExecData{Data: data}})
		}
		if err != nil {
			s.say(&op.ExecInput{Stdin: &op.ExecData{Close: true}})
			return
		}
	}
}

// beat says now and then that we are there.
func (s *execSession) beat(ctx context.Context) {
	t := time.NewTicker(execBeat)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			s.say(&op.ExecInput{})
		case <-ctx.Done():
			return
		}
	}
}

// watchSize tells the size of our terminal, now and when it changes.
func (s *execSession) watchSize(ctx context.Context, fd int) {
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	changed <- syscall.SIGWINCH
	go func() {
		defer signal.Stop(changed)
		for {
			select {
			case <-changed:
				if w, h, err := term.GetSize(fd); err == nil {
					s.say(&op.ExecInput{TTYSize: &op.TerminalSize{Height: h, Width: w}})
				}
			case <-ctx.Done():
				return
			}
		}
	}()
}

// escapes finds the escape sequence in what is typed: the escape character and a
// dot at the beginning of a line. The character twice is the character.
type escapes struct {
	char  byte // 0 is none
	start bool // at the beginning of a line
	held  bool // the character came, and what follows decides
}

// filter returns what is to be sent, and whether the user leaves.
func (e *escapes) filter(b []byte) (out []byte, leave bool) {
	if e.char == 0 {
		return b, false
	}
	for _, c := range b {
		switch {
		case e.held && c == '.':
			return out, true
		case e.held:
			e.held = false
			if c != e.char {
				out = append(out, e.char)
			}
		case e.start && c == e.char:
			e.held = true
			continue
		}
		out = append(out, c)
		e.start = c == '\r' || c == '\n'
	}
	return out, false
}
