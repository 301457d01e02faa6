package admit

import (
	"fmt"
	"slices"
	"strings"

	"berth"
)

// order checks which groups a group waits for, and whether it runs once in each
// version of its job.
func (c *checker) order(at string, j *berth.Job, g *berth.TaskGroup) {
	if len(g.DependsOn) == 0 && g.Once == "" {
		return
	}
	if !hasType(j, berth.TypeService, berth.TypeBatch) {
		key := ".depends_on"
		if g.Once != "" {
			key = ".once"
		}
		c.addf(at+key, "is only for jobs of type service or batch, not %s", j.Type)
		return
	}
	if g.Once != "" {
		c.oneOf(at+".once", g.Once, berth.OnceDeployment)
		if g.Update != nil {
			c.addf(at+".update", "is not for a group with once, whose instances end by themselves")
		}
	}
	if !c.atMost(at+".depends_on", awaitsLimit, len(g.DependsOn), "groups") {
		return
	}
	for i, d := range g.DependsOn {
		name, ok := strings.CutPrefix(d, berth.GroupPrefix)
		switch {
		case !ok:
			c.addf(at+".depends_on", "must name groups as %q, got %q", berth.GroupPrefix+"NAME", berth.Clip(d, 64))
		case name == g.Name:
			c.addf(at+".depends_on", "a group cannot wait for itself")
		case j.Group(name) == nil:
			c.addf(at+".depends_on", "the job has no group %q", berth.Clip(name, 64))
		case slices.Contains(g.DependsOn[:i], d):
			c.addf(at+".depends_on", "names %q twice", d)
		}
	}
}

// circles refuses groups that wait for each other. It names the first circle in
// the order of the job.
func (c *checker) circles(at string, j *berth.Job) {
	once := 0
	for _, g := range j.TaskGroups {
		if g.Once != "" {
			once++
		}
		if int64(len(g.DependsOn)) > awaitsLimit.Default { // reported there
			return
		}
	}
	if !j.Ordered() || !c.atMost(at, orderedLimit, len(j.TaskGroups), "groups in a job in which groups wait for others") ||
		!c.atMost(at, onceLimit, once, "groups with once") {
		return
	}
	done := map[*berth.TaskGroup]bool{}
	var path []*berth.TaskGroup
	var visit func(g *berth.TaskGroup) (circle []string)
	visit = func(g *berth.TaskGroup) (circle []string) {
		if i := slices.Index(path, g); i >= 0 {
			for _, p := range append(path[i:], g) {
				circle = append(circle, fmt.Sprintf("%q", berth.Clip(p.Name, 64)))
			}
			return circle
		}
		if done[g] {
			return nil
		}
		path = append(path, g)
		for _, first := range j.Awaits(g) {
			if circle := visit(first); circle != nil {
				return circle
			}
		}
		path = path[:len(path)-1]
		done[g] = true
		return nil
	}
	for _, g := range j.TaskGroups {
		if circle := visit(g); circle != nil {
			c.addf(at, "groups wait for each other: %s", strings.Join(circle, " waits for "))
			return
		}
	}
}
