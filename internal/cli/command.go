package cli

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"berth"
	"berth/client"
)

// command is one command of the tree. It stands in a file of its own, and by
// its constructor in the list of commands.go.
type command struct {
	name     string // its place in the tree: "job run"
	args     string // as its usage shows them: "<path>"
	synopsis string // one line, for lists
	help     string // paragraphs: what it does, and how it ends
	min, max int    // arguments; max below 0 is no limit
	hidden   bool   // in no list: for the program itself, or an old spelling
	local    bool   // calls no agent and has none of the flags for that
	failure  int    // the exit code of an error; 0 is exitError

	// setup declares the command's flags and returns what it does. It is
	// called anew for each run.
	setup func(*flags) action

	// raw, if set, takes the arguments as they are and returns the exit code,
	// before the program touches signals, files or memory.
	raw func(args []string) int
}

// usage is how a command is called.
func (c *command) usage(program string) string {
	return strings.TrimSpace(program + " " + c.name + " " + c.args)
}

// action does what a command is for.
type action func(context.Context, *call) error

// call is one run of a command.
type call struct {
	*Program
	command *command
	args    []string
	flags   *flags
	client  *client.Client // nil for a local command
	config  clientConfig
	bold    bool
}

// flags declares the flags of a command.
type flags struct{ *flag.FlagSet }

func newFlags() *flags {
	f := &flags{flag.NewFlagSet("", flag.ContinueOnError)}
	f.SetOutput(io.Discard)
	return f
}

// Bool declares a flag that is there or not.
func (f *flags) Bool(name, usage string) *bool { return f.FlagSet.Bool(name, false, usage) }

// String declares a flag with a value; `name` in usage is the value's.
func (f *flags) String(name, usage string) *string { return f.FlagSet.String(name, "", usage) }

// Int declares a flag with a number.
func (f *flags) Int(name string, value int, usage string) *int {
	return f.FlagSet.Int(name, value, usage)
}

// List declares a flag that may be given many times.
func (f *flags) List(name, usage string) *[]string {
	l := new(list)
	f.Var(l, name, usage)
	return (*[]string)(l)
}

type list []string

func (l *list) String() string     { return strings.Join(*l, ", ") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

// given says whether a flag was on the command line.
func (f *flags) given(name string) (yes bool) {
	f.Visit(func(g *flag.Flag) { yes = yes || g.Name == name })
	return yes
}

// Unbuilt declares flags with a value that Nomad has and this build refuses by
// name.
func (f *flags) Unbuilt(names ...string) {
	for _, n := range names {
		f.Var(unbuilt{}, n, notBuilt)
	}
}

// notBuilt begins the description of a flag that is refused.
const notBuilt = "Not built yet: refused."

// UnbuiltBool is Unbuilt for flags that take no value.
func (f *flags) UnbuiltBool(names ...string) {
	for _, n := range names {
		f.Var(unbuilt{boolean: true}, n, notBuilt)
	}
}

type unbuilt struct{ boolean bool }

func (u unbuilt) String() string   { return "" }
func (u unbuilt) IsBoolFlag() bool { return u.boolean }
func (u unbuilt) Set(s string) error {
	if s == "false" {
		return nil
	}
	return fmt.Errorf("is not built yet")
}

// usageError is a fault in how a command was called.
type usageError struct {
	command string
	err     error
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// usagef says what is wrong with how the command was called.
func (c *call) usagef(format string, args ...any) error {
	return &usageError{c.command.name, berth.Errorf(berth.Invalid, format, args...)}
}

// parse sets flags from the command line, wherever they stand in it, and
// returns the other arguments. After -- nothing is a flag. help says that help
// was asked for.
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
			continue
		}
		name, value, hasValue := strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
		g := f.Lookup(name)
		if g == nil {
			return nil, false, berth.Errorf(berth.Invalid, "there is no flag -%s%s", name, meant("-", name, f.names()))
		}
		if b, ok := g.Value.(interface{ IsBoolFlag() bool }); ok && b.IsBoolFlag() && !hasValue {
			value, hasValue = "true", true
		}
		if !hasValue {
			if i++; i == len(line) {
				return nil, false, berth.Errorf(berth.Invalid, "the flag -%s wants a value", name)
			}
			value = line[i]
		}
		if err := f.Set(name, value); err != nil {
			if _, no := g.Value.(unbuilt); no {
				return nil, false, berth.Errorf(berth.Invalid, "the flag -%s %w", name, err)
			}
			return nil, false, berth.Errorf(berth.Invalid, "the flag -%s: %q is not %s", name, value, wanted(g))
		}
	}
	return args, false, nil
}

func (f *flags) names() (out []string) {
	f.VisitAll(func(g *flag.Flag) { out = append(out, g.Name) })
	return out
}

// wanted is what values a flag takes.
func wanted(g *flag.Flag) string {
	if v, ok := g.Value.(flag.Getter); ok {
		switch v.Get().(type) {
		case bool:
			return "true or false"
		case int, int64, uint, uint64:
			return "a whole number"
		case time.Duration:
			return "a duration such as 30s"
		}
	}
	return "allowed"
}

// run runs one command.
func (p *Program) run(ctx context.Context, cmd *command, line []string) error {
	err := p.runCommand(ctx, cmd, line)
	if _, said := err.(exit); err != nil && !said && cmd.failure != 0 {
		return &failed{cmd.failure, err}
	}
	return err
}

func (p *Program) runCommand(ctx context.Context, cmd *command, line []string) error {
	f := newFlags()
	conn := clientFlags{}
	if !cmd.local {
		conn.declare(f)
	}
	do := cmd.setup(f)
	c := &call{Program: p, command: cmd, flags: f}
	args, help, err := f.parse(line)
	switch {
	case help:
		_, err := io.WriteString(p.Out, p.commandHelp(cmd))
		return err
	case err != nil:
		return &usageError{cmd.name, err}
	case len(args) < cmd.min:
		return c.usagef("an argument is missing: %s", cmd.usage(p.Name))
	case cmd.max >= 0 && len(args) > cmd.max:
		return c.usagef("%q is an argument too many: %s", args[cmd.max], cmd.usage(p.Name))
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
	if err := do(ctx, c); err != nil {
		return c.config.advise(err)
	}
	return nil
}

// failed is the error of a command whose failure has an exit code of its own.
type failed struct {
	code int
	err  error
}

func (e *failed) Error() string { return e.err.Error() }
func (e *failed) Unwrap() error { return e.err }

// explain is the sentence for an error.
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
