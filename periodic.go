package berth

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // so that a server without a zone database knows the same zones

	"github.com/hashicorp/cronexpr"
)

// PeriodicConfig launches children by the clock.
type PeriodicConfig struct {
	Enabled         bool
	Spec            string   `hcl:"cron"`
	Specs           []string `hcl:"crons"`
	SpecType        string   `hcl:"-"`
	ProhibitOverlap bool
	TimeZone        string
}

// What stands between the ID of a parent and what tells its children apart.
const (
	PeriodicInfix = "/periodic-"
	DispatchInfix = "/dispatch-"
)

const (
	cronType   = "cron"
	maxCrons   = 100
	maxCronLen = 200
)

// PeriodicID is the ID of the child that a parent launches at a time.
func PeriodicID(parent JobID, due time.Time) JobID {
	return parent + JobID(PeriodicInfix+strconv.FormatInt(due.Unix(), 10))
}

// Crons returns the expressions, however they were given.
func (p *PeriodicConfig) Crons() []string {
	if p.Spec != "" {
		return []string{p.Spec}
	}
	return p.Specs
}

// Schedule says when a periodic job is due. It belongs to one goroutine.
type Schedule struct {
	zone  *time.Location
	crons []cron
}

// cron is one expression. One whose hour begins with a star follows the time
// that passes; any other follows what clocks on walls show.
type cron struct {
	*cronexpr.Expression
	everyHour bool
}

// Schedule returns the times of the job, or what is wrong with them.
func (p *PeriodicConfig) Schedule() (*Schedule, error) {
	s := &Schedule{}
	var err error
	if s.zone, err = p.location(); err != nil {
		return nil, fmt.Errorf("time_zone: %w", err)
	}
	for _, text := range p.Crons() {
		c, err := parseCron(text)
		if err != nil {
			return nil, fmt.Errorf("cron %q %w", clip(text, 64), err)
		}
		s.crons = append(s.crons, c)
	}
	return s, nil
}

func (p *PeriodicConfig) location() (*time.Location, error) {
	if p.TimeZone == "Local" { // every server has its own
		return nil, fmt.Errorf("%q is not the same on every server; name a zone such as \"Europe/Berlin\"", p.TimeZone)
	}
	l, err := time.LoadLocation(p.TimeZone)
	if err != nil {
		return nil, fmt.Errorf("%q is not a time zone; one is wanted such as \"UTC\" or \"Europe/Berlin\"", clip(p.TimeZone, 64))
	}
	return l, nil
}

