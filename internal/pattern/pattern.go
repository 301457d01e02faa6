// Package pattern holds regular expressions that are compiled at their first use.
// Compiling those of all names would be a large part of what it costs to start the
// program, and a supervisor or a command needs few of them.
package pattern

import (
	"regexp"
	"sync"
)

// Pattern is one regular expression, for use from several goroutines.
type Pattern struct{ compiled func() *regexp.Regexp }

// New returns the pattern of an expression. One that is not valid panics at its
// first use; a test of this package compiles all that the source has.
func New(expression string) *Pattern {
	return &Pattern{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })}
}

// MatchString reports whether a text holds a match.
func (p *Pattern) MatchString(s string) bool { return p.compiled().MatchString(s) }
