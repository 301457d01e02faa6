package admit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"berth"
	"berth/internal/limit"
	"berth/internal/validate"
)

// Limits of a job that package berth does not declare.
const (
	MaxTasks       = 100     // in a group
	MaxConditions  = 200     // constraints, or affinities, in one job, group or task
	MaxPorts       = 200     // in a group
	MaxRegexpLen   = 1000    // bytes
	maxEntries     = 10_000  // of one env or meta block
	MaxValueLen    = 4096    // bytes of a condition's attribute or value
	maxMemoryMB    = 1 << 30 // a pebibyte
	maxSecretsMB   = 1024
	maxDiskMB      = 1 << 40
	maxCores       = 10_000          // in a task
	maxDevices     = 10_000          // in a device request
	maxRequests    = 100             // device requests in a task, or volumes in a group
	minMemoryMB    = 10              // per task
	minDiskMB      = 10              // per group
	minInterval    = 5 * time.Second // of a restart policy
	minReschedWait = 5 * time.Second // shortest delay between two attempts
)

// checker collects the problems of a job.
type checker struct {
	problems berth.Problems
	ofDevice bool            // checking the conditions of a device request
	part     bool            // a job without groups is no problem
	ctx      context.Context // when it ends, the rest of the groups is not checked
}

// addf notes a problem at a path such as "job.group[web].count".
func (c *checker) addf(at, format string, args ...any) { c.problems.Addf(at, format, args...) }

// between notes a problem if v is not in low to high, both included.
func (c *checker) between(at string, v, low, high int64) {
	if v < low || v > high {
		c.addf(at, "must be %d to %d, got %d", low, high, v)
	}
}

// duration notes a problem if v is below low or above berth.MaxDuration.
func (c *checker) duration(at string, v, low time.Duration) {
	if v < low || v > berth.MaxDuration {
		c.addf(at, "must be %v to %v, got %v", low, berth.MaxDuration, v)
	}
}

// oneOf checks that a value is in a list. The message calls it by the last word
// of its path.
func (c *checker) oneOf(at, v string, allowed ...string) {
	switch {
	case slices.Contains(allowed, v):
	case v == "":
		c.addf(at, "is missing: want %s", orList(allowed))
	default:
		c.addf(at, "unknown %s %q: want %s", at[strings.LastIndex(at, ".")+1:], berth.Clip(v, 64), orList(allowed))
	}
}

// orList returns "a, b or c". It leaves out an empty text.
func orList(list []string) string {
	list = slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == "" })
	if n := len(list); n > 1 {
		return strings.Join(list[:n-1], ", ") + " or " + list[n-1]
	}
	return strings.Join(list, "")
}

// atMost checks the number of some things.
func (c *checker) atMost(at string, l *limit.Limit, n int, what string) bool {
	most := int(l.Default)
	l.Use(int64(n), l.Default, "at", at)
	if n > most {
		l.Refuse("at", at)
		c.addf(at, "at most %d %s are allowed, got %d", most, what, n)
	}
	return n <= most
}

// line checks a text of one line. It may be empty.
func (c *checker) line(at, s string, most int) {
	switch {
	case len(s) > most:
		c.addf(at, "must be at most %d bytes, got %d", most, len(s))
	case !utf8.ValidString(s):
		c.addf(at, "must be valid UTF-8, got %q", berth.Clip(s, 64))
	case strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }):
		c.addf(at, "must have printable characters only, got %q", s)
	}
}

// reservedTaskNames cannot name a task. A task's directory has its name and is
// next to those that belong to the whole allocation. The last three are
// directories of each task; in their place, one could be taken for the other.
var reservedTaskNames = []string{"alloc", ".supervise", ".", "..", "local", "secrets", "tmp"}

// name checks the name of a group or task, which becomes part of environment
// variables and, for a task, of a directory.
func (c *checker) name(at, s string, reserved []string) {
	bad := func(r rune) bool { return r < ' ' || r > '~' || r == '/' || r == '\\' }
	switch {
	case s == "":
		c.addf(at, "is missing: want a name")
	case len(s) > berth.MaxNameLen:
		c.addf(at, "must be at most %d bytes, got %d", berth.MaxNameLen, len(s))
	case strings.ContainsFunc(s, bad):
		c.addf(at, "must be printable ASCII without slashes, got %q", s)
	case strings.TrimSpace(s) != s:
		c.addf(at, "must not begin or end with a space, got %q", s)
	case slices.Contains(reserved, strings.ToLower(s)):
		c.addf(at, "%q is reserved for a directory of the allocation: use another name", s)
	}
}

// duplicates refuses names that are equal or differ only in case.
func (c *checker) duplicates(at string, n int, name func(int) string) {
	seen := map[string]string{}
	for i := range n {
		s := name(i)
		k := strings.ToLower(s)
		if other, ok := seen[k]; ok {
			if other == s {
				c.addf(fmt.Sprintf("%s[%s]", at, berth.Clip(s, 64)), "is defined twice")
			} else {
				c.addf(fmt.Sprintf("%s[%s]", at, berth.Clip(s, 64)), "differs from %q only in case", other)
			}
		}
		seen[k] = s
	}
}

// strings checks the keys and values of meta, tags and the like.
func (c *checker) strings(at string, m map[string]string) {
	if c.atMost(at, entriesLimit, len(m), "entries") {
		validate.Meta(&c.problems, at, m)
	}
}
