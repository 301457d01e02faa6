package admit

import (
	"fmt"

	"berth"
)

// rolling checks the templates that restart the allocations of a group in turn:
// how many at a time, and when the next, is what the update block says.
func (c *checker) rolling(at string, j *berth.Job, g *berth.TaskGroup) {
	for _, t := range g.Tasks {
		for i := range t.Templates {
			x := &t.Templates[i]
			if !x.Rolling {
				continue
			}
			here := fmt.Sprintf("%s.task[%s].template[%d].rolling", at, berth.Clip(t.Name, 64), i)
			switch u := g.Update; {
			case x.ChangeMode != berth.ChangeRestart || x.Once:
				c.addf(here, "has no effect unless change_mode is restart, without once")
			case j.Type != berth.TypeService:
				c.addf(here, "is only for jobs of type service, not %s", j.Type)
			case u == nil || u.MaxParallel == 0:
				c.addf(here, "needs an update block whose max_parallel is at least 1")
			case u.HealthCheck == berth.HealthManual:
				c.addf(here, "needs an update block whose health_check is checks or task_states, not manual")
			}
		}
	}
}
