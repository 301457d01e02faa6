package admit

import (
	"strings"

	"berth"
	"berth/internal/driverconfig"
)

// driver checks that a task names a driver, and its config if the driver is one
// of Berth's. Any name is accepted: agents of other builds may have the driver,
// and only nodes that have it are feasible. What its config may hold is then
// unknown here.
func (c *checker) driver(at string, t *berth.Task) {
	switch schema := driverconfig.Of(t.Driver); {
	case t.Driver == "":
		c.addf(at+".driver", "is missing: want the name of a driver, such as %s", orList(driverconfig.Drivers()))
	case strings.TrimSpace(t.Driver) != t.Driver:
		c.addf(at+".driver", "must not begin or end with a space, got %q", berth.Clip(t.Driver, 64))
	case schema == nil:
		c.line(at+".driver", t.Driver, berth.MaxNameLen)
	default:
		c.problems = append(c.problems, schema.Check(at+".config", t.Config)...)
	}
}
