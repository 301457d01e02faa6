package cron

import (
	"strings"
	"testing"
	"time"

	"berth"
)

func TestWindow(t *testing.T) {
	office := berth.TaskScheduleCron{Start: "0 9 * * 1-5", End: "0 17", Timezone: "America/New_York"}
	night := berth.TaskScheduleCron{Start: "0 22 * * *", End: "30 6"}
	once := berth.TaskScheduleCron{Start: "0 9 1 1 * 2030", End: "0 10"}
	for _, c := range []struct {
		name  string
		cron  berth.TaskScheduleCron
		now   string
		open  bool
		until string // "" is never
	}{
		{"before the start", office, "2026-11-24T08:59:59-05:00", false, "2026-11-24T09:00:00-05:00"},
		{"at the start", office, "2026-11-24T09:00:00-05:00", true, "2026-11-24T17:00:00-05:00"},
		{"in between, seen from elsewhere", office, "2026-11-24T15:00:00Z", true, "2026-11-24T22:00:00Z"},
		{"at the end", office, "2026-11-24T17:00:00-05:00", false, "2026-11-25T09:00:00-05:00"},
		{"over the weekend", office, "2026-11-27T18:00:00-05:00", false, "2026-11-30T09:00:00-05:00"},
		{"before midnight", night, "2026-11-24T23:00:00Z", true, "2026-11-25T06:30:00Z"},
		{"after midnight", night, "2026-11-25T06:29:00Z", true, "2026-11-25T06:30:00Z"},
		{"in the day", night, "2026-11-25T12:00:00Z", false, "2026-11-25T22:00:00Z"},
		{"for the last time", once, "2030-01-01T09:30:00Z", true, "2030-01-01T10:00:00Z"},
		{"never again", once, "2031-01-01T09:30:00Z", false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, err := NewWindow(&c.cron)
			if err != nil {
				t.Fatal(err)
			}
			now, _ := time.Parse(time.RFC3339, c.now)
			var want time.Time
			if c.until != "" {
				want, _ = time.Parse(time.RFC3339, c.until)
			}
			if open, until := w.At(now); open != c.open || !until.Equal(want) {
				t.Errorf("%v until %v, want %v until %v", open, until, c.open, want)
			}
		})
	}
}

// While clocks go back the window is an hour longer, and ends once.
func TestWindowOverTheChangeOfClocks(t *testing.T) {
	w, err := NewWindow(&berth.TaskScheduleCron{Start: "0 0 * * *", End: "0 12", Timezone: "Europe/Berlin"})
	if err != nil {
		t.Fatal(err)
	}
	zone, _ := Zone("Europe/Berlin")
	begin := time.Date(2026, 10, 25, 0, 0, 0, 0, zone)
	open, until := w.At(begin)
	if !open || until.Sub(begin) != 13*time.Hour {
		t.Errorf("%v for %v, want 13 hours", open, until.Sub(begin))
	}
}

func TestWindowIsChecked(t *testing.T) {
	for _, c := range []struct {
		cron berth.TaskScheduleCron
		want string
	}{
		{berth.TaskScheduleCron{End: "0 17"}, `start: missing: want a cron expression, such as "0 9 * * 1-5"`},
		{berth.TaskScheduleCron{Start: "0 9", End: "0 17"}, `start: "0 9" has only 2 of the fields`},
		{berth.TaskScheduleCron{Start: "0 9 * * *"}, `end: must be a minute and an hour, such as "30 17", got ""`},
		{berth.TaskScheduleCron{Start: "0 9 * * *", End: "0 17 * * *"}, `end: must be a minute and an hour`},
		{berth.TaskScheduleCron{Start: "0 9 * * *", End: "0 25"}, `end: "0 25" cannot be parsed`},
		{berth.TaskScheduleCron{Start: "0 9 * * *", End: "0 17", Timezone: "Mars/North"}, `timezone: must be a time zone`},
	} {
		if _, err := NewWindow(&c.cron); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s", c.cron, err, c.want)
		}
	}
}
