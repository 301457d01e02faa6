// Package cli is the command line: one file a command, each a function from
// flags and arguments to calls of package client and text for a person.
//
// Names, flags, environment, columns and exit codes are those of Nomad's public
// command line, so that people and scripts keep what they have learnt: 0 is
// good, 1 is an error, and 2 is an evaluation that ended without a place for
// everything. What has no behaviour yet is refused by name. Beside the words of
// Nomad, outputs say why something waits, with numbers.
package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"berth/internal/daemon"

	"golang.org/x/term"
)

// Program is one run of the program: all that a command sees of the world
// beside the agent that it calls.
type Program struct {
	Name string // that it was called by; shown in help
	Args []string
	Env  []string // KEY=value, as os.Environ has it
	Dir  string   // that relative paths start from; "" is the process's own
	In   io.Reader
	Out  io.Writer
	Err  io.Writer
	// Terminal says that a person reads Out and can answer on In. Width is
	// that of the terminal, 0 if it is unknown.
	Terminal bool
	Width    int
	Now      func() time.Time
}

// Main runs the program with the arguments and the environment of the process,
// and returns its exit code. The first interrupt ends what runs in order, the
// second at once.
func Main(args []string) int {
	p := &Program{
		Name: programName(args), Args: args[min(1, len(args)):], Env: os.Environ(),
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Now: time.Now,
		Terminal: term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd())),
	}
	if p.Terminal {
		p.Width, _, _ = term.GetSize(int(os.Stdout.Fd()))
	}
	if c := find(commands(), p.Args).exact; c != nil && c.raw != nil {
		return c.raw(p.Args[len(strings.Fields(c.name)):])
	}
	ctx, stop := untilSignal()
	defer stop()
	return p.Run(ctx)
}

// untilSignal returns a context that the first interrupt or SIGTERM ends, with
// a daemon.Signal as the cause. The second one kills the process.
func untilSignal() (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case s := <-signals:
			signal.Stop(signals)
			cancel(daemon.Signal{Signal: s})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}

// programName is how the program was called. Under another name than nomad it
// is berth.
func programName(args []string) string {
	if len(args) > 0 && strings.TrimSuffix(filepath.Base(args[0]), ".exe") == nomadName {
		return nomadName
	}
	return "berth"
}

const nomadName = "nomad"

// Exit codes.
const (
	exitGood     = 0
	exitError    = 1
	exitChanges  = 1   // of job plan: an allocation would be created or destroyed
	exitUnplaced = 2   // an evaluation ended, and something found no place
	exitNothing  = 127 // no command was given
	exitNoPlan   = 255 // of job plan: an error
)

// exit is the error of a command that has said all there is to say, and ends
// with this code.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// Run runs the command that the arguments name and returns its exit code. It
// returns when everything the command started has ended.
func (p *Program) Run(ctx context.Context) int {
	err := p.dispatch(ctx)
	if err == nil {
		return exitGood
	}
	if code, ok := errors.AsType[exit](err); ok {
		return int(code)
	}
	code := exitError
	if f, ok := err.(*failed); ok {
		code, err = f.code, f.err
	}
	fmt.Fprintln(p.Err, "Error: "+clean(p.explain(ctx, err)))
	return code
}

// dispatch finds the command and runs it, or shows help.
func (p *Program) dispatch(ctx context.Context) error {
	all := commands()
	found := find(all, p.Args)
	switch {
	case found.exact != nil:
		return p.run(ctx, found.exact, p.Args[found.taken:])
	case wantsVersion(p.Args):
		return p.run(ctx, versionCommand(), nil)
	case len(found.group) > 0 || len(p.Args) == 0 || asksForHelp(p.Args[0]):
		return p.showGroup(all, strings.Join(p.Args[:found.taken], " "), p.Args[found.taken:])
	}
	return p.unknown(all, "", p.Args[0])
}

// showGroup lists the commands of a group: on Out if somebody asked for it, on
// Err if a command is missing.
func (p *Program) showGroup(all []*command, group string, rest []string) error {
	if len(rest) > 0 && !asksForHelp(rest[0]) {
		return p.unknown(all, group, rest[0])
	}
	text := p.groupHelp(all, group)
	switch {
	case len(rest) > 0:
		_, err := io.WriteString(p.Out, text)
		return err
	case group == "":
		io.WriteString(p.Err, text)
		return exit(exitNothing)
	}
	io.WriteString(p.Err, text)
	return exit(exitError)
}

func asksForHelp(arg string) bool { return arg == "-h" || arg == "-help" || arg == "--help" }

func wantsVersion(args []string) bool {
	return len(args) > 0 && (args[0] == "-v" || args[0] == "-version" || args[0] == "--version")
}

// ask asks the person at the terminal; anything but y is no.
func (p *Program) ask(question string) (bool, error) {
	fmt.Fprint(p.Out, question+" [y/N] ")
	answer, err := bufio.NewReader(p.In).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read the answer: %w", err)
	}
	a := strings.ToLower(strings.TrimSpace(answer))
	return a == "y" || a == "yes", nil
}

// path returns a file name seen from Dir.
func (p *Program) path(name string) string {
	if p.Dir == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(p.Dir, name)
}

// env returns the value of BERTH_name, or of NOMAD_name, and which of them it
// is.
func (p *Program) env(name string) (value, from string) {
	for _, prefix := range []string{"BERTH_", "NOMAD_"} {
		for _, kv := range p.Env {
			if v, ok := strings.CutPrefix(kv, prefix+name+"="); ok && v != "" {
				value = v // the last one counts, as in a process
				from = prefix + name
			}
		}
		if from != "" {
			return value, from
		}
	}
	return "", ""
}
