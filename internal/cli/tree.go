package cli

import (
	"slices"
	"strings"

	"berth"

	"github.com/agext/levenshtein"
)

// found is what a command line begins with.
type found struct {
	exact *command
	group string // with no command in it named
	taken int    // words of the line that were used
}

// find follows the words of a line down the tree as far as they go.
func find(all []*command, line []string) (f found) {
	for n := range line {
		if strings.HasPrefix(line[n], "-") {
			break
		}
		path := strings.Join(line[:n+1], " ")
		var group bool
		for _, c := range all {
			if c.name == path {
				return found{exact: c, taken: n + 1}
			}
			group = group || strings.HasPrefix(c.name, path+" ")
		}
		if !group {
			break
		}
		f.group, f.taken = path, n+1
	}
	return f
}

// below returns the names that follow a group, in order, those of deeper
// groups and hidden ones left out.
func below(all []*command, group string) (out []string) {
	if group != "" {
		group += " "
	}
	for _, c := range all {
		rest, ok := strings.CutPrefix(c.name, group)
		if !ok || c.hidden {
			continue
		}
		word, _, _ := strings.Cut(rest, " ")
		if !slices.Contains(out, word) {
			out = append(out, word)
		}
	}
	slices.Sort(out)
	return out
}

// unknown says that there is no such command, and what there is instead.
func (p *Program) unknown(all []*command, group, word string) error {
	full := strings.TrimSpace(group + " " + word)
	if strings.HasPrefix(word, "-") {
		return &usageError{group, berth.Errorf(berth.Invalid, "the flag %s must follow a command", word)}
	}
	for n := len(p.Args); n > 0; n-- {
		name := strings.Join(p.Args[:n], " ")
		if slices.ContainsFunc(unbuiltCommands, func(u string) bool { return u == name || strings.HasPrefix(u, name+" ") }) {
			return &usageError{group, berth.Errorf(berth.Invalid, "the command %q is not built yet", name)}
		}
	}
	names := below(all, group)
	if group == "" { // old spellings are worth a guess, too
		for _, c := range all {
			if !strings.Contains(c.name, " ") && c.raw == nil {
				names = append(names, c.name)
			}
		}
	}
	return &usageError{group, berth.Errorf(berth.Invalid, "there is no command %q%s", full, meant(strings.TrimLeft(group+" ", " "), word, names))}
}

// meant returns "; did you mean x?" if one of the names is near to what was
// typed.
func meant(prefix, typed string, names []string) string {
	best, least := "", 3 // differences that still look like a slip
	if len(typed) < 3 {
		least = 2
	}
	for _, n := range names {
		if d := levenshtein.Distance(strings.ToLower(typed), n, nil); d < least {
			best, least = n, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + prefix + best + "?"
}
