package cli

import (
	"fmt"
	"slices"
	"strings"
)

// Reference returns the help of all commands as one page in Markdown. It is made
// from the declarations that the commands are run from.
func Reference() string {
	p := &Program{Name: "berth"}
	all := commands()
	slices.SortFunc(all, func(a, b *command) int { return strings.Compare(a.name, b.name) })
	var b strings.Builder
	b.WriteString("# Commands\n\nEvery command, as `berth <command> -h` shows it. All work under the name `nomad`, too.\n" +
		"This page is made from the program: `go test ./test/reference -update`.\n\n")
	for _, c := range all {
		if !c.hidden {
			fmt.Fprintf(&b, "* [%s](#%s): %s\n", c.name, strings.ReplaceAll(c.name, " ", "-"), c.synopsis)
		}
	}
	b.WriteString("\n## Options of all commands that call an agent\n\n")
	shared := newFlags()
	(&clientFlags{}).declare(shared)
	var text strings.Builder
	writeFlags(&text, "Options", shared)
	b.WriteString("```\n" + strings.TrimRight(text.String(), "\n") + "\n```\n")
	for _, c := range all {
		if c.hidden {
			continue
		}
		help := p.commandHelp(c)
		if from := strings.Index(help, "General options:\n"); from >= 0 {
			rest := help[from:]
			to := strings.Index(rest, "Not supported:\n")
			if to < 0 {
				to = strings.Index(rest, "Example:\n")
			}
			help = help[:from] + rest[max(0, to):]
		}
		fmt.Fprintf(&b, "\n## %s\n\n```\n%s\n```\n", c.name, strings.TrimRight(help, "\n"))
	}
	b.WriteString("\n## Aliases\n\n")
	for _, a := range aliases {
		fmt.Fprintf(&b, "* `%s` is `%s`\n", a.name, a.of)
	}
	return b.String()
}
