package admit

import (
	"berth"
	"berth/internal/cron"
)

const (
	cronType = "cron"
	maxCrons = 100
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

func (c *checker) periodic(at string, j *berth.Job) {
	p := j.Periodic
	c.finite(at, j)
	c.oneOf(at+".type", p.SpecType, cronType)
	if _, err := cron.Zone(p.TimeZone); err != nil {
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
		if err := cron.Check(text); err != nil {
			c.addf(at+name, "%q %v", berth.Clip(text, 64), err)
		}
	}
}

// finite refuses children that never end by themselves.
func (c *checker) finite(at string, j *berth.Job) {
	if j.Type != berth.TypeBatch && j.Type != berth.TypeSysbatch {
		c.addf(at, "is not for jobs of type %s, whose children would never end; allowed are batch and sysbatch", berth.Clip(j.Type, 64))
	}
}

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
				c.addf(at+"."+list.name, "a key is empty")
			case seen[k]:
				c.addf(at+"."+list.name, "%q is there twice", berth.Clip(k, 64))
			}
			seen[k] = true
		}
	}
}

// dispatchPayload checks where a payload is put: below the task's local
// directory.
func (c *checker) dispatchPayload(at string, j *berth.Job, d *berth.DispatchPayload) {
	switch {
	case d == nil:
	case j.ParameterizedJob == nil:
		c.addf(at, "is for jobs that are parameterized; nothing else has a payload")
	case !berth.LocalPath(d.File):
		c.addf(at+".file", "%q is not the path of a file below the task's local directory", berth.Clip(d.File, 64))
	}
}
