package explain

import (
	"maps"
	"slices"
	"strconv"
	"strings"

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
			number, ok := staticPort(s)
			if !ok {
				continue
			}
			a := place.Holder(f.snap, v.Node, uint16(number))
			if a == nil || a.Key() == f.job.Key() { // the job's own instances would take it again
				continue
			}
			tried++
			if f.works(ended(a, f.now)) {
				f.add(costPort, op.Change{Port: &op.FreePort{
					Port: number, NodeID: v.Node.ID, NodeName: v.Node.Name, Holder: a.Name(), AllocID: a.ID, JobID: a.Job.ID,
				}})
			}
		}
	}
	// A dynamic port instead helps on every node at once, so each is tried
	// once.
	for _, number := range f.staticPorts(all) {
		if f.works(f.register(f.dynamic(number))) {
			f.add(costDynamic, op.Change{Port: &op.FreePort{Port: number, Dynamic: true}})
		}
	}
}

// staticPort returns the number of the static port that a node lacks.
func staticPort(s berth.Shortage) (number int, ok bool) {
	number, err := strconv.Atoi(strings.TrimPrefix(s.Dimension, fit.DimPort))
	return number, err == nil
}

// staticPorts returns the static ports that nodes which meet all conditions
// lack.
func (f *finder) staticPorts(all []place.Verdict) []int {
	wanted := map[int]bool{}
	for _, v := range all {
		if len(v.Unmet) > 0 {
			break
		}
		for _, s := range v.Shortages {
			if number, ok := staticPort(s); ok {
				wanted[number] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(wanted))
}

// dynamic returns the job with a dynamic port instead of a static one.
func (f *finder) dynamic(number int) *berth.Job {
	j, g := f.edited()
	for _, nw := range g.AllNetworks() { // copies of our own
		nw.DynamicPorts = slices.Clone(nw.DynamicPorts)
		nw.ReservedPorts = slices.DeleteFunc(slices.Clone(nw.ReservedPorts), func(p berth.Port) bool {
			if p.Value != number {
				return false
			}
			p.Value = 0
			nw.DynamicPorts = append(nw.DynamicPorts, p)
			return true
		})
	}
	return j
}
