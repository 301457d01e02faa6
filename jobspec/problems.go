package jobspec

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agext/levenshtein"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"berth"
)

// problems are what is wrong with a file. Each is noted once, and told in the
// order of the text.
type problems struct {
	list []problem
	seen map[berth.Problem]bool
}

type problem struct {
	berth.Problem
	rng hcl.Range
}

// maxProblems is how many are looked for: a file can be wrong in a million
// places.
const maxProblems = 200

// enough is the panic that ends a parse with as many problems. It never leaves
// this package.
type enough struct{}

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

// add notes a problem at a place of a file.
func (ps *problems) add(rng hcl.Range, path, text string) {
	pos := ""
	if rng.Filename != "" {
		pos = rangeText(rng)
	}
	ps.note(problem{berth.Problem{Pos: pos, Path: path, Text: text}, rng})
}

// addf notes a problem of what has no place in a file.
func (ps *problems) addf(pos, path, format string, args ...any) {
	ps.note(problem{Problem: berth.Problem{Pos: pos, Path: path, Text: fmt.Sprintf(format, args...)}})
}

// diags notes what the library found.
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

// diagText is one sentence for what the library found.
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

// adopt takes over what [admit.DecodeJob] found and finds its place in the
// file. What follows only from a fault that was noted already is left out.
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

// err returns all of it as one error of kind Invalid, in the order of the text.
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
// of the shape that paths of problems have, job.group[web].task[app].cpu.
type place struct {
	rng    hcl.Range
	fields map[string]*place
	items  []item
	// The text here is faulty and left no value, so that what is said of the
	// value is not news.
	faulty bool
}

type item struct {
	name string // "" if it has none
	at   *place
}

func newPlace(rng hcl.Range) *place { return &place{rng: rng} }

// field returns the place of a field, made with rng if it is new.
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

// fault marks a field whose text left no value.
func (p *place) fault(name string, rng hcl.Range) { p.field(name, rng).faulty = true }

// find follows a path as far as the file goes. Where a list has a name twice,
// it goes the way that leads furthest, else the first; of the two themselves it
// returns the last, which is the one too many.
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

// steps calls each for every part that the beginning of the path names.
func (p *place) steps(path string, each func(next *place, rest string)) {
	if name, ok := strings.CutPrefix(path, "."); ok {
		// The keys of maps may hold dots, so the longest name that fits counts.
		for end := len(name); end > 0; end-- {
			if end < len(name) && name[end] != '.' && name[end] != '[' {
				continue
			}
			if f := p.fields[name[:end]]; f != nil {
				each(f, name[end:])
				return
			}
		}
		for _, it := range p.items { // the path leaves out which of the list
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
	for name, f := range p.fields { // of a map
		if rest, ok := strings.CutPrefix(path, "["+berth.Clip(name, 64)+"]"); ok {
			each(f, rest)
		}
	}
}

// nearest returns the one of the names that s was probably meant to be, or "".
func nearest(s string, names []string) string {
	if len(s) > 64 {
		return ""
	}
	s = strings.ToLower(s)
	best, most := "", 1
	if len(s) >= 8 {
		most = 2
	}
	for _, n := range names {
		d := levenshtein.Distance(s, n, nil)
		if d == 2 && swapped(s, n) {
			d = 1
		}
		if d <= most {
			best, most = n, d-1
		}
	}
	return best
}

// swapped says whether a and b differ by two neighbours that changed places.
func swapped(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) - 1 {
		if a[i] != b[i] {
			return a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
		}
	}
	return false
}

// meant returns "; did you mean x?" or "".
func meant(s string, names []string) string {
	if n := nearest(s, names); n != "" {
		return fmt.Sprintf("; did you mean %q?", n)
	}
	return ""
}
