package admit

import (
	"berth"
	"berth/internal/driverconfig"
)

// driver checks that a task's driver exists, and its config against the driver's
// schema.
func (c *checker) driver(at string, t *berth.Task) {
	schema := driverconfig.Of(t.Driver)
	if schema == nil {
		c.oneOf(at+".driver", t.Driver, driverconfig.Drivers()...)
		return
	}
	c.problems = append(c.problems, schema.Check(at+".config", t.Config)...)
}
