package jobspec

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/zclconf/go-cty/cty"

	"berth"
	"berth/internal/strictjson"
)

// Guards estimate how large the result of a function can get before it is called.

// errTooMuch is what a guard returns for arguments whose result would pass
// maxValue or maxElems.
var errTooMuch = errors.New("the result would be too large")

// text returns the i-th argument, or "" if it is not a known string.
func text(args []cty.Value, i int) string {
	if i >= len(args) {
		return ""
	}
	v, _ := args[i].Unmark()
	if v.Type() != cty.String || v.IsNull() || !v.IsKnown() {
		return ""
	}
	return v.AsString()
}

// number returns the i-th argument as an integer, limited to 32 bits, or 0 if
// it is not a known number.
func number(args []cty.Value, i int) int {
	v, _ := args[i].Unmark()
	if v.Type() != cty.Number || v.IsNull() || !v.IsKnown() {
		return 0
	}
	n, _ := v.AsBigFloat().Int64()
	return int(min(max(n, -1<<31), 1<<31))
}

// shortTexts returns a guard that refuses any argument of more than most bytes,
// for functions whose time grows faster than their input.
func shortTexts(most int) func(*meter, []cty.Value) error {
	return func(_ *meter, args []cty.Value) error {
		for i := range args {
			if n := len(text(args, i)); n > most {
				return fmt.Errorf("must be at most %d bytes, got %d", most, n)
			}
		}
		return nil
	}
}

// fits returns errTooMuch if a result of n bytes would be too large. A negative
// n is the overflow of an estimate.
func fits(n int) error {
	if n > maxValue || n < 0 {
		return errTooMuch
	}
	return nil
}

// wideVerb finds a format verb with a width of four digits or more, or one that
// an argument sets.
var wideVerb = regexp.MustCompile(`%[^%a-zA-Z]*([0-9]{4}|\*)`)

// guardFormat estimates the result of format and formatlist. Each verb can
// print its argument as JSON, and a list is formatted once per element.
func guardFormat(m *meter, args []cty.Value) error {
	f := text(args, 0)
	if wideVerb.MatchString(f) {
		return errors.New("a width or precision can have at most three digits")
	}
	largest, items := 0, 1
	for _, a := range args {
		t := tally{m: m}
		t.add(a)
		largest = max(largest, 6*t.bytes+1300*(t.elems+1)) // as JSON, with numbers of any length
		if a, _ := a.Unmark(); a.CanIterateElements() && !a.IsNull() {
			items = max(items, a.LengthInt())
		}
	}
	return fits(items * (len(f) + strings.Count(f, "%")*(largest+1000)) / 4)
}

// guardIndent bounds the spaces, which are added to each line.
func guardIndent(_ *meter, args []cty.Value) error {
	n := number(args, 0)
	if n > 1000 {
		return errors.New("at most 1000 spaces are allowed")
	}
	return fits(len(text(args, 1)) + n*strings.Count(text(args, 1), "\n"))
}

// guardJoin bounds the separators; the elements were counted when they were
// made.
func guardJoin(_ *meter, args []cty.Value) error {
	n := 0
	for _, a := range args[1:] {
		if a, _ := a.Unmark(); a.CanIterateElements() && !a.IsNull() {
			n += a.LengthInt()
		}
	}
	return fits(n * len(text(args, 0)))
}

// guardReplace bounds the result: each occurrence can grow.
func guardReplace(_ *meter, args []cty.Value) error {
	s, old, with := text(args, 0), text(args, 1), text(args, 2)
	return fits(len(s) + strings.Count(s, old)*len(with))
}

// guardSplit bounds the number of parts.
func guardSplit(_ *meter, args []cty.Value) error {
	if strings.Count(text(args, 1), text(args, 0)) >= maxElems {
		return errTooMuch
	}
	return nil
}

