package cli

import (
	"flag"
	"fmt"
	"strings"
)

// helpWidth is the width of help text in columns.
const helpWidth = 80

// calledName stands in the help of a command for the name by which the program
// was called.
const calledName = "{program}"

// commandHelp is what -h prints for a command: its usage, what it does, its
// flags and an example.
func (p *Program) commandHelp(cmd *command) string {
	var b strings.Builder
	// A raw command parses its arguments itself and has no options to list.
	options := " [options]"
	if cmd.raw != nil {
		options = ""
	}
	fmt.Fprintf(&b, "Usage: %s\n\n", strings.TrimSpace(p.Name+" "+cmd.name+options+" "+cmd.args))
	about := strings.ReplaceAll(strings.TrimSpace(cmd.help), calledName, p.Name)
	for _, para := range strings.Split(about, "\n\n") {
		b.WriteString(wrap(strings.Join(strings.Fields(para), " "), "  ") + "\n")
	}
	if cmd.setup == nil {
		return b.String()
	}
	// A fresh set: the flags of the call may have been changed by its command
	// line.
	own := newFlags()
	cmd.setup(own)
	refused := writeFlags(&b, "Options", own)
	if !cmd.local {
		shared := newFlags()
		(&clientFlags{}).declare(shared)
		refused = append(refused, writeFlags(&b, "General options", shared)...)
	}
	if len(refused) > 0 {
		b.WriteString("Not supported:\n\n" + wrap(strings.Join(refused, " "), "  ") + "\n")
	}
	fmt.Fprintf(&b, "Example:\n\n  $ %s %s\n", p.Name, cmd.example)
	return b.String()
}

// writeFlags describes flags. It returns those that are not supported.
func writeFlags(b *strings.Builder, heading string, f *flags) (refused []string) {
	var begun bool
	f.VisitAll(func(g *flag.Flag) {
		if _, no := g.Value.(unsupported); no {
			refused = append(refused, "-"+g.Name)
			return
		}
		if !begun {
			b.WriteString(heading + ":\n\n")
			begun = true
		}
		value, usage := flag.UnquoteUsage(g)
		if value != "" && !isBool(g) {
			value = " <" + value + ">"
		} else {
			value = ""
		}
		fmt.Fprintf(b, "  -%s%s\n%s\n", g.Name, value, wrap(usage, "      "))
	})
	return refused
}

// groupHelp lists the commands of a group; "" is the whole tree.
func (p *Program) groupHelp(all []*command, group string) string {
	var b strings.Builder
	usage := strings.TrimSpace(p.Name + " " + group)
	fmt.Fprintf(&b, "Usage: %s <command> [options] [arguments]\n\n", usage)
	// The whole tree has no entry in groups.
	about := groups[group] + "."
	if group == "" {
		about = `Berth runs jobs on a cluster of machines. "job run" registers a job and "job status" shows its state. ` +
			`"eval status" explains a scheduling decision; "alloc status" and "alloc logs" show a single instance.`
	}
	b.WriteString(wrap(about, "  ") + "\nCommands:\n\n")
	// Only the next word of each command is listed, so that the tree unfolds
	// step by step.
	var rows [][]string
	for _, word := range below(all, group) {
		rows = append(rows, []string{"  " + word, synopsis(all, strings.TrimSpace(group+" "+word))})
	}
	b.WriteString(alignWith("    ", rows, nil) + "\n\n")
	fmt.Fprintf(&b, "Run \"%s\" for help on a command.\n", strings.TrimSpace(p.Name+" help "+group)+" <command>")
	return b.String()
}

// synopsis is the line that describes a command or a group.
func synopsis(all []*command, name string) string {
	for _, c := range all {
		if c.name == name {
			return c.synopsis
		}
	}
	return groups[name]
}

// wrap breaks text into indented lines.
func wrap(text, indent string) string {
	var b strings.Builder
	line := indent
	for _, word := range strings.Fields(text) {
		if len(line)+len(word)+1 > helpWidth && line != indent {
			b.WriteString(line + "\n")
			line = indent
		}
		if line != indent {
			line += " "
		}
		line += word
	}
	b.WriteString(line + "\n")
	return b.String()
}
