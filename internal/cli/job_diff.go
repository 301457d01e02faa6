package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"berth/internal/diff"
)

// entry is a line of a diff, with the lines below it.
type entry struct {
	kind  string // one of the kinds of package diff
	text  string
	below []entry
	ends  bool // ends with a closing brace
}

// diffLines formats the difference between two versions of a job: + is added, -
// is deleted, +/- is changed. An added or deleted job, group or task is shown
// only by name, unless verbose.
func diffLines(d *diff.JobDiff, verbose bool) []string {
	top := []entry{{kind: d.Type, text: fmt.Sprintf("Job: %q", d.ID)}}
	if shown(d.Type, verbose) {
		top = append(top, blocks(d.Fields, d.Objects)...)
	}
	first := len(top)
	for _, g := range d.TaskGroups {
		top = append(top, groupEntry(g, verbose))
	}
	var out []string
	width := widest(top)
	for i, e := range top {
		if i > first {
			out = append(out, "")
		}
		out = e.lines(out, 0, width)
	}
	return out
}

// shown reports whether the contents of a job, group or task are shown.
func shown(kind string, verbose bool) bool {
	return verbose || kind == diff.Edited || kind == diff.None
}

// groupEntry is the entry of a group, with what the scheduler would do to its
// allocations as a remark.
func groupEntry(g *diff.GroupDiff, verbose bool) entry {
	e := entry{kind: g.Type, text: fmt.Sprintf("Task Group: %q", g.Name)}
	var updates []string
	for _, what := range slices.Sorted(maps.Keys(g.Updates)) {
		updates = append(updates, fmt.Sprintf("%d %s", g.Updates[what], what))
	}
	e.text += remark(updates)
	if shown(g.Type, verbose) {
		e.below = blocks(g.Fields, g.Objects)
	}
	for _, t := range g.Tasks {
		task := entry{kind: t.Type, text: fmt.Sprintf("Task: %q", t.Name) + remark(t.Annotations)}
		if shown(t.Type, verbose) {
			task.below = blocks(t.Fields, t.Objects)
		}
		e.below = append(e.below, task)
	}
	return e
}

// remark returns the words in parentheses, or "" for an empty list.
func remark(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return " (" + strings.Join(list, ", ") + ")"
}

// blocks formats the fields, with their values aligned, and the objects of a
// block.
func blocks(fields []*diff.FieldDiff, objects []*diff.ObjectDiff) (out []entry) {
	width := 0
	for _, f := range fields {
		width = max(width, utf8.RuneCountInString(f.Name))
	}
	for _, f := range fields {
		value := fmt.Sprintf("%q", f.New)
		switch f.Type {
		case diff.Deleted:
			value = fmt.Sprintf("%q", f.Old)
		case diff.Edited:
			value = fmt.Sprintf("%q => %q", f.Old, f.New)
		}
		out = append(out, entry{kind: f.Type, text: pad(f.Name+":", width+1) + " " + value + remark(f.Annotations)})
	}
	for _, o := range objects {
		out = append(out, entry{kind: o.Type, text: o.Name + " {", below: blocks(o.Fields, o.Objects), ends: true})
	}
	return out
}

// marks stand before the lines of a diff, by kind. What did not change has
// none.
var marks = map[string]string{diff.Added: "+", diff.Deleted: "-", diff.Edited: "+/-"}

// widest returns the width of the widest mark, by which the siblings align.
func widest(list []entry) (width int) {
	for _, e := range list {
		width = max(width, len(marks[e.kind]))
	}
	return width
}

// lines appends the entry and what is below it. width is that of the widest
// mark among its siblings.
func (e *entry) lines(out []string, indent, width int) []string {
	mark, text := marks[e.kind], indent
	if width > 0 {
		text += width + 1
	}
	out = append(out, strings.Repeat(" ", indent)+pad(mark, text-indent)+e.text)
	// The lines below a changed block have marks of their own, so they need
	// less indentation.
	below := text
	switch e.kind {
	case diff.Edited:
		below = indent + 2
	case diff.None:
		below = text + 2
	}
	inner := widest(e.below)
	for _, b := range e.below {
		out = b.lines(out, below, inner)
	}
	if e.ends {
		out = append(out, strings.Repeat(" ", text)+"}")
	}
	return out
}
