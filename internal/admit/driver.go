package admit

import (
	"strings"

	"berth"
	"berth/internal/driverconfig"
)

// driver checks that a task's driver exists, and its config against what the
// driver declares.
func (c *checker) driver(at string, t *berth.Task) {
	schema := driverconfig.Of(t.Driver)
	if schema == nil {
		what := "is not a driver of this build"
		if t.Driver == "" {
			what = "is missing"
		}
		c.addf(at+".driver", "%q %s; allowed are %s", berth.Clip(t.Driver, 64), what, strings.Join(driverconfig.Drivers(), ", "))
		return
	}
	c.problems = append(c.problems, schema.Check(at+".config", t.Config)...)
}