// parseCron reads an expression of 5 fields (minute, hour, day of month, month,
// day of week), of 6 (with the year) or of 7 (with the second first), or a word
// such as @daily.
func parseCron(text string) (c cron, err error) {
	defer func() {
		if r := recover(); r != nil { // the library's, on text that it did not expect
			err = fmt.Errorf("cannot be read: %v", r)
		}
	}()
	words := strings.Fields(text)
	switch n := len(words); {
	case len(text) > maxCronLen:
		return c, fmt.Errorf("is %d bytes long; allowed are %d", len(text), maxCronLen)
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
func (c *cron) after(t time.Time) time.Time {
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

// ParameterizedConfig makes a job a template for dispatched children.
type ParameterizedConfig struct {
	Payload      string
	MetaRequired []string
	MetaOptional []string
}

// What a template says of the payload.
const (
	PayloadOptional  = "optional"
	PayloadRequired  = "required"
	PayloadForbidden = "forbidden"
)

// MaxPayload is how many bytes a payload may have.
const MaxPayload = 16 << 10

// Check returns what is wrong with what a child is to be given.
func (p *ParameterizedConfig) Check(payload []byte, meta map[string]string) error {
	var ps Problems
	switch n := len(payload); {
	case n > MaxPayload:
		ps.Addf("Payload", "%d bytes are too many; allowed are %d", n, MaxPayload)
	case n == 0 && p.Payload == PayloadRequired:
		ps.Addf("Payload", "is missing; the job requires one")
	case n > 0 && p.Payload == PayloadForbidden:
		ps.Addf("Payload", "the job forbids one")
	}
	var missing, unknown []string
	for _, k := range p.MetaRequired {
		if _, ok := meta[k]; !ok {
			missing = append(missing, k)
		}
	}
	for k := range meta {
		if !slices.Contains(p.MetaRequired, k) && !slices.Contains(p.MetaOptional, k) {
			unknown = append(unknown, k)
		}
	}
	slices.Sort(unknown)
	if missing != nil {
		ps.Addf("Meta", "the job requires %s", clip(strings.Join(missing, ", "), 500))
	}
	if unknown != nil {
		allowed := strings.Join(slices.Concat(p.MetaRequired, p.MetaOptional), ", ")
		if allowed == "" {
			allowed = "none"
		}
		ps.Addf("Meta", "%s: the job does not take them; allowed are %s", clip(strings.Join(unknown, ", "), 500), clip(allowed, 500))
	}
	return ps.Err()
}

// Begets says whether the job runs nothing itself and has children that do.
func (j *Job) Begets() bool { return !j.Schedulable() }

// begets checks what launches children.
func (c *checker) begets(at string, j *Job) {
	if j.Periodic != nil {
		c.periodic(at+".periodic", j)
	}
	if j.ParameterizedJob != nil {
		c.parameterized(at+".parameterized", j)
	}
	if j.Periodic != nil && j.ParameterizedJob != nil {
		c.addf(at+".periodic", "is not built yet together with parameterized")
	}
}

func (c *checker) periodic(at string, j *Job) {
	p := j.Periodic
	c.finite(at, j)
	c.oneOf(at+".type", p.SpecType, cronType)
	if _, err := p.location(); err != nil {
		c.addf(at+".time_zone", "%v", err)
	}
	switch {
	case p.Spec != "" && len(p.Specs) > 0:
		c.addf(at+".crons", "cron and crons cannot both be given")
	case p.Spec == "" && len(p.Specs) == 0 && p.Enabled:
		c.addf(at+".crons", "is missing; at least one cron expression is wanted, such as \"0 3 * * *\"")
	case len(p.Specs) > maxCrons:
		c.addf(at+".crons", "%d expressions are too many; allowed are %d", len(p.Specs), maxCrons)
		return
	}
	name := ".cron"
	if p.Spec == "" {
		name = ".crons"
	}
	for _, text := range p.Crons() {
		if _, err := parseCron(text); err != nil {
			c.addf(at+name, "%q %v", clip(text, 64), err)
		}
	}
}

// finite refuses children that never end by themselves.
func (c *checker) finite(at string, j *Job) {
	if j.Type != TypeBatch && j.Type != TypeSysbatch {
		c.addf(at, "is not for jobs of type %s, whose children would never end; allowed are batch and sysbatch", clip(j.Type, 64))
	}
}

func (c *checker) parameterized(at string, j *Job) {
	p := j.ParameterizedJob
	c.finite(at, j)
	c.oneOf(at+".payload", p.Payload, PayloadOptional, PayloadRequired, PayloadForbidden)
	seen := map[string]bool{}
	for _, list := range []struct {
		name string
		keys []string
	}{{"meta_required", p.MetaRequired}, {"meta_optional", p.MetaOptional}} {
		for _, k := range list.keys {
			switch {
			case k == "":
				c.addf(at+"."+list.name, "a key is empty")
			case seen[k]:
				c.addf(at+"."+list.name, "%q is there twice", clip(k, 64))
			}
			seen[k] = true
		}
	}
}

// dispatchPayload checks where a payload is put: below the task's local
// directory.
func (c *checker) dispatchPayload(at string, j *Job, d *DispatchPayload) {
	switch {
	case d == nil:
	case j.ParameterizedJob == nil:
		c.addf(at, "is for jobs that are parameterized; nothing else has a payload")
	case !LocalPath(d.File):
		c.addf(at+".file", "%q is not the path of a file below the task's local directory", clip(d.File, 64))
	}
}

// LocalPath says whether a path is that of a file below the directory that it
// starts from.
func LocalPath(p string) bool {
	return p != "" && len(p) <= 1024 && path.Clean(p) == p && p != "." && p != ".." && !path.IsAbs(p) &&
		!strings.HasPrefix(p, "../") && !strings.ContainsAny(p, "\x00\\")
}
