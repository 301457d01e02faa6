package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"berth"
	"berth/client"
	"berth/op"
)

// Shells complete a command line by calling the program with it in the variable
// COMP_LINE, as bash's "complete -C" does. The candidates are printed, one on
// each line.

// completionTime bounds how long a shell waits for names from the cluster.
const completionTime = time.Second

// completing reports whether a shell asks for completion.
func (p *Program) completing() (line string, yes bool) {
	for _, kv := range p.Env {
		if v, ok := strings.CutPrefix(kv, "COMP_LINE="); ok {
			line, yes = v, v != ""
		}
	}
	return line, yes
}

// complete prints the words that can follow a command line, which ends at the
// cursor.
func (p *Program) complete(ctx context.Context, line string) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return
	}
	last := ""
	if !strings.HasSuffix(line, " ") && len(words) > 1 {
		last = words[len(words)-1]
		words = words[:len(words)-1]
	}
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	for _, s := range p.candidates(ctx, words[1:], last) {
		if strings.HasPrefix(s, last) {
			fmt.Fprintln(p.Out, clean(s))
		}
	}
}

// candidates returns the words that can follow others.
func (p *Program) candidates(ctx context.Context, words []string, last string) []string {
	all := commands()
	found := find(all, words)
	if found.exact == nil {
		if found.taken < len(words) {
			return nil
		}
		out := below(all, found.group)
		if found.group == "" {
			for _, a := range aliases {
				if last != "" {
					out = append(out, a.name)
				}
			}
		}
		return out
	}
	cmd := found.exact
	if cmd.setup == nil {
		return nil
	}
	f := newFlags()
	conn := clientFlags{}
	if !cmd.local {
		conn.declare(f)
	}
	cmd.setup(f)
	rest := words[found.taken:]
	// A flag with a value takes the word behind it.
	if n := len(rest); n > 0 && strings.HasPrefix(rest[n-1], "-") && !strings.Contains(rest[n-1], "=") {
		if g := f.Lookup(strings.TrimLeft(rest[n-1], "-")); g != nil && !isBool(g) {
			return p.values(ctx, conn, f, rest, g.Name)
		}
	}
	if strings.HasPrefix(last, "-") {
		var out []string
		for _, name := range f.names() {
			out = append(out, "-"+name)
		}
		return append(out, "-help")
	}
	out := p.arguments(ctx, cmd, conn, f, rest)
	if len(rest) == 0 {
		out = append(out, below(all, cmd.name)...)
	}
	return out
}

// valueKinds says what the values of flags are, where they are objects.
var valueKinds = map[string]string{
	"job": "job", "node-id": "node", "namespace": "namespace", "node-pool": "pool", "pool": "pool",
}

// values returns the values that a flag can have.
func (p *Program) values(ctx context.Context, conn clientFlags, f *flags, line []string, name string) []string {
	kind, ok := valueKinds[name]
	if !ok || conn.tls == nil {
		return nil
	}
	return p.objects(ctx, conn, f, line[:len(line)-1], kind)
}

// arguments returns the objects that can be the next argument of a command.
func (p *Program) arguments(ctx context.Context, cmd *command, conn clientFlags, f *flags, line []string) []string {
	if cmd.local {
		return nil // the shell completes files
	}
	return p.objects(ctx, conn, f, line, objectOf(cmd))
}

// objectOf returns the kind of object that the first argument of a command
// names, by how its usage says it.
func objectOf(cmd *command) string {
	for _, x := range []struct{ in, kind string }{
		{"job", "job"}, {"parameterized job", "job"}, {"alloc", "alloc"}, {"eval", "eval"}, {"deployment", "deployment"},
		{"node-pool", "pool"}, {"pool", "pool"}, {"node", "node"}, {"namespace", "namespace"},
	} {
		if strings.HasPrefix(strings.TrimLeft(cmd.args, "[<"), x.in) {
			return x.kind
		}
	}
	return ""
}

// objects returns the names of the objects of a kind, as the agent that the line
// names knows them. What cannot be read is not completed.
func (p *Program) objects(ctx context.Context, conn clientFlags, f *flags, line []string, kind string) (out []string) {
	if kind == "" {
		return nil
	}
	if _, _, err := f.parse(line); err != nil {
		return nil
	}
	conf, err := conn.config(p)
	if err != nil {
		return nil
	}
	conf.DialTimeout = completionTime
	c, err := client.New(conf.Config)
	if err != nil {
		return nil
	}
	defer c.Close()
	const most = 200
	q := op.Query{PerPage: most, AllowStale: true}
	any := q
	any.Namespace = conf.anySpace()
	switch kind {
	case "job":
		list, _, _ := client.Call(ctx, c, op.ListJobs, op.JobsQuery{Query: q})
		for _, j := range list {
			out = append(out, string(j.ID))
		}
	case "alloc":
		list, _, _ := client.Call(ctx, c, op.ListAllocs, op.AllocsQuery{Query: any})
		for _, a := range list {
			out = append(out, a.ID.String())
		}
	case "eval":
		list, _, _ := client.Call(ctx, c, op.ListEvals, op.EvalsQuery{Query: any})
		for _, e := range list {
			out = append(out, e.ID.String())
		}
	case "deployment":
		list, _, _ := client.Call(ctx, c, op.ListDeployments, any)
		for _, d := range list {
			out = append(out, d.ID.String())
		}
	case "node":
		list, _, _ := client.Call(ctx, c, op.ListNodes, op.NodesQuery{Query: q})
		for _, n := range list {
			out = append(out, n.ID.String())
		}
	case "namespace":
		list, _, _ := client.Call(ctx, c, op.ListNamespaces, op.Query{AllowStale: true})
		for _, n := range list {
			out = append(out, n.Name)
		}
	case "pool":
		list, _, _ := client.Call(ctx, c, op.ListPools, op.Query{AllowStale: true})
		for _, n := range list {
			out = append(out, n.Name)
		}
	}
	return out
}

