package cli

import (
	"context"
	"errors"
	"flag"
	"io"
	"strconv"
	"strings"
	"time"

	"berth"
	"berth/client"
)

// command is one command of the tree. Its constructor is listed in commands.go.
type command struct {
	name     string // its place in the tree: "job run"
	args     string // as shown in its usage: "<path>"
	synopsis string // one line, for lists
	help     string // paragraphs: what it does, and its exit codes
	example  string // one command line without the program's name: "job run web.hcl"
	min, max int    // number of arguments; max below 0 is no limit
	hidden   bool   // not listed: for the program itself, or an old spelling
	local    bool   // calls no agent, so it has no connection flags
	failure  int    // the exit code of an error; 0 is exitError
	list     string // the command that shows what exists: for the error that an object does not

	// setup declares the command's flags and returns its action. It is called
	// once for each run.
	setup func(*flags) action

	// raw, if set, takes the arguments unparsed and returns the exit code. It
	// runs before the program touches signals, files or memory.
	raw func(args []string) int
}

// usage is the command line in short form.
func (c *command) usage(program string) string {
	return strings.TrimSpace(program + " " + c.name + " " + c.args)
}

// action is what a command does.
type action func(context.Context, *call) error

// call is one run of a command.
type call struct {
	*Program
	command *command
	args    []string
	flags   *flags
	client  *client.Client // nil for local commands
	config  clientConfig
	bold    bool // headings are bold, and states have colors
}

// flags declares the flags of a command.
type flags struct {
	*flag.FlagSet
	// words returns how many arguments stand before those of another program,
	// among which nothing is a flag of ours; nil: there is no such program.
	words func() int
	web   *bool // -ui, of commands that have it
}

// newFlags returns an empty set. It prints nothing by itself: errors and help
// are this package's.
func newFlags() *flags {
	f := &flags{FlagSet: flag.NewFlagSet("", flag.ContinueOnError)}
	f.SetOutput(io.Discard)
	return f
}

// Bool declares a flag without a value.
func (f *flags) Bool(name, usage string) *bool { return f.FlagSet.Bool(name, false, usage) }

// String declares a flag with a value. `name` in usage names the value.
func (f *flags) String(name, usage string) *string { return f.FlagSet.String(name, "", usage) }

// Int declares a flag whose value is an integer.
func (f *flags) Int(name string, value int, usage string) *int {
	return f.FlagSet.Int(name, value, usage)
}

// List declares a flag that can be repeated.
func (f *flags) List(name, usage string) *[]string {
	l := new(list)
	f.Var(l, name, usage)
	return (*[]string)(l)
}

// list is the value of a flag that can be repeated.
type list []string

// String implements flag.Value. It is for messages, not for shells.
func (l *list) String() string { return strings.Join(*l, ", ") }

// Set implements flag.Value: it adds a value.
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

// given reports whether a flag was on the command line.
func (f *flags) given(name string) (yes bool) {
	f.Visit(func(g *flag.Flag) { yes = yes || g.Name == name })
	return yes
}

// Unsupported declares flags of Nomad, with a value, that Berth rejects by name.
func (f *flags) Unsupported(names ...string) {
	for _, n := range names {
		f.Var(unsupported{name: n}, n, "")
	}
}

// UnsupportedBool is Unsupported for flags without a value.
func (f *flags) UnsupportedBool(names ...string) {
	for _, n := range names {
		f.Var(unsupported{name: n, boolean: true}, n, "")
	}
}

// unsupported is the value of a flag that is rejected unless it is set to false.
type unsupported struct {
	name    string
	boolean bool
}

// String implements flag.Value. There is no value to show.
func (u unsupported) String() string { return "" }

// IsBoolFlag makes parse take no value for the flag.
func (u unsupported) IsBoolFlag() bool { return u.boolean }

// Set implements flag.Value. It accepts false, which scripts pass to be
// explicit and which asks for nothing.
func (u unsupported) Set(s string) error {
	if s == "false" {
		return nil
	}
	return errors.New("is not supported" + reasonForFlag(u.name))
}

// usageError is a mistake in the command line.
type usageError struct {
	command string // its name, for the hint below the message
	err     error
}

// Error returns the mistake without the hint that explain adds.
func (e *usageError) Error() string { return e.err.Error() }

// Unwrap returns the mistake, so that its kind stays visible.
func (e *usageError) Unwrap() error { return e.err }

// usagef returns an error about the command line.
func (c *call) usagef(format string, args ...any) error {
	return &usageError{c.command.name, berth.Errorf(berth.Invalid, format, args...)}
}

// notNegative returns a usage error for the first flag, in the order given, whose
// value is below 0.
func (c *call) notNegative(flags ...numberFlag) error {
	for _, f := range flags {
		if f.value < 0 {
			return c.usagef("flag -%s must be at least 0, got %d", f.name, f.value)
		}
	}
	return nil
}

// numberFlag is a flag with its value.
type numberFlag struct {
	name  string
	value int64
}

