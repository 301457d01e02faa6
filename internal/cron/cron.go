// Package cron computes when periodic jobs are due. The time zone database is
// part of the program, so all servers agree.
package cron

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // so that a server without a zone database knows the same zones

	"berth"

	"github.com/hashicorp/cronexpr"
)

// Schedule computes when a periodic job is due. It is not safe for concurrent
// use.
type Schedule struct {
	zone  *time.Location // in which the expressions are read
	crons []expression
}

// expression is a cron expression. If its hour begins with a star it follows
// elapsed time; otherwise it follows wall clocks, daylight saving included.
type expression struct {
	*cronexpr.Expression
	everyHour bool // it fires in each hour, so clock changes do not matter
}

// New returns the schedule of a periodic job, or an error that names the field
// that is wrong.
func New(p *berth.PeriodicConfig) (*Schedule, error) {
	s := &Schedule{}
	var err error
	if s.zone, err = Zone(p.TimeZone); err != nil {
		return nil, fmt.Errorf("time_zone: %w", err)
	}
	for _, text := range p.Crons() {
		c, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("cron %q %w", berth.Clip(text, 64), err)
		}
		s.crons = append(s.crons, c)
	}
	return s, nil
}

// Zone returns a time zone by name. It refuses "Local", which differs between
// servers.
func Zone(name string) (*time.Location, error) {
	if name == "Local" {
		return nil, fmt.Errorf("must be the same on every server, such as \"UTC\" or \"Europe/Berlin\", got %q", name)
	}
	l, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("must be a time zone such as \"UTC\" or \"Europe/Berlin\", got %q", berth.Clip(name, 64))
	}
	return l, nil
}

const maxLen = 200 // bytes of an expression

// Check returns an error if the expression cannot be parsed or is never due. The
// message continues a sentence that begins with the expression.
func Check(text string) error {
	_, err := parse(text)
	return err
}

// parse parses an expression of 5 fields (minute, hour, day of month, month,
// day of week), 6 fields (and the year) or 7 fields (the second comes first),
// or a word such as @daily.
func parse(text string) (c expression, err error) {
	defer func() {
		if r := recover(); r != nil { // the library panics on some malformed text
			err = fmt.Errorf("cannot be parsed: %v", r)
		}
	}()
	words := strings.Fields(text)
	switch n := len(words); {
	case len(text) > maxLen:
		return c, fmt.Errorf("has %d bytes; at most %d are allowed", len(text), maxLen)
	case n > 7:
		return c, fmt.Errorf("has %d fields; 5 to 7 are allowed", n)
	case n < 5 && !strings.HasPrefix(text, "@"):
		return c, fmt.Errorf("has only %d of the fields minute, hour, day of month, month and day of week; a year can follow them, and seconds stand before them only if a year does", n)
	}
	if c.Expression, err = cronexpr.Parse(text); err != nil {
		return c, fmt.Errorf("cannot be parsed: %w", err)
	}
	if c.Next(time.Unix(0, 0).UTC()).IsZero() {
		return c, fmt.Errorf("is never due")
	}
	hour := 1
	if len(words) == 7 {
		hour = 2
	}
	c.everyHour = len(words) > hour && strings.HasPrefix(words[hour], "*") || text == "@hourly"
	return c, nil
}

// Next returns the first time after the given one at which the job is due, or the
// zero time if there is none.
//
// When clocks go forward, a time that does not exist is due right after the
// gap. When they go back, a time that occurs twice is due the first time only.
// Expressions whose hour begins with a star ignore both and continue at even
// intervals.
func (s *Schedule) Next(after time.Time) (next time.Time) {
	after = after.Round(0).In(s.zone)
	for i := range s.crons {
		if t := s.crons[i].after(after); !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	return next
}

// Upcoming returns the next n times after the given one, or fewer if there are no
// more.
func (s *Schedule) Upcoming(after time.Time, n int) (out []time.Time) {
	for range n {
		after = s.Next(after)
		if after.IsZero() {
			break
		}
		out = append(out, after)
	}
	return out
}

// Latest returns the last time in (after, until] at which the job is due, or
// the zero time if there is none. It searches back from until in growing steps,
// so that a long outage with many missed times is cheap.
func (s *Schedule) Latest(after, until time.Time) (latest time.Time) {
	for back := time.Minute; latest.IsZero(); back *= 30 {
		from := until.Add(-back)
		if from.Before(after) || back > 40*365*24*time.Hour {
			from = after
		}
		for t := s.Next(from); !t.IsZero() && !t.After(until); t = s.Next(t) {
			latest = t
		}
		if from.Equal(after) {
			break
		}
	}
	return latest
}

// after returns the first time after t at which the expression is due.
func (c *expression) after(t time.Time) time.Time {
	if c.everyHour {
		return c.Next(t)
	}
	// The expression is matched on the clock on the wall, on which times
	// can be missing or occur twice; only then is the moment looked up.
	for wall := onWall(t); ; {
		if wall = c.Next(wall); wall.IsZero() {
			return wall
		}
		if at := first(wall, t.Location()); at.After(t) {
			return at
		}
	}
}

// onWall returns what wall clocks show at t, as a time in UTC.
func onWall(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// first returns when wall clocks of a zone first show a time, or the moment
// after the gap if they never do.
func first(wall time.Time, zone *time.Location) time.Time {
	var late time.Time
	for _, near := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		_, offset := wall.Add(near).In(zone).Zone()
		t := wall.Add(-time.Duration(offset) * time.Second).In(zone)
		if onWall(t).Equal(wall) {
			return t
		}
		if t.After(late) {
			late = t
		}
	}
	start, _ := late.ZoneBounds()
	return start
}
