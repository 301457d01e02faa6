package berth

import (
	"fmt"
	"slices"
	"strings"
)

// streamGroup checks what a group of a stream job says.
func (c *checker) streamGroup(at string, j *Job, g *TaskGroup, widths map[string]int) {
	if n := widths[g.Name]; g.Count != n {
		where := "it is in no parallel_region"
		if r := j.Stream.Region(g.Name); r != nil {
			where = fmt.Sprintf("the width of parallel_region %q says how many", clip(r.Name, 64))
		}
		c.addf(at+".count", "%d is not allowed in a job of type stream; allowed is %d: %s", g.Count, n, where)
	}
	s := g.Stream
	c.named(at+".input", len(s.Inputs), func(i int) string { return s.Inputs[i].Name })
	c.named(at+".output", len(s.Outputs), func(i int) string { return s.Outputs[i].Name })
	c.inputs(at, g)
	c.placement(at+".placement", j, g)
	for _, t := range g.Tasks {
		if t.Connectivity != nil {
			c.connectivity(fmt.Sprintf("%s.task[%s].connectivity", at, clip(t.Name, 64)), t.Connectivity)
		}
	}
}

// inputs checks that each input has a port of its own.
func (c *checker) inputs(at string, g *TaskGroup) {
	taken, labels := map[string]string{}, []string{}
	for i := range g.Networks {
		for _, p := range slices.Concat(g.Networks[i].ReservedPorts, g.Networks[i].DynamicPorts) {
			labels = append(labels, p.Label)
		}
	}
	for i := range g.Stream.Inputs {
		in := &g.Stream.Inputs[i]
		iat := fmt.Sprintf("%s.input[%s].port", at, clip(in.Name, 64))
		other, twice := taken[in.Port]
		switch {
		case in.Port == "":
			c.addf(iat, "is missing; the label of a port of the group's network is wanted")
		case !slices.Contains(labels, in.Port) && len(labels) == 0:
			c.addf(iat, "%q: the group's network has no ports", clip(in.Port, 64))
		case !slices.Contains(labels, in.Port):
			c.addf(iat, "%q is no port of the group's network; it has %s", clip(in.Port, 64), clip(strings.Join(labels, ", "), 256))
		case twice:
			c.addf(iat, "%q is the port of input %q too", clip(in.Port, 64), clip(other, 64))
		}
		taken[in.Port] = in.Name
	}
}

func (c *checker) connectivity(at string, t *TaskConnectivity) {
	c.oneOf(at+".change_mode", t.ChangeMode, ConnectivityNoop, ConnectivitySignal, ConnectivityRestart)
	switch {
	case t.ChangeMode != ConnectivitySignal:
		if t.ChangeSignal != "" {
			c.addf(at+".change_signal", "%q is there, and change_mode is %s; a signal is for change_mode %s", clip(t.ChangeSignal, 64), clip(t.ChangeMode, 64), ConnectivitySignal)
		}
	case !slices.Contains(signals, strings.ToUpper(t.ChangeSignal)):
		c.addf(at+".change_signal", "%q is not a signal; allowed are %s", clip(t.ChangeSignal, 64), strings.Join(signals, ", "))
	}
}

// placement checks the conditions of a group by themselves.
func (c *checker) placement(at string, j *Job, g *TaskGroup) {
	p := &g.Stream.Placement
	c.line(at+".host", p.Host, MaxNameLen)
	c.words(at+".colocate", p.Colocate, maxTokens)
	c.words(at+".exlocate", p.Exlocate, maxTokens)
	for _, token := range p.Colocate {
		if slices.Contains(p.Exlocate, token) {
			c.addf(at+".exlocate", "%q is in colocate too; a token is in one of them", clip(token, 64))
		}
	}
	if p.Host != "" && p.Pool != "" {
		c.addf(at+".host", "%q stands beside pool; allowed is one of them", clip(p.Host, 64))
	}
	var pool *HostPoolSpec
	var names []string
	for i := range j.Stream.HostPools {
		names = append(names, j.Stream.HostPools[i].Name)
		if j.Stream.HostPools[i].Name == p.Pool {
			pool = &j.Stream.HostPools[i]
		}
	}
	if p.Pool != "" && pool == nil {
		c.addf(at+".pool", "there is no host_pool %q; there are %s", clip(p.Pool, 64), clip(strings.Join(names, ", "), 256))
	}
	if p.PoolHost == nil {
		return
	}
	switch k := *p.PoolHost; {
	case p.Pool == "":
		c.addf(at+".pool_host", "%d is there without pool; it counts the nodes of a pool from 0", k)
	case pool == nil: // told already
	case pool.nodes() == 0:
		c.addf(at+".pool_host", "%d: host_pool %q has neither hosts nor a size, so its nodes are not counted", k, clip(p.Pool, 64))
	case k < 0 || k >= pool.nodes():
		c.addf(at+".pool_host", "%d is out of range; allowed are 0 to %d", k, pool.nodes()-1)
	}
}

