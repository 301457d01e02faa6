package admit

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"berth"
)

// Limits of a job, beside those in package berth. Those on groups and counts are
// Nomad's defaults.
const (
	MaxTasks       = 100 // in a group
	MaxConditions  = 200 // constraints, or affinities, of one job, group or task
	MaxPorts       = 200 // in a group
	MaxRegexpLen   = 1000
	maxMemoryMB    = 1 << 30 // a pebibyte
	maxDiskMB      = 1 << 40
	maxCores       = 10_000 // of a task
	maxDevices     = 10_000 // of a request
	maxRequests    = 100    // for devices, of a task
	minMemoryMB    = 10
	minDiskMB      = 10
	minInterval    = 5 * time.Second
	minReschedWait = 5 * time.Second
)

type checker struct {
	problems berth.Problems
	ofDevice bool // conditions are those of a device
}

func (c *checker) addf(at, format string, args ...any) { c.problems.Addf(at, format, args...) }

func (c *checker) between(at string, v, low, high int64) {
	if v < low || v > high {
		c.addf(at, "%d is out of range; allowed are %d to %d", v, low, high)
	}
}

func (c *checker) duration(at string, v, low time.Duration) {
	if v < low || v > berth.MaxDuration {
		c.addf(at, "%v is out of range; allowed are %v to %v", v, low, berth.MaxDuration)
	}
}

func (c *checker) oneOf(at, v string, allowed ...string) {
	if !slices.Contains(allowed, v) {
		c.addf(at, "%q is not allowed; allowed are %s", berth.Clip(v, 64), strings.Join(allowed, ", "))
	}
}

// line checks a text that is shown on one line; empty is allowed.
func (c *checker) line(at, s string, most int) {
	switch {
	case len(s) > most:
		c.addf(at, "%d bytes are too long; allowed are %d", len(s), most)
	case !utf8.ValidString(s):
		c.addf(at, "is not valid UTF-8")
	case strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }):
		c.addf(at, "%q has a character that cannot be printed", s)
	}
}

// reservedNames are directories of an allocation that are not a task's.
var reservedNames = []string{"alloc", ".", ".."}

// name checks the name of a group or task: it names a directory and an
// environment variable, and two of them must not look alike.
func (c *checker) name(at, s string) {
	bad := func(r rune) bool { return r < ' ' || r > '~' || r == '/' || r == '\\' }
	switch {
	case s == "":
		c.addf(at, "a name is wanted")
	case len(s) > berth.MaxNameLen:
		c.addf(at, "%d bytes are too long; allowed are %d", len(s), berth.MaxNameLen)
	case strings.ContainsFunc(s, bad):
		c.addf(at, "%q has a slash or a character that is not plain ASCII", s)
	case strings.TrimSpace(s) != s:
		c.addf(at, "%q begins or ends with a space", s)
	case slices.Contains(reservedNames, strings.ToLower(s)):
		c.addf(at, "%q is reserved", s)
	}
}

// duplicates refuses names that are equal but for case.
func (c *checker) duplicates(at string, n int, name func(int) string) {
	seen := map[string]string{}
	for i := range n {
		s := name(i)
		k := strings.ToLower(s)
		if other, ok := seen[k]; ok {
			if other == s {
				c.addf(fmt.Sprintf("%s[%s]", at, berth.Clip(s, 64)), "is there twice")
			} else {
				c.addf(fmt.Sprintf("%s[%s]", at, berth.Clip(s, 64)), "differs from %q only in case", other)
			}
		}
		seen[k] = s
	}
}

func (c *checker) strings(at string, m map[string]string) { c.problems.CheckMeta(at, m) }
