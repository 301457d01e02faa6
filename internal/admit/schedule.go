package admit

import (
	"berth"
	"berth/internal/cron"
)

// schedule checks when a task runs. What runs to its end is not stopped in
// between, so only tasks that run on have a schedule.
func (c *checker) schedule(at string, j *berth.Job, t *berth.Task) {
	switch {
	case t.Schedule == nil:
	case j.Type != berth.TypeService && j.Type != berth.TypeSystem:
		c.addf(at, "must not be set in a job of type %q: want service or system", berth.Clip(j.Type, 64))
	case t.Lifecycle != nil && !t.Sidecar():
		c.addf(at, "must not be set for a task that runs to its end: it has a lifecycle block, and is no sidecar")
	case t.Schedule.Cron == nil:
		c.addf(at+".cron", "is missing: want a block with start and end")
	default:
		if _, err := cron.NewWindow(t.Schedule.Cron); err != nil {
			c.addf(at+".cron", "%s", err)
		}
	}
}
