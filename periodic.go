package berth

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // so that a server without a zone database knows the same zones
)

// PeriodicConfig launches children at certain times.
type PeriodicConfig struct {
	Enabled         bool
	Spec            string   `hcl:"cron"`
	Specs           []string `hcl:"crons"`
	SpecType        string   `hcl:"-"`
	ProhibitOverlap bool     // no launch while a child runs
	TimeZone        string   // IANA name; "" is UTC
}

// What separates a parent's ID from the rest of a child's ID.
const (
	PeriodicInfix = "/periodic-" // then seconds since 1970: web/periodic-1700000000
	DispatchInfix = "/dispatch-"
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

// ParameterizedConfig makes a job a template for dispatched children.
type ParameterizedConfig struct {
	Payload      string
	MetaRequired []string // keys that a dispatch must set
	MetaOptional []string // keys that a dispatch may set
}

// Whether a parameterized job takes a payload.
const (
	PayloadOptional  = "optional"
	PayloadRequired  = "required"
	PayloadForbidden = "forbidden"
)

// MaxPayload is the largest payload in bytes.
const MaxPayload = 16 << 10

// Check returns an error if a child may not have this payload and meta.
func (p *ParameterizedConfig) Check(payload []byte, meta map[string]string) error {
	var ps Problems
	switch n := len(payload); {
	case n > MaxPayload:
		ps.Addf("Payload", "must be at most %d bytes, got %d", MaxPayload, n)
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
	// Map order is random; the same request must always get the same
	// message.
	slices.Sort(unknown)
	if missing != nil {
		ps.Addf("Meta", "the job requires %s", Clip(strings.Join(missing, ", "), 500))
	}
	if unknown != nil {
		allowed := strings.Join(slices.Concat(p.MetaRequired, p.MetaOptional), ", ")
		if allowed == "" {
			allowed = "none"
		}
		ps.Addf("Meta", "unknown keys %s: want %s", Clip(strings.Join(unknown, ", "), 500), Clip(allowed, 500))
	}
	return ps.Err()
}

// Begets reports whether the job runs nothing itself and has children that do.
func (j *Job) Begets() bool { return !j.Schedulable() }

// LocalPath reports whether a path names a file below the directory that it is
// relative to.
func LocalPath(p string) bool {
	return p != "" && len(p) <= 1024 && path.Clean(p) == p && p != "." && p != ".." && !path.IsAbs(p) &&
		!strings.HasPrefix(p, "../") && !strings.ContainsAny(p, "\x00\\")
}