// nodes returns how many nodes the pool has, 0 if that is not given.
func (p *HostPoolSpec) nodes() int {
	if p.Size > 0 {
		return p.Size
	}
	return len(p.Hosts)
}

// unjoined warns of ports of a stream job that nothing is joined with: what is
// sent there goes nowhere, and nothing comes in.
func (j *Job) unjoined() (out []string) {
	used := map[string]bool{}
	for i := range j.Stream.Streams {
		s := &j.Stream.Streams[i]
		used["output "+s.From] = true
		for _, to := range s.To {
			used["input "+to] = true
		}
	}
	for i := range j.Stream.Exports {
		used["output "+j.Stream.Exports[i].From] = true
	}
	for i := range j.Stream.Imports {
		used["input "+j.Stream.Imports[i].Into] = true
	}
	for _, g := range j.TaskGroups {
		for i := range g.Stream.Inputs {
			if name := g.Stream.Inputs[i].Name; !used["input "+g.Name+"."+name] {
				out = append(out, fmt.Sprintf("group %q: input %q is fed by no stream and no import", g.Name, name))
			}
		}
		for i := range g.Stream.Outputs {
			if name := g.Stream.Outputs[i].Name; !used["output "+g.Name+"."+name] {
				out = append(out, fmt.Sprintf("group %q: output %q feeds no stream and no export", g.Name, name))
			}
		}
	}
	return out
}

// company is a set of groups of which all processing elements are on one node.
type company struct {
	groups   []*TaskGroup
	elements int
}

// together looks for conditions of several processing elements that exclude
// each other whatever nodes there are: those that must be on one node, and of
// which two must not be, or one is isolated.
func (c *checker) together(at string, j *Job, widths map[string]int) {
	for _, m := range companies(j, widths) {
		holder := map[string]*TaskGroup{}
		for _, g := range m.groups {
			p := &g.Stream.Placement
			pat := fmt.Sprintf("%s.group[%s].placement", at, clip(g.Name, 64))
			if p.Isolated && m.elements > 1 {
				c.addf(pat+".isolated", "the group is alone on its node, and colocate puts %d processing elements there", m.elements)
			}
			for _, token := range p.Exlocate {
				other := holder[token]
				switch {
				case other != nil:
					c.addf(pat+".exlocate", "%q keeps the group from the node of group %q, and colocate puts both on one", clip(token, 64), clip(other.Name, 64))
				case widths[g.Name] > 1:
					c.addf(pat+".exlocate", "%q keeps the %d channels of the group from one another's nodes, and colocate puts them on one", clip(token, 64), widths[g.Name])
				}
				holder[token] = g
			}
		}
	}
}

// companies returns the groups that share tokens to colocate, directly or by
// others between them.
func companies(j *Job, widths map[string]int) (out []*company) {
	of := map[string]*company{} // by token
	for _, g := range j.TaskGroups {
		tokens := g.Stream.Placement.Colocate
		if len(tokens) == 0 {
			continue
		}
		m := &company{groups: []*TaskGroup{g}, elements: widths[g.Name]}
		for _, token := range tokens {
			if o := of[token]; o != nil && o != m {
				m.groups, m.elements = append(o.groups, m.groups...), m.elements+o.elements
				for t, x := range of {
					if x == o {
						of[t] = m
					}
				}
				out = slices.DeleteFunc(out, func(x *company) bool { return x == o })
			}
			of[token] = m
		}
		out = append(out, m)
	}
	return out
}