// guardRegex charges for matching, which takes time proportional to the size of
// the program times the length of the text. pattern is the index of the pattern
// among the first two arguments; the other one is the text.
func guardRegex(pattern int) func(*meter, []cty.Value) error {
	return func(m *meter, args []cty.Value) error {
		p, s := text(args, pattern), text(args, 1-pattern)
		if len(p) > maxPattern {
			return fmt.Errorf("the pattern must be at most %d bytes, got %d", maxPattern, len(p))
		}
		re, err := syntax.Parse(p, syntax.Perl)
		if err != nil {
			return err
		}
		prog, err := syntax.Compile(re.Simplify())
		if err != nil {
			return err
		}
		cost := len(prog.Inst) * (len(s) + 64)
		if cost > 64<<20 || len(s) >= maxElems {
			return errors.New("the pattern and the text together are too large")
		}
		m.step(cost / 32)
		return nil
	}
}

// guardRegexReplace checks the expression and bounds the result, with a match
// at every position.
func guardRegexReplace(m *meter, args []cty.Value) error {
	if err := guardRegex(1)(m, args); err != nil {
		return err
	}
	s, with := text(args, 0), text(args, 2)
	// Matches do not overlap, so what $1 inserts is at most the text itself.
	return fits(len(s) + (len(s)+1)*len(with) + strings.Count(with, "$")*len(s))
}

// guardSquare is for functions that compare all elements pairwise.
func guardSquare(m *meter, args []cty.Value) error {
	if a, _ := args[0].Unmark(); a.CanIterateElements() && !a.IsNull() {
		m.step(a.LengthInt() * a.LengthInt() / 4)
	}
	return nil
}

// guardProduct bounds the elements of all tuples together, not only their
// number.
func guardProduct(_ *meter, args []cty.Value) error {
	n := 1
	for _, a := range args {
		if a, _ := a.Unmark(); a.CanIterateElements() && !a.IsNull() {
			n *= a.LengthInt()
		}
		if n*len(args) > maxElems {
			return errTooMuch
		}
	}
	return nil
}

// guardParse is for functions that parse text into values, which are far larger
// than the text.
func guardParse(more func(string) error) func(*meter, []cty.Value) error {
	return func(m *meter, args []cty.Value) error {
		s := text(args, 0)
		if len(s) > 256<<10 {
			return fmt.Errorf("must be at most %d bytes, got %d", 256<<10, len(s))
		}
		m.step(len(s) / 4)
		if more == nil {
			return nil
		}
		return more(s)
	}
}

// guardJSON refuses JSON that nests too deep, before the decoder recurses into
// it.
func guardJSON(s string) error {
	if strictjson.Deeper(s, berth.MaxNesting) { // the function reports other faults better
		return fmt.Errorf("nested deeper than %d", berth.MaxNesting)
	}
	return nil
}

// guardYAML refuses features with which a short text makes a huge value.
func guardYAML(s string) error {
	if !utf8.ValidString(s) {
		return errors.New("must be UTF-8 text")
	}
	flow, deepest := 0, 0
	for line := range strings.Lines(s) {
		nest := strings.Count(line, "- ") + strings.Count(line, ": ") + strings.Count(line, "? ")
		flow += strings.Count(line, "[") + strings.Count(line, "{") - strings.Count(line, "]") - strings.Count(line, "}")
		deepest = max(deepest, nest, flow, strings.Count(line, "[")+strings.Count(line, "{"))
	}
	if deepest > 1000 {
		return errors.New("nested too deeply")
	}
	if yamlAlias.MatchString(s) {
		return errors.New("aliases (*name) are not allowed")
	}
	return nil
}

// yamlAlias finds what may be an alias, by which a short YAML text can stand
// for a huge value.
var yamlAlias = regexp.MustCompile(`(?m)(^|[\s\[{,:-])\*[^\s,\]}*]+\s*($|[,\]}#:])`)

// guardBcrypt refuses a cost above 12 and charges steps for the time, which
// doubles with each unit.
func guardBcrypt(m *meter, args []cty.Value) error {
	cost := 10
	if len(args) > 1 {
		cost = number(args, 1)
	}
	if cost > 12 {
		return fmt.Errorf("the cost must be 4 to 12, got %d", cost)
	}
	m.step(120 << max(cost, 4)) // a cost of 10 takes 60 ms
	return nil
}

// guardRSA charges a twentieth of all steps, so a job can decrypt at most 20
// times.
func guardRSA(m *meter, args []cty.Value) error {
	m.step(maxSteps / 20)
	return shortTexts(16<<10)(m, args)
}
