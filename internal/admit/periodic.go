package admit

import (
	"berth"
	"berth/internal/cron"
)

const (
	cronType = "cron" // the only type of schedule
	maxCrons = 100    // expressions per job
)

// launchers checks the blocks that make a job launch children.
func (c *checker) launchers(at string, j *berth.Job) {
	if j.Periodic != nil {
		c.periodic(at+".periodic", j)
	}
	if j.ParameterizedJob != nil {
		c.parameterized(at+".parameterized", j)
	}
	if j.Periodic != nil && j.ParameterizedJob != nil {
		c.addf(at+".periodic", "is not supported together with parameterized")
	}
}

// periodic checks a periodic block: cron or crons, and the time zone. A
// disabled one may have no expression.
func (c *checker) periodic(at string, j *berth.Job) {
	p := j.Periodic
	c.finite(at, j)
	c.oneOf(at+".type", p.SpecType, cronType)
	if _, err := cron.Zone(p.TimeZone); err != nil {
		c.addf(at+".time_zone", "%v", err)
	}
	switch {
	case p.Spec != "" && len(p.Specs) > 0:
		c.addf(at+".crons", "cannot be combined with cron")
	case p.Spec == "" && len(p.Specs) == 0 && p.Enabled:
		c.addf(at+".crons", "is missing: want at least one cron expression, such as \"0 3 * * *\"")
	case !c.atMost(at+".crons", cronsLimit, len(p.Specs), "expressions"):
		return
	}
	name := ".cron"
	if p.Spec == "" {
		name = ".crons"
	}
	for _, text := range p.Crons() {
		if err := cron.Check(text); err != nil {
			c.addf(at+name, "%q %v", berth.Clip(text, 64), err)
		}
	}
}

// finite refuses job types whose children never end by themselves.
func (c *checker) finite(at string, j *berth.Job) {
	if !hasType(j, berth.TypeBatch, berth.TypeSysbatch) {
		c.addf(at, "is only for jobs of type batch or sysbatch, not %s, whose children would never end", j.Type)
	}
}

// parameterized checks a parameterized block. No key may be both required and
// optional.
func (c *checker) parameterized(at string, j *berth.Job) {
	p := j.ParameterizedJob
	c.finite(at, j)
	c.oneOf(at+".payload", p.Payload, berth.PayloadOptional, berth.PayloadRequired, berth.PayloadForbidden)
	seen := map[string]bool{}
	for _, list := range []struct {
		name string
		keys []string
	}{{"meta_required", p.MetaRequired}, {"meta_optional", p.MetaOptional}} {
		for _, k := range list.keys {
			switch {
			case k == "":
				c.addf(at+"."+list.name, "must not have an empty key")
			case seen[k]:
				c.addf(at+"."+list.name, "%q is listed twice", berth.Clip(k, 64))
			}
			seen[k] = true
		}
	}
}

// dispatchPayload checks where the payload is written: below the task's local
// directory.
func (c *checker) dispatchPayload(at string, j *berth.Job, d *berth.DispatchPayload) {
	switch {
	case d == nil:
	case j.ParameterizedJob == nil:
		c.addf(at, "is only for parameterized jobs; others have no payload")
	case !berth.LocalPath(d.File):
		c.addf(at+".file", "must be the path of a file below the task's local directory, got %q", berth.Clip(d.File, 64))
	}
}
