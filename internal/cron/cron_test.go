package cron

import (
	"strings"
	"testing"
	"time"

	"berth"

	"pgregory.net/rapid"
)

func schedule(t testing.TB, zone string, crons ...string) *Schedule {
	t.Helper()
	s, err := New(&berth.PeriodicConfig{Specs: crons, TimeZone: zone})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A time that clocks skip is due after the gap, and one that occurs twice is
// due once. An hourly expression continues at even intervals.
func TestClocksThatArePut(t *testing.T) {
	const layout = "2006-01-02 15:04 -0700"
	for _, c := range []struct{ name, zone, cron, from, want string }{
		{"a gap", "America/New_York", "30 2 * * *", "2026-03-07 12:00 -0500", "2026-03-08 03:00 -0400, 2026-03-09 02:30 -0400"},
		{"several in a gap", "America/New_York", "10,40 1-3 * * *", "2026-03-08 01:20 -0500",
			"2026-03-08 01:40 -0500, 2026-03-08 03:00 -0400, 2026-03-08 03:10 -0400, 2026-03-08 03:40 -0400"},
		{"twice", "America/New_York", "30 1 * * *", "2026-10-31 12:00 -0400", "2026-11-01 01:30 -0400, 2026-11-02 01:30 -0500"},
		{"after the first of two", "America/New_York", "30 1 * * *", "2026-11-01 01:30 -0400", "2026-11-02 01:30 -0500"},
		{"between the two", "America/New_York", "30 1 * * *", "2026-11-01 01:10 -0500", "2026-11-02 01:30 -0500"},
		{"every half hour over a gap", "America/New_York", "*/30 * * * *", "2026-03-08 01:10 -0500", "2026-03-08 01:30 -0500, 2026-03-08 03:00 -0400, 2026-03-08 03:30 -0400"},
		{"every half hour, twice", "America/New_York", "*/30 * * * *", "2026-11-01 01:10 -0400", "2026-11-01 01:30 -0400, 2026-11-01 01:00 -0500, 2026-11-01 01:30 -0500, 2026-11-01 02:00 -0500"},
		{"a gap of half an hour", "Australia/Lord_Howe", "10 2 * * *", "2026-10-03 12:00 +1030", "2026-10-04 02:30 +1100, 2026-10-05 02:10 +1100"},
		{"no midnight", "America/Sao_Paulo", "0 0 * * *", "2018-11-03 12:00 -0300", "2018-11-04 01:00 -0200, 2018-11-05 00:00 -0200"},
		{"a day that is left out", "Pacific/Apia", "0 12 30 12 *", "2011-12-29 00:00 -1000", "2011-12-31 00:00 +1400, 2012-12-30 12:00 +1400"},
		{"UTC knows none of it", "UTC", "30 2 * * *", "2026-03-07 12:00 +0000", "2026-03-08 02:30 +0000, 2026-03-09 02:30 +0000"},
	} {
		s := schedule(t, c.zone, c.cron)
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		from, err := time.Parse(layout, c.from)
		if from = from.In(zone); err != nil || from.Format(layout) != c.from {
			t.Fatalf("%s: %v is not %s (%v)", c.name, from, c.from, err)
		}
		var got []string
		for _, x := range s.Upcoming(from, 1+strings.Count(c.want, ",")) {
			got = append(got, x.Format(layout))
		}
		if g := strings.Join(got, ", "); g != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, g, c.want)
		}
	}
}

// The next times of several expressions are those of each, in order and without
// duplicates.
func TestSeveralExpressions(t *testing.T) {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	got := schedule(t, "", "0 6 * * *", "0 */6 * * *", "*/40 59 5 1 1 * *").Upcoming(from, 5)
	want := []string{"05:59:00", "05:59:40", "06:00:00", "12:00:00", "18:00:00"}
	for i, x := range got {
		if x.Format(time.TimeOnly) != want[i] {
			t.Errorf("%d: %v, want %s", i, x, want[i])
		}
	}
	if left := schedule(t, "", "0 0 1 1 * 2027").Upcoming(from, 5); len(left) != 1 {
		t.Errorf("of one year: %v", left)
	}
}

// In any zone and at any time: times are in order, none is skipped, and Latest
// finds the last of them.
func TestTimesComeInOrder(t *testing.T) {
	zones := []string{"UTC", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia", "America/Sao_Paulo", "Africa/Casablanca"}
	crons := []string{"30 2 * * *", "*/20 * * * *", "0 0 * * *", "15 1,2,3 * * 0", "@hourly", "*/10 30 1-2 * * * *", "0 3 29 2 *", "0 */6 * 3,10,11 *"}
	rapid.Check(t, func(t *rapid.T) {
		zone, cron := rapid.SampledFrom(zones).Draw(t, "zone"), rapid.SampledFrom(crons).Draw(t, "cron")
		s, err := New(&berth.PeriodicConfig{Spec: cron, TimeZone: zone})
		if err != nil {
			t.Fatal(err)
		}
		from := time.Unix(rapid.Int64Range(1_200_000_000, 1_900_000_000).Draw(t, "from"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns"))
		times := s.Upcoming(from, rapid.IntRange(1, 60).Draw(t, "n"))
		before := from
		for _, x := range times {
			if !x.After(before) {
				t.Fatalf("%v does not follow %v", x, before)
			}
			mid := before.Add(x.Sub(before) / 2)
			if got := s.Next(mid); !got.Equal(x) {
				t.Fatalf("after %v comes %v, after %v %v", before, x, mid, got)
			}
			before = x
		}
		last := times[len(times)-1]
		until := last.Add(time.Second / 2)
		if got := s.Latest(from, until); !got.Equal(last) {
			t.Fatalf("the latest in %v to %v is %v, not %v", from, until, got, last)
		}
		if got := s.Latest(last, until); !got.IsZero() {
			t.Fatalf("nothing is due after %v until %v: %v", last, until, got)
		}
	})
}

// Latest does not go through many missed times one by one.
func TestTheLatestAfterYears(t *testing.T) {
	s := schedule(t, "Europe/Berlin", "* * * * * * *")
	until := time.Date(2026, 6, 1, 12, 0, 0, 5, time.UTC)
	if got := s.Latest(time.Unix(0, 0), until); !got.Equal(until.Truncate(time.Second)) {
		t.Error(got)
	}
	if got := schedule(t, "", "0 0 1 1 * 1980").Latest(time.Unix(0, 0), until); got.Year() != 1980 {
		t.Error(got)
	}
}