// parse sets the flags on the command line, in any position, and returns the
// other arguments. After -- nothing is a flag. help reports that help was asked
// for.
func (f *flags) parse(line []string) (args []string, help bool, err error) {
	for i := 0; i < len(line); i++ {
		arg := line[i]
		if arg == "--" {
			return append(args, line[i+1:]...), false, nil
		}
		if asksForHelp(arg) {
			return nil, true, nil
		}
		if len(arg) < 2 || arg[0] != '-' { // "-" is standard input
			args = append(args, arg)
			if f.words != nil && len(args) > f.words() { // a command with flags of its own
				return append(args, line[i+1:]...), false, nil
			}
			continue
		}
		// One dash or two, as package flag has it.
		name, value, hasValue := strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
		g := f.Lookup(name)
		if _, err := strconv.Atoi(arg); g == nil && err == nil { // a negative number is for the command to judge
			args = append(args, arg)
			continue
		}
		if g == nil {
			return nil, false, berth.Errorf(berth.Invalid, "unknown flag -%s%s", name, suggestion("-", name, f.names()))
		}
		if !hasValue && isBool(g) {
			value, hasValue = "true", true
		}
		if !hasValue {
			// The next word is the value, even if it begins with a dash.
			if i++; i == len(line) {
				return nil, false, berth.Errorf(berth.Invalid, "flag -%s needs a value", name)
			}
			value = line[i]
		}
		if err := f.Set(name, value); err != nil {
			// The error of the value already says that it is not supported.
			if _, no := g.Value.(unsupported); no {
				return nil, false, berth.Errorf(berth.Invalid, "flag -%s %w", name, err)
			}
			return nil, false, berth.Errorf(berth.Invalid, "flag -%s must be %s, got %q", name, kindOf(g), value)
		}
	}
	return args, false, nil
}

// names returns the flags that can be suggested.
func (f *flags) names() (out []string) {
	f.VisitAll(func(g *flag.Flag) {
		if _, no := g.Value.(unsupported); !no {
			out = append(out, g.Name)
		}
	})
	return out
}

// isBool reports whether a flag takes no value, so that the next word is an
// argument.
func isBool(g *flag.Flag) bool {
	b, ok := g.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

// kindOf describes the values that a flag takes.
func kindOf(g *flag.Flag) string {
	// A value without a Getter has no kind to name.
	if v, ok := g.Value.(flag.Getter); ok {
		switch v.Get().(type) {
		case bool:
			return "true or false"
		case int, int64, uint, uint64:
			return "an integer"
		case time.Duration:
			return "a duration such as 30s"
		}
	}
	return "valid"
}

// run runs one command.
func (p *Program) run(ctx context.Context, cmd *command, line []string) error {
	err := p.runCommand(ctx, cmd, line)
	if _, silent := err.(exit); err != nil && !silent && cmd.failure != 0 {
		return &failed{cmd.failure, err}
	}
	return err
}

// runCommand parses the line, connects unless the command is local, and acts.
// The client is closed when it returns, so actions must not leave goroutines
// behind that call it.
func (p *Program) runCommand(ctx context.Context, cmd *command, line []string) error {
	f := newFlags()
	conn := clientFlags{}
	if !cmd.local {
		conn.declare(f)
	}
	// Flags are set up before the line is parsed, as help lists them.
	do := cmd.setup(f)
	c := &call{Program: p, command: cmd, flags: f}
	args, help, err := f.parse(line)
	switch {
	case help:
		_, err := io.WriteString(p.Out, p.commandHelp(cmd))
		return err
	case err != nil:
		return &usageError{cmd.name, err}
	// The usage is in the message: nobody needs -h to see what is missing.
	case len(args) < cmd.min:
		return c.usagef("missing argument, usage: %s", cmd.usage(p.Name))
	case cmd.max >= 0 && len(args) > cmd.max:
		return c.usagef("unexpected argument %q, usage: %s", args[cmd.max], cmd.usage(p.Name))
	}
	c.args = args
	if cmd.local {
		return do(ctx, c)
	}
	if c.config, err = conn.config(p); err != nil {
		return &usageError{cmd.name, err}
	}
	c.bold = c.config.color
	if c.client, err = client.New(c.config.Config); err != nil {
		return &usageError{cmd.name, err}
	}
	defer c.client.Close()
	// Errors of the connection name the setting that the address came from.
	if err := do(ctx, c); err != nil {
		return c.config.advise(c.listed(err, cmd.list))
	}
	return nil
}

// failed is the error of a command that fails with an exit code of its own.
type failed struct {
	code int
	err  error
}

// Error returns the text of the error without its exit code.
func (e *failed) Error() string { return e.err.Error() }

// Unwrap returns the error, so that explain and errors.As see it.
func (e *failed) Unwrap() error { return e.err }

// explain is the text of an error.
func (p *Program) explain(ctx context.Context, err error) string {
	text := err.Error()
	if ctx.Err() != nil && err == context.Cause(ctx) {
		return "interrupted"
	}
	if u, ok := err.(*usageError); ok {
		text += "\nSee: " + strings.Join(strings.Fields(p.Name+" "+u.command), " ") + " -h"
	}
	return text
}
