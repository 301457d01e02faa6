package cli

import (
	"flag"
	"fmt"
	"strings"
)

// helpWidth is how long lines of help get.
const helpWidth = 80

// commandHelp is what -h shows of a command.
func (p *Program) commandHelp(cmd *command) string {
	var b strings.Builder
	options := " [options]"
	if cmd.raw != nil {
		options = ""
	}
	fmt.Fprintf(&b, "Usage: %s\n\n", strings.TrimSpace(p.Name+" "+cmd.name+options+" "+cmd.args))
	for _, para := range strings.Split(strings.TrimSpace(cmd.help), "\n\n") {
		b.WriteString(wrap(strings.Join(strings.Fields(para), " "), "  ") + "\n")
	}
	if cmd.setup == nil {
		return b.String()
	}
	own := newFlags()
	cmd.setup(own)
	refused := writeFlags(&b, "Options", own)
	if !cmd.local {
		shared := newFlags()
		(&clientFlags{}).declare(shared)
		refused = append(refused, writeFlags(&b, "General options", shared)...)
	}
	if len(refused) > 0 {
		b.WriteString("Not built yet, and refused:\n\n" + wrap(strings.Join(refused, " "), "  "))
	}
	return b.String()
}

// writeFlags describes flags. It returns the names of those that are refused.
func writeFlags(b *strings.Builder, heading string, f *flags) (refused []string) {
	var told bool
	f.VisitAll(func(g *flag.Flag) {
		if strings.HasPrefix(g.Usage, notBuilt) {
			refused = append(refused, "-"+g.Name)
			return
		}
		if !told {
			b.WriteString(heading + ":\n\n")
			told = true
		}
		value, usage := flag.UnquoteUsage(g)
		if v, ok := g.Value.(interface{ IsBoolFlag() bool }); ok && v.IsBoolFlag() {
			value = ""
		}
		if value != "" {
			value = " <" + value + ">"
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
	if group == "" {
		b.WriteString(wrap("Berth runs jobs on machines. A job is registered with \"job run\"; \"job status\" says how it fares, \"eval status\" what is being decided about it and why it waits, \"alloc status\" and \"alloc logs\" what became of each instance.", "  ") + "\n")
	}
	if g := groups[group]; g != "" {
		b.WriteString("  " + g + ".\n\n")
	}
	b.WriteString("Commands:\n\n")
	var rows [][]string
	for _, word := range below(all, group) {
		full := strings.TrimSpace(group + " " + word)
		rows = append(rows, []string{"  " + word, synopsis(all, full)})
	}
	b.WriteString(alignWith("    ", rows) + "\n\n")
	fmt.Fprintf(&b, "%s <command> -h says more of each.\n", usage)
	return b.String()
}

// synopsis is the line of a command, or of a group the names in it.
func synopsis(all []*command, name string) string {
	for _, c := range all {
		if c.name == name {
			return c.synopsis
		}
	}
	return groups[name] + ": " + strings.Join(below(all, name), ", ")
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
