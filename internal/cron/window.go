package cron

import (
	"fmt"
	"strings"
	"time"

	"berth"
)

// Window computes when a task may run: from each start until the next end. It is
// not safe for concurrent use.
type Window struct{ start, end Schedule }

// longest bounds a window: an end comes once a day, and a day can have more
// than 24 hours when clocks go back.
const longest = 26 * time.Hour

// NewWindow returns the window of a task's schedule, or an error that names the
// field that is wrong.
func NewWindow(c *berth.TaskScheduleCron) (*Window, error) {
	name := c.Timezone
	if name == "" {
		name = "UTC"
	}
	zone, err := Zone(name)
	if err != nil {
		return nil, fmt.Errorf("timezone: %w", err)
	}
	if c.Start == "" {
		return nil, fmt.Errorf("start: missing: want a cron expression, such as \"0 9 * * 1-5\"")
	}
	start, err := parse(c.Start)
	if err != nil {
		return nil, fmt.Errorf("start: %q %w", berth.Clip(c.Start, 64), err)
	}
	if len(strings.Fields(c.End)) != 2 {
		return nil, fmt.Errorf("end: must be a minute and an hour, such as \"30 17\", got %q", berth.Clip(c.End, 64))
	}
	end, err := parse(c.End + " * * *")
	if err != nil {
		return nil, fmt.Errorf("end: %q %w", berth.Clip(c.End, 64), err)
	}
	return &Window{Schedule{crons: []expression{start}, zone: zone}, Schedule{crons: []expression{end}, zone: zone}}, nil
}

// At reports whether a time is in a window, and until when that holds; the zero
// time is forever. The moment of a start is in its window, that of an end is not.
func (w *Window) At(now time.Time) (open bool, until time.Time) {
	if begun := w.start.Latest(now.Add(-longest), now); !begun.IsZero() {
		if end := w.end.Next(begun); end.After(now) {
			return true, end
		}
	}
	return false, w.start.Next(now)
}
