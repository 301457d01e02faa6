package condition

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"berth"

	"github.com/hashicorp/go-version"
)

// Parsed is the right side of a condition whose operator reads it as more than
// one value: an expression, a list of comparisons, a set. Reading it costs more
// than comparing with it, so it is read once. It never changes.
type Parsed struct {
	operand  string
	readable bool // otherwise nothing meets it
	re       *regexp.Regexp
	versions version.Constraints
	semvers  []comparison
	set      []string
	parts    int // how many comparisons a check makes at most
}

// comparison is a part of a list such as ">= 1.6, < 2".
type comparison struct {
	operand string
	with    *version.Version
}

// Parses reports whether an operator's right side is worth parsing once.
func Parses(operand string) bool {
	switch operand {
	case berth.OpRegexp, berth.OpVersion, berth.OpSemver, berth.OpSetContains, berth.OpSetContainsAll, berth.OpSetContainsAny:
		return true
	}
	return false
}

// Parse reads the right side of a condition. What cannot be read, or has an
// operator that does not [Parses], is met by nothing.
func Parse(operand, right string) *Parsed {
	key := source{operand, right}
	if p := parsed.get(key); p != nil {
		return p
	}
	p := read(operand, right)
	parsed.put(key, p)
	return p
}

// ParseSteps returns how much work it is to parse a right side, in the unit of
// [Parsed.Steps].
func ParseSteps(operand, right string) int {
	if operand == berth.OpVersion || operand == berth.OpSemver {
		return 1 + 4*len(right) // go-version matches an expression for each part
	}
	return 1 + len(right)/4
}

// read is Parse without the cache.
func read(operand, right string) *Parsed {
	p := &Parsed{operand: operand, readable: true}
	var err error
	switch operand {
	case berth.OpRegexp:
		p.re, err = regexp.Compile(right)
		p.parts = 1 + len(right)/16
	case berth.OpVersion:
		p.versions, err = version.NewConstraint(right)
		p.parts = len(p.versions)
	case berth.OpSemver:
		p.semvers, err = readSemvers(right)
		p.parts = len(p.semvers)
	case berth.OpSetContains, berth.OpSetContainsAll, berth.OpSetContainsAny:
		p.set = splitSet(right)
		p.parts = len(p.set)
	default:
		p.readable = false
	}
	p.readable = p.readable && err == nil
	return p
}

// Steps returns how much work it is to compare a value of that length. One step
// is about a tenth of a microsecond, the time that placing spends on a node that
// it drops.
func (p *Parsed) Steps(left int) int {
	switch {
	case p.re != nil:
		return 1 + p.parts*(1+left/16)
	case len(p.set) > 0:
		return 1 + left/16 + p.parts*(1+left/64)
	}
	return 16 + 2*p.parts + left/4
}

// Meets reports whether a value meets the condition.
func (p *Parsed) Meets(left string) bool {
	if !p.readable {
		return false
	}
	switch p.operand {
	case berth.OpRegexp:
		return p.re.MatchString(left)
	case berth.OpVersion:
		// By the rules of package managers: a prerelease is only in ranges that
		// name a prerelease.
		v, err := version.NewVersion(left)
		return err == nil && p.versions.Check(v)
	case berth.OpSemver:
		return p.inSemvers(left)
	case berth.OpSetContains, berth.OpSetContainsAll:
		return p.containsSet(left, true)
	}
	return p.containsSet(left, false)
}

// containsSet reports whether the list left has all elements of the set, or at
// least one of them.
func (p *Parsed) containsSet(left string, all bool) bool {
	have := splitSet(left)
	for _, want := range p.set {
		if slices.Contains(have, want) != all {
			return !all
		}
	}
	return all
}

// splitSet splits a comma-separated list and trims the elements.
func splitSet(s string) []string {
	out := strings.Split(s, ",")
	for i := range out {
		out[i] = strings.TrimSpace(out[i])
	}
	return out
}

// CheckVersions returns an error unless text is a list of comparisons that the
// version operators can read.
func CheckVersions(text string) error {
	_, err := version.NewConstraint(text)
	return err
}

// readSemvers reads a list of comparisons. One that nothing meets, such as "~>
// 1.0", which Semantic Versioning does not have, makes it unreadable.
func readSemvers(text string) (list []comparison, err error) {
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		number := strings.TrimLeft(part, "<>=!~")
		w, err := version.NewSemver(strings.TrimSpace(number))
		if err != nil {
			return list, err
		}
		list = append(list, comparison{part[:len(part)-len(number)], w})
	}
	return list, nil
}

// inSemvers reports whether a version meets every comparison, by the order of
// Semantic Versioning 2.0: a prerelease sorts before its release and has no
// other special role.
func (p *Parsed) inSemvers(left string) bool {
	v, err := version.NewSemver(left)
	if err != nil {
		return false
	}
	for _, c := range p.semvers {
		if !compares(c.operand, v.Compare(c.with)) {
			return false
		}
	}
	return true
}

// compares reports whether an operator accepts the result of a comparison.
func compares(operand string, c int) bool {
	switch operand {
	case "", berth.OpEqual:
		return c == 0
	case berth.OpNotEqual:
		return c != 0
	case berth.OpLess, berth.OpLessEqual, berth.OpGreater, berth.OpGreaterEqual:
		return ordered(operand, c)
	}
	return false
}

// source is what a Parsed was made from.
type source struct{ operand, right string }

// cache keeps what was parsed, because jobs use the same conditions again and
// again. Its size is bounded by entries and by text: a parsed list takes many
// times the memory of its text.
type cache struct {
	sync.RWMutex
	bySource map[source]*Parsed
	bytes    int
}

var parsed = cache{bySource: map[source]*Parsed{}}

// The bounds of the cache. When one is reached, all is forgotten. A text that
// is longer than a condition may be is of a job that was registered before that
// was checked, and not kept.
const (
	maxParsed      = 1000
	maxParsedBytes = 256 << 10
	maxCachedText  = 8 << 10
)

// get returns what was parsed before, or nil.
func (c *cache) get(key source) *Parsed {
	c.RLock()
	defer c.RUnlock()
	return c.bySource[key]
}

// put keeps what was parsed.
func (c *cache) put(key source, p *Parsed) {
	if len(key.right) > maxCachedText {
		return
	}
	c.Lock()
	defer c.Unlock()
	if c.bySource[key] != nil {
		return
	}
	if len(c.bySource) >= maxParsed || c.bytes+len(key.right) > maxParsedBytes {
		clear(c.bySource)
		c.bytes = 0
	}
	c.bySource[key] = p
	c.bytes += len(key.right)
}
