// Package cli is the command line. Each command has a file: a function that
// turns flags and arguments into calls of package client, and the results into
// text.
//
// Names, flags, environment variables, columns and exit codes are those of
// Nomad's public command line, so that people and scripts need not relearn
// them: 0 is success, 1 is an error, and 2 is an evaluation that completed
// without placing everything. Commands and flags of Nomad that Berth lacks are
// rejected by name. Beyond what Nomad prints, outputs explain why something is
// waiting, with numbers.
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
	"slices"
	"strings"
	"syscall"
	"time"

	"berth/internal/daemon"

	"golang.org/x/term"
)

// Program is one run of the program: everything a command sees of its
// environment, apart from the agent that it calls.
type Program struct {
	Name string // berth or nomad, as it was called; shown in help
	Args []string
	Env  []string // KEY=value, as os.Environ has it
	Dir  string   // base of relative paths; "" is the process's own
	In   io.Reader
	Out  io.Writer
	Err  io.Writer
	// Terminal reports that a person reads Out and can answer on In. Width is
	// the width of the terminal in columns, 0 if unknown.
	Terminal bool
	Width    int
	Now      func() time.Time
}

// Main runs the program with the arguments and the environment of the process,
// and returns its exit code. The first interrupt shuts down in order, the second
// kills the process.
func Main(args []string) int {
	p := &Program{
		Name: programName(args), Args: args[min(1, len(args)):], Env: os.Environ(),
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Now: time.Now,
		Terminal: term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd())),
	}
	if p.Terminal {
		p.Width, _, _ = term.GetSize(int(os.Stdout.Fd()))
	}
	// A raw command must see the process as it was started.
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
		// The caller has stopped the wait.
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}

// programName is the name for help and errors: nomad if the program was called
// by that name, otherwise berth.
func programName(args []string) string {
	if len(args) > 0 && strings.TrimSuffix(filepath.Base(args[0]), ".exe") == nomadName {
		return nomadName
	}
	return "berth"
}

// nomadName is the program name under which outputs that scripts parse are
// those of Nomad.
const nomadName = "nomad"

// Exit codes.
const (
	exitGood     = 0
	exitError    = 1
	exitChanges  = 1   // job plan: an allocation would be created or destroyed
	exitUnplaced = 2   // an evaluation completed without placing everything
	exitNothing  = 127 // no command was given
	exitNoPlan   = 255 // job plan: an error
)

// exit is the error of a command that has already printed everything and ends
// with this code.
type exit int

// Error is for logs only: Run prints nothing for an exit.
func (e exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// Run runs the command that the arguments name and returns its exit code. It
// returns once everything the command started has ended.
func (p *Program) Run(ctx context.Context) int {
	err := p.dispatch(ctx)
	if err == nil {
		return exitGood
	}
	if code, ok := errors.AsType[exit](err); ok {
		return int(code)
	}
	// Commands with an exit code of their own for errors wrap them in failed.
	code := exitError
	if f, ok := err.(*failed); ok {
		code, err = f.code, f.err
	}
	fmt.Fprintln(p.Err, "Error: "+clean(p.explain(ctx, err)))
	return code
}

// dispatch finds the command and runs it, or shows help.
func (p *Program) dispatch(ctx context.Context) error {
	if line, yes := p.completing(); yes {
		p.complete(ctx, line)
		return nil
	}
	if install, yes := autocompletes(p.Args); yes {
		return p.autocomplete(install)
	}
	all := commands()
	found := find(all, p.Args)
	switch {
	case found.exact != nil:
		return p.run(ctx, found.exact, p.Args[found.taken:])
	case wantsVersion(p.Args):
		return p.run(ctx, versionCommand(), nil)
	case len(p.Args) > 0 && p.Args[0] == "help":
		return p.help(all, p.Args[1:])
	// A group without a command, no words at all, or a call for help lists what
	// there is.
	case len(found.group) > 0 || len(p.Args) == 0 || asksForHelp(p.Args[0]):
		return p.showGroup(all, strings.Join(p.Args[:found.taken], " "), p.Args[found.taken:])
	}
	return p.unknown(all, "", p.Args)
}

// help runs "help" and "help job run".
func (p *Program) help(all []*command, words []string) error {
	// "help job run -h" means the same as without -h.
	words = slices.DeleteFunc(slices.Clone(words), asksForHelp)
	found := find(all, words)
	text := ""
	switch {
	case found.exact != nil:
		text = p.commandHelp(found.exact)
	case found.taken == len(words):
		text = p.groupHelp(all, found.group)
	default:
		return p.unknown(all, found.group, words[found.taken:])
	}
	_, err := io.WriteString(p.Out, text)
	return err
}

// showGroup lists the commands of a group: on Out if help was asked for, on Err
// if the command is missing.
func (p *Program) showGroup(all []*command, group string, rest []string) error {
	if len(rest) > 0 && !asksForHelp(rest[0]) {
		return p.unknown(all, group, rest)
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

// asksForHelp reports whether an argument is one of the help flags, which every
// command and group has.
func asksForHelp(arg string) bool { return arg == "-h" || arg == "-help" || arg == "--help" }

// wantsVersion reports whether the command line begins with a version flag. It
// means the command "version".
func wantsVersion(args []string) bool {
	return len(args) > 0 && (args[0] == "-v" || args[0] == "-version" || args[0] == "--version")
}

// ask asks the person at the terminal; anything but y or yes is a no.
func (p *Program) ask(question string) (bool, error) {
	fmt.Fprint(p.Out, question+" [y/N] ")
	answer, err := bufio.NewReader(p.In).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read the answer: %w", err)
	}
	a := strings.ToLower(strings.TrimSpace(answer))
	return a == "y" || a == "yes", nil
}

// path returns the file name relative to Dir.
func (p *Program) path(name string) string {
	if p.Dir == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(p.Dir, name)
}

// env returns the value of BERTH_name or else of NOMAD_name, and the name of the
// variable that had it.
func (p *Program) env(name string) (value, from string) {
	for _, prefix := range []string{"BERTH_", "NOMAD_"} {
		for _, kv := range p.Env {
			if v, ok := strings.CutPrefix(kv, prefix+name+"="); ok && v != "" {
				value = v // the last one wins, as in a process
				from = prefix + name
			}
		}
		if from != "" {
			return value, from
		}
	}
	return "", ""
}
