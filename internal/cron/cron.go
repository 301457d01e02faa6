// Package cron tells when periodic jobs are due. All servers know the same time
// zones: the zone database is part of the program.
package cron

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // so that a server without a zone database knows the same zones

	"berth"

	"github.com/hashicorp/cronexpr"
)

// Schedule says when a periodic job is due. It belongs to one goroutine.
type Schedule struct {
	zone  *time.Location
	crons []expression
}

// expression is a cron expression. One whose hour begins with a star follows the time
// that passes; any other follows what clocks on walls show.
type expression struct {
	*cronexpr.Expression
	everyHour bool
}

// New returns when the job is due, or what is wrong with its times.
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

// Zone returns a time zone that is the same on every server.
func Zone(name string) (*time.Location, error) {
	if name == "Local" { // every server has its own
		return nil, fmt.Errorf("%q is not the same on every server; name a zone such as \"Europe/Berlin\"", name)
	}
	l, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("%q is not a time zone; one is wanted such as \"UTC\" or \"Europe/Berlin\"", berth.Clip(name, 64))
	}
	return l, nil
}

const maxLen = 200 // of an expression

// Check returns what is wrong with an expression, nil if nothing is.
func Check(text string) error {
	_, err := parse(text)
	return err
}

// parse reads an expression of 5 fields (minute, hour, day of month, month,
// day of week), of 6 (with the year) or of 7 (with the second first), or a word
// such as @daily.
func parse(text string) (c expression, err error) {
	defer func() {
		if r := recover(); r != nil { // the library's, on text that it did not expect
			err = fmt.Errorf("cannot be read: %v", r)
		}
	}()
	words := strings.Fields(text)
	switch n := len(words); {
	case len(text) > maxLen:
		return c, fmt.Errorf("is %d bytes long; allowed are %d", len(text), maxLen)
	case n > 7:
		return c, fmt.Errorf("has %d fields; allowed are 5 to 7", n)
	}
	if c.Expression, err = cronexpr.Parse(text); err != nil {
		return c, fmt.Errorf("cannot be read: %w", err)
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

// Next returns the first time after one at which the job is due, the zero time
// if there is none.
//
// When clocks are put forward, a time that does not exist is due at the moment
// after the gap. When they are put back, a time that is there twice is due the
// first time only. Expressions whose hour begins with a star go on evenly
// instead: for them no hour is longer or shorter.
func (s *Schedule) Next(after time.Time) (next time.Time) {
	after = after.Round(0).In(s.zone)
	for i := range s.crons {
		if t := s.crons[i].after(after); !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	return next
}

// Upcoming returns the next n times after one, fewer if there are no more.
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

// Latest returns the last time in (after, until] at which the job is due, the
// zero time if there is none. It looks back from until, further each time, so
// it does not go through all that a long outage missed.
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

// after returns the first time of one expression after a time.
func (c *expression) after(t time.Time) time.Time {
	if c.everyHour {
		return c.Next(t)
	}
	for wall := onWall(t); ; {
		if wall = c.Next(wall); wall.IsZero() {
			return wall
		}
		if at := first(wall, t.Location()); at.After(t) {
			return at
		}
	}
}

// onWall returns what clocks show at a time, as if they showed UTC.
func onWall(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// first returns when clocks of a zone show a time first, or the moment after
// the gap if they never do.
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
