package cli

import (
	"fmt"
	"strings"
	"time"
)

// none stands for a missing value.
const none = "<none>"

// notYet stands for a time that has not come.
const notYet = "N/A"

// short is an ID as lists show it.
func short(id string, verbose bool) string {
	if verbose || len(id) <= shortID {
		return id
	}
	return id[:shortID]
}

// shortID is the length of an ID in lists, unless -verbose is given.
const shortID = 8

// shortOr is short, with a default for no ID.
func shortOr(id string, verbose bool, otherwise string) string {
	if id == "" {
		return otherwise
	}
	return short(id, verbose)
}

// or returns s, or otherwise if s is empty.
func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// at formats a time in ns since 1970.
func at(ns int64) string {
	if ns <= 0 {
		return notYet
	}
	return stamp(time.Unix(0, ns))
}

// stamp formats a time in the local zone, or returns notYet for a time that is
// not set.
func stamp(t time.Time) string {
	if t.IsZero() || t.Unix() <= 0 {
		return notYet
	}
	return t.Local().Format(time.RFC3339)
}

// when formats a time for lists: its age, or with verbose the time itself.
func (c *call) when(ns int64, verbose bool) string {
	if verbose || ns <= 0 {
		return at(ns)
	}
	return c.ago(time.Unix(0, ns))
}

// ago formats the distance from now to a time.
func (c *call) ago(t time.Time) string {
	if d := c.Now().Sub(t); d >= 0 || d > -time.Second {
		return span(max(0, d)) + " ago"
	}
	return span(t.Sub(c.Now())) + " from now"
}

// span formats a duration in its two largest units.
func span(d time.Duration) string {
	units := []struct {
		name string
		size time.Duration
	}{{"y", 365 * 24 * time.Hour}, {"mo", 30 * 24 * time.Hour}, {"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}}
	var b strings.Builder
	// The largest unit that is not 0 leads; smaller ones than the next are
	// noise.
	for i, u := range units {
		n := d / u.size
		if n == 0 {
			continue
		}
		fmt.Fprintf(&b, "%d%s", n, u.name)
		if i+1 < len(units) {
			if rest := (d - n*u.size) / units[i+1].size; rest > 0 {
				fmt.Fprintf(&b, "%d%s", rest, units[i+1].name)
			}
		}
		return b.String()
	}
	return "0s"
}

// took formats a short duration to three digits.
func took(d time.Duration) string {
	switch {
	case d < 0:
		return notYet
	case d >= time.Minute:
		return span(d)
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(10 * time.Nanosecond).String()
}

// mib formats an amount of memory or disk given in MiB.
func mib(n int64) string {
	f, unit := float64(n), "MiB"
	// A digit after the point only where it matters: 1.5 GiB, but 15 GiB.
	for _, u := range []string{"GiB", "TiB"} {
		if f < 1024 {
			break
		}
		f, unit = f/1024, u
	}
	if unit != "MiB" && f < 10 {
		return fmt.Sprintf("%.1f %s", f, unit)
	}
	return fmt.Sprintf("%.0f %s", f, unit)
}

// plural is a count with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// milli is the time format for the phases of an evaluation.
const milli = "2006-01-02T15:04:05.000Z07:00"
