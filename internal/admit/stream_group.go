package admit

import (
	"fmt"
	"slices"
	"strings"

	"berth"
	"berth/internal/decode"
)

// streamGroup reads a group of a stream job. How many instances it has follows
// from its parallel region, so a job file does not say it; what a server shows of
// a job does, and may be sent again.
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
		d.Problems.Addf(at+".count", "%s is not for jobs of type stream: the width of a parallel_region says how many", decode.Describe(count))
	}
	d.Fill(g, tree, at, "Tasks", "Count")
}

// streamGroup checks what a group of a stream job says.
func (c *checker) streamGroup(at string, j *berth.Job, g *berth.TaskGroup, widths map[string]int) {
	if n := widths[g.Name]; g.Count != n {
		where := "it is in no parallel_region"
		if r := j.Stream.Region(g.Name); r != nil {
			where = fmt.Sprintf("the width of parallel_region %q says how many", berth.Clip(r.Name, 64))
		}
		c.addf(at+".count", "%d is not allowed in a job of type stream; allowed is %d: %s", g.Count, n, where)
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

// inputs checks that each input has a port of its own.
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
			c.addf(iat, "is missing; the label of a port of the group's network is wanted")
		case !slices.Contains(labels, in.Port) && len(labels) == 0:
			c.addf(iat, "%q: the group's network has no ports", berth.Clip(in.Port, 64))
		case !slices.Contains(labels, in.Port):
			c.addf(iat, "%q is no port of the group's network; it has %s", berth.Clip(in.Port, 64), berth.Clip(strings.Join(labels, ", "), 256))
		case twice:
			c.addf(iat, "%q is the port of input %q too", berth.Clip(in.Port, 64), berth.Clip(other, 64))
		}
		taken[in.Port] = in.Name
	}
}

func (c *checker) connectivity(at string, t *berth.TaskConnectivity) {
	c.oneOf(at+".change_mode", t.ChangeMode, berth.ConnectivityNoop, berth.ConnectivitySignal, berth.ConnectivityRestart)
	switch {
	case t.ChangeMode != berth.ConnectivitySignal:
		if t.ChangeSignal != "" {
			c.addf(at+".change_signal", "%q is there, and change_mode is %s; a signal is for change_mode %s", berth.Clip(t.ChangeSignal, 64), berth.Clip(t.ChangeMode, 64), berth.ConnectivitySignal)
		}
	case !slices.Contains(signals, strings.ToUpper(t.ChangeSignal)):
		c.addf(at+".change_signal", "%q is not a signal; allowed are %s", berth.Clip(t.ChangeSignal, 64), strings.Join(signals, ", "))
	}
}

// placement checks the conditions of a group by themselves.
func (c *checker) placement(at string, j *berth.Job, g *berth.TaskGroup) {
	p := &g.Stream.Placement
	c.line(at+".host", p.Host, berth.MaxNameLen)
	c.tokens(at+".colocate", p.Colocate, maxTokens)
	c.tokens(at+".exlocate", p.Exlocate, maxTokens)
	for _, token := range p.Colocate {
		if slices.Contains(p.Exlocate, token) {
			c.addf(at+".exlocate", "%q is in colocate too; a token is in one of them", berth.Clip(token, 64))
		}
	}
	if p.Host != "" && p.Pool != "" {
		c.addf(at+".host", "%q stands beside pool; allowed is one of them", berth.Clip(p.Host, 64))
	}
	var pool *berth.HostPoolSpec
	var names []string
	for i := range j.Stream.HostPools {
		names = append(names, j.Stream.HostPools[i].Name)
		if j.Stream.HostPools[i].Name == p.Pool {
			pool = &j.Stream.HostPools[i]
		}
	}
	if p.Pool != "" && pool == nil {
		c.addf(at+".pool", "there is no host_pool %q; there are %s", berth.Clip(p.Pool, 64), berth.Clip(strings.Join(names, ", "), 256))
	}
	if p.PoolHost == nil {
		return
	}
	switch k := *p.PoolHost; {
	case p.Pool == "":
		c.addf(at+".pool_host", "%d is there without pool; it counts the nodes of a pool from 0", k)
	case pool == nil: // told already
	case poolSize(pool) == 0:
		c.addf(at+".pool_host", "%d: host_pool %q has neither hosts nor a size, so its nodes are not counted", k, berth.Clip(p.Pool, 64))
	case k < 0 || k >= poolSize(pool):
		c.addf(at+".pool_host", "%d is out of range; allowed are 0 to %d", k, poolSize(pool)-1)
	}
}

// poolSize returns how many nodes the pool has, 0 if that is not given.
func poolSize(p *berth.HostPoolSpec) int {
	if p.Size > 0 {
		return p.Size
	}
	return len(p.Hosts)
}

// colocated is a set of groups of which all processing elements are on one node.
type colocated struct {
	groups   []*berth.TaskGroup
	elements int
}

// colocation looks for conditions of several processing elements that exclude
// each other whatever nodes there are: those that must be on one node, and of
// which two must not be, or one is isolated.
func (c *checker) colocation(at string, j *berth.Job, widths map[string]int) {
	for _, m := range colocatedGroups(j, widths) {
		holder := map[string]*berth.TaskGroup{}
		for _, g := range m.groups {
			p := &g.Stream.Placement
			pat := fmt.Sprintf("%s.group[%s].placement", at, berth.Clip(g.Name, 64))
			if p.Isolated && m.elements > 1 {
				c.addf(pat+".isolated", "the group is alone on its node, and colocate puts %d processing elements there", m.elements)
			}
			for _, token := range p.Exlocate {
				other := holder[token]
				switch {
				case other != nil:
					c.addf(pat+".exlocate", "%q keeps the group from the node of group %q, and colocate puts both on one", berth.Clip(token, 64), berth.Clip(other.Name, 64))
				case widths[g.Name] > 1:
					c.addf(pat+".exlocate", "%q keeps the %d channels of the group from one another's nodes, and colocate puts them on one", berth.Clip(token, 64), widths[g.Name])
				}
				holder[token] = g
			}
		}
	}
}

// colocatedGroups returns the groups that share tokens to colocate, directly or by
// others between them.
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
