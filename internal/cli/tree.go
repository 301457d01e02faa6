package cli

import (
	"slices"
	"strings"

	"berth"
)

// found is the result of find.
type found struct {
	exact *command
	group string // the innermost group, if exact is nil
	taken int    // how many words the command or group has
}

// find matches the first words of a command line to a command or a group.
func find(all []*command, line []string) (f found) {
	// The longest match wins: a command is deeper than its group.
	for n := range line {
		if strings.HasPrefix(line[n], "-") {
			break
		}
		path := strings.Join(line[:n+1], " ")
		var group bool
		var exact *command
		for _, c := range all {
			if c.name == path {
				exact = c
			}
			group = group || strings.HasPrefix(c.name, path+" ")
		}
		switch {
		case exact != nil: // which may be a group too, as "monitor" is
			f = found{exact: exact, taken: n + 1}
		case group && f.exact == nil:
			f.group, f.taken = path, n+1
		}
		if !group {
			break
		}
	}
	return f
}

// below returns the commands and groups directly in a group, sorted and without
// hidden ones.
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

// unknown is the error of a command that does not exist. words are what follows
// the group.
func (p *Program) unknown(all []*command, group string, words []string) error {
	if strings.HasPrefix(words[0], "-") {
		return &usageError{group, berth.Errorf(berth.Invalid, "flag %s must follow a command", words[0])}
	}
	// The longest name first: "job init x" is the command "job init".
	for n := len(words); n > 0; n-- {
		name := strings.TrimSpace(group + " " + strings.Join(words[:n], " "))
		if slices.Contains(unsupportedCommands, name) {
			return &usageError{group, berth.Errorf(berth.Invalid, "command %q is not supported%s", name, reasonFor(name))}
		}
	}
	names := below(all, group)
	if group == "" { // suggest old spellings too
		for _, c := range all {
			if !strings.Contains(c.name, " ") && c.raw == nil {
				names = append(names, c.name)
			}
		}
	}
	prefix := strings.TrimLeft(group+" ", " ")
	return &usageError{group, berth.Errorf(berth.Invalid, "unknown command %q%s", prefix+words[0], suggestion(prefix, words[0], names))}
}

// suggestion returns "; did you mean x?" if one of the names looks like a typo
// of what was typed. One edit in three letters still does, and never more than
// two: foo is not job.
func suggestion(prefix, typed string, names []string) string {
	best, least := "", min(2, max(1, len(typed)/3))+1
	for _, n := range names {
		if d := edits(strings.ToLower(typed), n); d < least {
			best, least = n, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + prefix + best + "?"
}

// edits counts the insertions, deletions, replacements and swaps of neighbours
// that turn a into b.
func edits(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
		for j := 1; j <= len(b); j++ {
			if i == 0 {
				rows[0][j] = j
				continue
			}
			replaced := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, replaced)
			// Two neighbors in the wrong order are one mistake, not two.
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}
