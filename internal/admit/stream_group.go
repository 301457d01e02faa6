package admit

import (
	"fmt"
	"slices"
	"strings"

	"berth"
	"berth/internal/decode"
)

// streamGroup decodes a group of a stream job. Its parallel region determines
// its count, so a job file cannot set it; the JSON that a server returns has it
// and can be sent back.
func (d *decoder) streamGroup(j *berth.Job, g *berth.TaskGroup, tree decode.Tree, at string) {
	s := defaultStreamGroup()
	g.Stream = &s
	name, _ := decode.Lookup(tree, "Name").(string)
	if r := j.Stream.Region(name); r != nil {
		g.Count = width(r)
	}
	if !d.Loose {
		d.Fill(g, tree, at, "Tasks")
		return
	}
	if count := decode.Lookup(tree, "Count"); count != nil {
		d.Problems.Addf(at+".count", "is not for jobs of type stream, got %s; set the width of a parallel_region", decode.Describe(count))
	}
	d.Fill(g, tree, at, "Tasks", "Count")
}

// streamGroup checks a group of a stream job.
func (c *checker) streamGroup(at string, j *berth.Job, g *berth.TaskGroup, widths map[string]int) {
	if n := widths[g.Name]; g.Count != n {
		where := "for a group in no parallel_region"
		if r := j.Stream.Region(g.Name); r != nil {
			where = fmt.Sprintf("the width of parallel_region %q", berth.Clip(r.Name, 64))
		}
		c.addf(at+".count", "must be %d, %s, got %d", n, where, g.Count)
	}
	s := g.Stream
	c.labels(at+".input", len(s.Inputs), func(i int) string { return s.Inputs[i].Name })
	c.labels(at+".output", len(s.Outputs), func(i int) string { return s.Outputs[i].Name })
	c.inputs(at, g)
	c.placement(at+".placement", j, g)
	for _, t := range g.Tasks {
		if t.Connectivity != nil {
			c.connectivity(fmt.Sprintf("%s.task[%s].connectivity", at, berth.Clip(t.Name, 64)), t.Connectivity)
		}
	}
}

// inputs checks that each input has its own port.
func (c *checker) inputs(at string, g *berth.TaskGroup) {
	taken, labels := map[string]string{}, []string{}
	for i := range g.Networks {
		for _, p := range slices.Concat(g.Networks[i].ReservedPorts, g.Networks[i].DynamicPorts) {
			labels = append(labels, p.Label)
		}
	}
	for i := range g.Stream.Inputs {
		in := &g.Stream.Inputs[i]
		iat := fmt.Sprintf("%s.input[%s].port", at, berth.Clip(in.Name, 64))
		other, twice := taken[in.Port]
		switch {
		case in.Port == "":
			c.addf(iat, "is missing: want the label of a port in the group's network")
		case !slices.Contains(labels, in.Port) && len(labels) == 0:
			c.addf(iat, "unknown port %q: the group's network has no ports", berth.Clip(in.Port, 64))
		case !slices.Contains(labels, in.Port):
			c.addf(iat, "unknown port %q: the group's network has %s", berth.Clip(in.Port, 64), berth.Clip(strings.Join(labels, ", "), 256))
		case twice:
			c.addf(iat, "%q is already the port of input %q", berth.Clip(in.Port, 64), berth.Clip(other, 64))
		}
		taken[in.Port] = in.Name
	}
}

// connectivity checks what a task does when its connections change.
func (c *checker) connectivity(at string, t *berth.TaskConnectivity) {
	c.oneOf(at+".change_mode", t.ChangeMode, berth.ConnectivityNoop, berth.ConnectivitySignal, berth.ConnectivityRestart)
	switch {
	case t.ChangeMode != berth.ConnectivitySignal:
		if t.ChangeSignal != "" {
			c.addf(at+".change_signal", "needs change_mode = %q, got %q", berth.ConnectivitySignal, berth.Clip(t.ChangeMode, 64))
		}
	case !slices.Contains(signals, strings.ToUpper(t.ChangeSignal)):
		c.addf(at+".change_signal", "unknown signal %q: want %s", berth.Clip(t.ChangeSignal, 64), orList(signals))
	}
}

