package jobspec

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"berth"
	"berth/internal/decode"
)

// problems collects the problems of a file. Each is noted once and returned in
// text order.
type problems struct {
	list []problem              // in the order in which they were found
	seen map[berth.Problem]bool // each is reported once
}

// problem is a problem with its range, by which problems are put in order.
type problem struct {
	berth.Problem
	rng hcl.Range
}

// maxProblems is the number of problems after which parsing stops.
const maxProblems = 200

// enough is the panic that ends a parse after maxProblems. It never leaves this
// package.
type enough struct{}

// note adds a problem once. It panics with enough{} when there are maxProblems,
// which ends the reading.
func (ps *problems) note(p problem) {
	if ps.seen[p.Problem] {
		return
	}
	if len(ps.list) == maxProblems {
		panic(enough{})
	}
	if ps.seen == nil {
		ps.seen = map[berth.Problem]bool{}
	}
	ps.seen[p.Problem] = true
	ps.list = append(ps.list, p)
}

// add notes a problem at a place in a file.
func (ps *problems) add(rng hcl.Range, path, text string) {
	ps.note(problem{problemAt(rng, path, text), rng})
}

// problemAt returns a problem with its place in a file, if it has one.
func problemAt(rng hcl.Range, path, text string) berth.Problem {
	p := berth.Problem{Path: path, Text: text}
	if rng.Filename == "" {
		return p
	}
	p.Pos, p.Line, p.Column, p.Width = rangeText(rng), rng.Start.Line, rng.Start.Column, 1
	if rng.End.Line == rng.Start.Line {
		p.Width = max(p.Width, rng.End.Column-rng.Start.Column)
	}
	return p
}

// addf notes a problem that has no place in a file.
func (ps *problems) addf(pos, path, format string, args ...any) {
	ps.note(problem{Problem: berth.Problem{Pos: pos, Path: path, Text: fmt.Sprintf(format, args...)}})
}

// diags notes the problems that the library found.
func (ps *problems) diags(diags hcl.Diagnostics, path string) {
	for _, d := range diags {
		if d.Severity != hcl.DiagError {
			continue
		}
		text := diagText(d)
		var rng hcl.Range
		if d.Subject != nil {
			rng = *d.Subject
		}
		ps.add(rng, path, berth.Clip(text, 1000))
	}
}

// diagText returns one sentence for a problem that the library found.
func diagText(d *hcl.Diagnostic) string {
	if call, ok := hcl.DiagnosticExtra[hclsyntax.FunctionCallDiagExtra](d); ok && call.FunctionCallError() != nil {
		return fmt.Sprintf("%s(): %v", call.CalledFunctionName(), call.FunctionCallError())
	}
	text := strings.TrimSuffix(d.Summary, ".")
	if d.Detail != "" {
		text += ": " + strings.Join(strings.Fields(d.Detail), " ")
	}
	return text
}

// adopt adds the problems that [admit.DecodeJob] found, with their places in
// the file. It leaves out those that follow from a problem already noted.
func (ps *problems) adopt(err error, file string, root *place) {
	found, ok := errors.AsType[berth.Problems](err)
	if !ok {
		if err != nil {
			ps.addf("", "", "%v", err)
		}
		return
	}
	for _, p := range found {
		if root == nil {
			p.Pos = file
			ps.note(problem{Problem: p})
			continue
		}
		if at, _ := root.find(strings.TrimPrefix(p.Path, "job")); !at.faulty {
			ps.add(at.rng, p.Path, p.Text)
		}
	}
}

// err returns all problems as one Invalid error in text order.
func (ps *problems) err() error {
	if len(ps.list) == 0 {
		return nil
	}
	slices.SortStableFunc(ps.list, func(a, b problem) int {
		return cmp.Or(cmp.Compare(a.rng.Filename, b.rng.Filename), cmp.Compare(a.rng.Start.Byte, b.rng.Start.Byte))
	})
	out := make(berth.Problems, len(ps.list))
	for i := range ps.list {
		out[i] = ps.list[i].Problem
	}
	return out.Err()
}

// place is where in the file a part of the job was written. Places form a tree
// like the paths of problems: job.group[web].task[app].cpu.
type place struct {
	rng    hcl.Range
	fields map[string]*place // by name in the file
	items  []item            // of a list of blocks
	// The text here has a problem and no value, so further problems of the
	// value are not reported.
	faulty bool
}

// item is one block of a list, found by its name or its number.
type item struct {
	name string // "" if it has none
	at   *place
}

// newPlace returns a place that has no fields yet.
func newPlace(rng hcl.Range) *place { return &place{rng: rng} }

// field returns the place of a field. It creates it with rng if needed.
func (p *place) field(name string, rng hcl.Range) *place {
	if p.fields == nil {
		p.fields = map[string]*place{}
	}
	f := p.fields[name]
	if f == nil {
		f = newPlace(rng)
		p.fields[name] = f
	}
	return f
}

// fault marks a field whose text has a problem and no value.
func (p *place) fault(name string, rng hcl.Range) { p.field(name, rng).faulty = true }

// find follows a path as far as the file has it. If a list has a name twice, it
// takes the item that leads furthest; if the path ends there it returns the
// last, which is the duplicate.
func (p *place) find(path string) (at *place, left int) {
	at, left = p, len(path)
	if path == "" || p.faulty {
		return at, left
	}
	p.steps(path, func(next *place, rest string) {
		a, l := next.find(rest)
		if at == p || l < left || rest == "" {
			at, left = a, l
		}
	})
	return at, left
}

// steps calls each for every place that the first step of the path can mean.
func (p *place) steps(path string, each func(next *place, rest string)) {
	if name, ok := strings.CutPrefix(path, "."); ok {
		// Keys of maps may contain dots, so the longest match counts.
		for end := len(name); end > 0; end-- {
			if end < len(name) && name[end] != '.' && name[end] != '[' {
				continue
			}
			if f := p.fields[name[:end]]; f != nil {
				each(f, name[end:])
				return
			}
		}
		for _, it := range p.items { // the path does not name the item
			each(it.at, path)
		}
		return
	}
	for i, it := range p.items {
		for _, label := range []string{it.name, strconv.Itoa(i)} {
			if rest, ok := strings.CutPrefix(path, "["+berth.Clip(label, 64)+"]"); ok && label != "" {
				each(it.at, rest)
				break
			}
		}
	}
	for name, f := range p.fields { // keys of a map
		if rest, ok := strings.CutPrefix(path, "["+berth.Clip(name, 64)+"]"); ok {
			each(f, rest)
		}
	}
}

// meant returns "; did you mean x?" or "".
func meant(s string, names []string) string {
	if n := decode.Nearest(s, names); n != "" {
		return fmt.Sprintf("; did you mean %q?", n)
	}
	return ""
}

// instead returns what to write instead of an unknown name: the one that was
// probably meant, else all that are allowed.
func instead(s string, near, allowed []string) string {
	if text := meant(s, near); text != "" || len(allowed) == 0 {
		return text
	}
	return ": want " + strings.Join(allowed, ", ")
}
