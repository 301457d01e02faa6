package explain

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"berth"
	"berth/internal/schedule/place"
	"berth/internal/state"
	"berth/op"
)

// presentTried is how many nodes that are there are tried for a group.
const presentTried = 8

// optional are the drivers that every agent has, but that are off unless its
// configuration enables them.
var optional = []string{"raw_exec", "mock_driver"}

// present looks for a node that is there and would do if it was eligible, or if
// a driver was enabled on it.
func (f *finder) present(all []place.Verdict) {
	tried := 0
	for n := range f.ineligible() {
		if tried++; tried > presentTried {
			break
		}
		if f.works(f.enabled(n)) {
			f.add(costEnable, op.Change{Present: &op.Present{NodeID: n.ID, NodeName: n.Name, Eligible: true}})
			break
		}
	}
	tried = 0
	for _, v := range all {
		drivers := f.lackedDrivers(v.Node)
		if len(drivers) == 0 || len(v.Unmet) != 1 {
			continue
		}
		if tried++; tried > presentTried {
			break
		}
		if f.works(f.equipped(v.Node, drivers)) {
			f.add(costEnable, op.Change{Present: &op.Present{NodeID: v.Node.ID, NodeName: v.Node.Name, Drivers: drivers}})
			break
		}
	}
}

// ineligible are the nodes that are ready, but were made ineligible.
func (f *finder) ineligible() iter.Seq[*berth.Node] {
	return func(yield func(*berth.Node) bool) {
		for n := range f.snap.Nodes() {
			if n.Status == berth.NodeReady && n.SchedulingEligibility == berth.NodeIneligible && n.DrainStrategy == nil && !yield(n) {
				return
			}
		}
	}
}

// enabled returns the command that makes a node eligible.
func (f *finder) enabled(n *berth.Node) state.Command {
	return &state.SetNodeEligibility{ID: n.ID, Eligibility: berth.NodeEligible, Now: f.now.UnixNano()}
}

// equipped returns the command that registers a node with some more drivers.
func (f *finder) equipped(n *berth.Node, drivers []string) state.Command {
	return &state.RegisterNode{Node: withDrivers(n, drivers), Now: f.now.UnixNano()}
}

// lackedDrivers returns the drivers of the group that a node does not have, and
// that its configuration can enable.
func (f *finder) lackedDrivers(n *berth.Node) (out []string) {
	for _, t := range f.group.Tasks {
		if d := n.Drivers[t.Driver]; (d == nil || !d.Detected) && !slices.Contains(out, t.Driver) {
			if !slices.Contains(optional, t.Driver) {
				return nil // needs more than configuration
			}
			out = append(out, t.Driver)
		}
	}
	return out
}

// withDrivers returns the node with some more drivers.
func withDrivers(old *berth.Node, drivers []string) *berth.Node {
	n := *old
	n.Drivers, n.Attributes = maps.Clone(n.Drivers), maps.Clone(n.Attributes)
	if n.Drivers == nil {
		n.Drivers = map[string]*berth.DriverInfo{}
	}
	if n.Attributes == nil {
		n.Attributes = map[string]string{}
	}
	for _, d := range drivers {
		n.Drivers[d] = &berth.DriverInfo{Detected: true, Healthy: true}
		n.Attributes["driver."+d] = "1"
	}
	return &n
}

// presentText describes the change of a node.
func presentText(p *op.Present) string {
	if p.Eligible {
		return fmt.Sprintf("node %s made eligible: node eligibility -enable %s", p.NodeName, p.NodeID.Short())
	}
	var config []string
	for _, d := range p.Drivers {
		config = append(config, fmt.Sprintf("plugin %q { config { enabled = true } }", d))
	}
	return fmt.Sprintf("%s in the configuration of node %s, which has %s disabled", strings.Join(config, " "), p.NodeName, strings.Join(p.Drivers, " and "))
}
