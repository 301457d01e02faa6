package explain

import (
	"cmp"
	"maps"
	"slices"

	"berth"
	"berth/internal/fit"
	"berth/internal/schedule/place"
	"berth/op"
)

// ports looks for a static port that would help if it were free, or if the job
// used a dynamic one.
func (f *finder) ports(all []place.Verdict) {
	tried := 0
	for _, v := range all {
		if len(v.Unmet) > 0 || tried == portsTried {
			break
		}
		for _, s := range v.Shortages {
			d := fit.ParseDimension(s.Dimension)
			if d.Kind != fit.StaticPort {
				continue
			}
			a := place.Holder(f.snap, v.Node, d.Network, d.Port)
			if a == nil || a.Key() == f.job.Key() { // the job's own instances would take it again
				continue
			}
			tried++
			if f.works(ended(a, f.now)) {
				p := freePort(d)
				p.NodeID, p.NodeName, p.Holder, p.AllocID, p.JobID = v.Node.ID, v.Node.Name, a.Name(), a.ID, a.Job.ID
				f.add(costPort, op.Change{Port: p})
			}
		}
	}
	// A dynamic port instead helps on every node at once, so each is tried
	// once.
	for _, d := range f.staticPorts(all) {
		if f.works(f.register(f.dynamic(d))) {
			f.add(costDynamic, op.Change{Port: dynamicPort(d)})
		}
	}
}

// freePort returns the port of a shortage, for the API.
func freePort(d fit.Dimension) *op.FreePort {
	p := &op.FreePort{Port: int(d.Port)}
	if d.Network != berth.DefaultHostNetwork {
		p.HostNetwork = d.Network
	}
	return p
}

// dynamicPort is freePort for a port that a dynamic one replaces.
func dynamicPort(d fit.Dimension) *op.FreePort {
	p := freePort(d)
	p.Dynamic = true
	return p
}

// staticPorts returns the static ports that nodes which meet all conditions
// lack.
func (f *finder) staticPorts(all []place.Verdict) []fit.Dimension {
	wanted := map[fit.Dimension]bool{}
	for _, v := range all {
		if len(v.Unmet) > 0 {
			break
		}
		for _, s := range v.Shortages {
			if d := fit.ParseDimension(s.Dimension); d.Kind == fit.StaticPort {
				wanted[d] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(wanted), func(a, b fit.Dimension) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Network, b.Network))
	})
}

// dynamic returns the job with a dynamic port instead of a static one.
func (f *finder) dynamic(d fit.Dimension) *berth.Job {
	j, g := f.edited()
	for _, nw := range g.AllNetworks() { // copies of our own
		nw.DynamicPorts = slices.Clone(nw.DynamicPorts)
		nw.ReservedPorts = slices.DeleteFunc(slices.Clone(nw.ReservedPorts), func(p berth.Port) bool {
			if p.Value != int(d.Port) || p.Network() != d.Network {
				return false
			}
			p.Value = 0
			nw.DynamicPorts = append(nw.DynamicPorts, p)
			return true
		})
	}
	return j
}
