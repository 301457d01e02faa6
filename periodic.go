package berth

import (
	"path"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // so that a server without a zone database knows the same zones
)

// PeriodicConfig launches children at certain times.
type PeriodicConfig struct {
	Enabled         bool     // false: nothing is launched, except by hand
	Spec            string   `hcl:"cron"` // a cron expression; either this or Specs
	Specs           []string `hcl:"crons"`
	SpecType        string   `hcl:"-"` // always cron
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
	Payload      string   // one of the Payload constants
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

// Begets reports whether the job runs nothing itself and has children that do.
func (j *Job) Begets() bool { return !j.Schedulable() }

// LocalPath reports whether a path names a file below the directory that it is
// relative to.
func LocalPath(p string) bool {
	return p != "" && len(p) <= 1024 && path.Clean(p) == p && p != "." && p != ".." && !path.IsAbs(p) &&
		!strings.HasPrefix(p, "../") && !strings.ContainsAny(p, "\x00\\")
}