// placement checks the placement block of one group.
func (c *checker) placement(at string, j *berth.Job, g *berth.TaskGroup) {
	p := &g.Stream.Placement
	c.line(at+".host", p.Host, berth.MaxNameLen)
	c.tokens(at+".colocate", p.Colocate)
	c.tokens(at+".exlocate", p.Exlocate)
	for _, token := range p.Colocate {
		if slices.Contains(p.Exlocate, token) {
			c.addf(at+".exlocate", "%q cannot be in colocate too", berth.Clip(token, 64))
		}
	}
	if p.Host != "" && p.Pool != "" {
		c.addf(at+".host", "cannot be combined with pool, got %q", berth.Clip(p.Host, 64))
	}
	// Find the pool; the names are for the message about an unknown one.
	var pool *berth.HostPoolSpec
	var names []string
	for i := range j.Stream.HostPools {
		names = append(names, j.Stream.HostPools[i].Name)
		if j.Stream.HostPools[i].Name == p.Pool {
			pool = &j.Stream.HostPools[i]
		}
	}
	if p.Pool != "" && pool == nil {
		c.addf(at+".pool", "unknown host_pool %q: the job has %s", berth.Clip(p.Pool, 64), berth.Clip(strings.Join(names, ", "), 256))
	}
	if p.PoolHost == nil {
		return
	}
	// pool_host counts the nodes of a pool, so the pool must have a known
	// size.
	switch k := *p.PoolHost; {
	case p.Pool == "":
		c.addf(at+".pool_host", "needs pool: it is the index of a node in a pool, got %d", k)
	case pool == nil: // reported above
	case poolSize(pool) == 0:
		c.addf(at+".pool_host", "host_pool %q must have hosts or a size, got pool_host = %d", berth.Clip(p.Pool, 64), k)
	case k < 0 || k >= poolSize(pool):
		c.addf(at+".pool_host", "must be 0 to %d, got %d", poolSize(pool)-1, k)
	}
}

// poolSize returns the number of nodes in the pool, or 0 if that is not given.
func poolSize(p *berth.HostPoolSpec) int {
	if p.Size > 0 {
		return p.Size
	}
	return len(p.Hosts)
}

// colocated is a set of groups whose processing elements all run on one node.
type colocated struct {
	groups   []*berth.TaskGroup
	elements int
}

// colocation refuses placements that no set of nodes can satisfy: processing
// elements that must share a node although two of them must not, or one is
// isolated.
func (c *checker) colocation(at string, j *berth.Job, widths map[string]int) {
	for _, m := range colocatedGroups(j, widths) {
		holder := map[string]*berth.TaskGroup{}
		for _, g := range m.groups {
			p := &g.Stream.Placement
			pat := fmt.Sprintf("%s.group[%s].placement", at, berth.Clip(g.Name, 64))
			if p.Isolated && m.elements > 1 {
				c.addf(pat+".isolated", "contradicts colocate, which puts %d processing elements on one node", m.elements)
			}
			for _, token := range p.Exlocate {
				other := holder[token]
				switch {
				case other != nil:
					c.addf(pat+".exlocate", "%q separates this group from group %q, but colocate puts both on one node", berth.Clip(token, 64), berth.Clip(other.Name, 64))
				case widths[g.Name] > 1:
					c.addf(pat+".exlocate", "%q separates the %d channels of the group, but colocate puts them on one node", berth.Clip(token, 64), widths[g.Name])
				}
				holder[token] = g
			}
		}
	}
}

// colocatedGroups returns the sets of groups that share colocate tokens,
// directly or through other groups.
func colocatedGroups(j *berth.Job, widths map[string]int) (out []*colocated) {
	of := map[string]*colocated{} // by token
	for _, g := range j.TaskGroups {
		tokens := g.Stream.Placement.Colocate
		if len(tokens) == 0 {
			continue
		}
		m := &colocated{groups: []*berth.TaskGroup{g}, elements: widths[g.Name]}
		for _, token := range tokens {
			if o := of[token]; o != nil && o != m {
				m.groups, m.elements = append(o.groups, m.groups...), m.elements+o.elements
				for t, x := range of {
					if x == o {
						of[t] = m
					}
				}
				out = slices.DeleteFunc(out, func(x *colocated) bool { return x == o })
			}
			of[token] = m
		}
		out = append(out, m)
	}
	return out
}