// completionScripts teach shells to complete the program's command lines. %[1]s
// is the name of the program, %[2]s its path.
var completionScripts = map[string]string{
	"bash": "complete -o default -C %[2]s %[1]s\n",
	"zsh":  "autoload -U +X bashcompinit && bashcompinit\ncomplete -o nospace -o default -C %[2]s %[1]s\n",
	"fish": "complete -c %[1]s -a '(begin; set -lx COMP_LINE (commandline -cp); %[2]s; end)'\n",
}

// shells are those that can complete.
var shells = []string{"bash", "fish", "zsh"}

// completionCommand prints the script for a shell.
func completionCommand() *command {
	return &command{
		name: "completion", args: "<shell>", synopsis: "Print the completion script for a shell", min: 1, max: 1, local: true,
		example: "completion bash",
		help: `Prints the lines that make bash, zsh or fish complete commands, flags and the names of jobs, nodes and other objects. Load them with
			"source <({program} completion bash)" in ~/.bashrc, with the same and zsh in ~/.zshrc, or with "{program} completion fish | source" in
			~/.config/fish/config.fish. "{program} -autocomplete-install" does it for you, and "{program} -autocomplete-uninstall" undoes it.`,
		setup: func(*flags) action {
			return func(_ context.Context, c *call) error {
				text, err := c.completionScript(c.args[0])
				if err != nil {
					return c.usagef("%v", err)
				}
				_, err = fmt.Fprint(c.Out, text)
				return err
			}
		},
	}
}

// completionScript returns the script for a shell.
func (p *Program) completionScript(shell string) (string, error) {
	format, ok := completionScripts[shell]
	if !ok {
		return "", berth.Errorf(berth.Invalid, "unknown shell %q: want bash, zsh or fish", shell)
	}
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	// Called by another name, such as nomad, it completes that name.
	if by, err := filepath.Abs(filepath.Join(filepath.Dir(path), p.Name)); err == nil {
		if info, err := os.Stat(by); err == nil && !info.IsDir() {
			path = by
		}
	}
	return fmt.Sprintf(format, p.Name, quoted(path)), nil
}

// shellFiles returns the files in which shells are configured, by shell.
func shellFiles(home string) map[string]string {
	return map[string]string{
		"bash": filepath.Join(home, ".bashrc"), "zsh": filepath.Join(home, ".zshrc"),
		"fish": filepath.Join(home, ".config", "fish", "completions", "%s.fish"),
	}
}

// autocomplete installs or removes the completion of all shells that are
// configured in the home directory. It says what it changed.
func (p *Program) autocomplete(install bool) error {
	home := ""
	for _, kv := range p.Env {
		if v, ok := strings.CutPrefix(kv, "HOME="); ok {
			home = v
		}
	}
	if home == "" {
		return berth.Errorf(berth.Invalid, "HOME is not set: the files of the shells are unknown")
	}
	changed := 0
	for _, shell := range shells {
		file := shellFiles(home)[shell]
		if shell == "fish" {
			file = fmt.Sprintf(file, p.Name)
			if _, err := os.Stat(filepath.Join(home, ".config", "fish")); err != nil {
				continue
			}
		} else if _, err := os.Stat(file); err != nil {
			continue
		}
		did, err := p.editShellFile(shell, file, install)
		if err != nil {
			return berth.Errorf(berth.Invalid, "%s: %w", file, err)
		}
		if did {
			changed++
			fmt.Fprintf(p.Out, "Changed %s\n", clean(file))
		}
	}
	switch {
	case changed > 0:
		fmt.Fprintln(p.Out, "Open a new shell for the change to take effect.")
	case install:
		fmt.Fprintf(p.Out, "Nothing to do: completion is installed, or none of bash, zsh and fish is configured in %s.\n", clean(home))
	default:
		fmt.Fprintln(p.Out, "Nothing to do: completion is not installed.")
	}
	return nil
}

// editShellFile adds the script to a file, or removes it. It reports whether the
// file was changed.
func (p *Program) editShellFile(shell, file string, install bool) (changed bool, err error) {
	script, err := p.completionScript(shell)
	if err != nil {
		return false, err
	}
	b, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	lines := strings.SplitAfter(string(b), "\n")
	has := false
	for _, line := range strings.SplitAfter(script, "\n") {
		if line != "" && slices.Contains(lines, line) {
			has = has || strings.HasPrefix(line, "complete ")
		}
	}
	switch {
	case install == has:
		return false, nil
	case install:
		text := string(b)
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return false, err
		}
		return true, os.WriteFile(file, []byte(text+script), 0o644)
	}
	wanted := strings.SplitAfter(script, "\n")
	lines = slices.DeleteFunc(lines, func(l string) bool { return l != "" && slices.Contains(wanted, l) })
	return true, os.WriteFile(file, []byte(strings.Join(lines, "")), 0o644)
}

// autocompletes reports whether the command line asks to install or to remove
// completion.
func autocompletes(args []string) (install, yes bool) {
	if len(args) != 1 {
		return false, false
	}
	name := strings.TrimPrefix(strings.TrimPrefix(args[0], "-"), "-")
	if !strings.HasPrefix(args[0], "-") {
		return false, false
	}
	return name == "autocomplete-install", name == "autocomplete-install" || name == "autocomplete-uninstall"
}
