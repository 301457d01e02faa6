package placement

import (
	"fmt"
	"slices"
	"strings"

	"berth"
	"berth/internal/state"
)

// Rules are the placement rules of a stream job's processing elements: hosts,
// host pools, colocation, exlocation and isolation. They are hard constraints,
// checked when something is placed and not afterwards.
type Rules struct {
	snap  *state.Snapshot
	view  *View
	pools map[string]map[berth.NodeID]int // the job's pools with assigned nodes: the position of each node
	peers []peer                          // processing elements that have a node
}

// peer is a processing element that has a node.
type peer struct {
	name  string
	place *berth.PEPlacement // its placement rules
	node  berth.NodeID
}

// NewRules returns the rules for placing what a view lists as unplaced.
func NewRules(snap *state.Snapshot, v *View) *Rules {
	s := &Rules{snap: snap, view: v, pools: map[string]map[berth.NodeID]int{}}
	for r := range snap.ResourcesOf(v.row.UID, berth.KindHostPool) {
		if r.Nodes != nil {
			at := map[berth.NodeID]int{}
			for i, id := range r.Nodes {
				at[id] = i
			}
			s.pools[r.Name] = at
		}
	}
	for _, a := range v.live {
		s.peers = append(s.peers, peer{a.Name(), placementOf(a.Group), a.NodeID})
	}
	return s
}

// placementOf returns the group's placement rules, never nil.
func placementOf(g *berth.TaskGroup) *berth.PEPlacement {
	if g.Stream == nil {
		return &berth.PEPlacement{}
	}
	return &g.Stream.Placement
}

// Placed records where a processing element was placed.
func (s *Rules) Placed(w Waiting, node berth.NodeID) {
	s.peers = append(s.peers, peer{w.PE.Name, w.placement(), node})
}

// Excluder returns a function that returns why a node may not be used for a
// processing element, "" if it may.
func (s *Rules) Excluder(w Waiting) func(*berth.Node) string {
	p := w.placement()
	// The peers are sorted out once; the function is called for each node.
	alone := p.Isolated && len(s.peers) > 0
	var apart []peer // it must not share a node with these
	var with []peer  // it must share a node with these
	for _, x := range s.peers {
		switch {
		case share(p.Colocate, x.place.Colocate):
			with = append(with, x)
		case alone, x.place.Isolated, share(p.Exlocate, x.place.Exlocate):
			apart = append(apart, x)
		}
	}
	return func(n *berth.Node) string {
		if p.Host != "" && !IsHost(n, p.Host) {
			return "not host " + p.Host
		}
		if why := s.outside(p, n); why != "" {
			return why
		}
		if h := s.snap.Holder(n.ID); h != nil && h.Owner != s.view.row.UID {
			return fmt.Sprintf("reserved by host pool %s of job %s", h.Name, h.Job.ID)
		}
		for _, x := range with {
			if x.node != n.ID {
				return "colocated with " + x.name + " on another node"
			}
		}
		for _, x := range apart {
			if x.node == n.ID {
				return "must not run beside " + x.name
			}
		}
		return ""
	}
}

// outside returns a reason if a node is not in the pool that a processing
// element must use, or not at its position in it, otherwise "".
func (s *Rules) outside(p *berth.PEPlacement, n *berth.Node) string {
	if p.Pool == "" {
		return ""
	}
	// A pool without assigned nodes is any node with its tags.
	at, fixed := s.pools[p.Pool]
	if !fixed {
		spec := pool(s.view.Job, p.Pool)
		if spec == nil || !Tagged(n, spec.Tags) {
			return "not in host pool " + p.Pool
		}
		return ""
	}
	i, in := at[n.ID]
	switch {
	case !in:
		return "not in host pool " + p.Pool
	case p.PoolHost != nil && *p.PoolHost != i:
		return fmt.Sprintf("not host %d of host pool %s", *p.PoolHost, p.Pool)
	}
	return ""
}

// pool returns the job's host pool of that name, nil if it has none.
func pool(j *berth.Job, name string) *berth.HostPoolSpec {
	if j.Stream == nil {
		return nil
	}
	for i := range j.Stream.HostPools {
		if p := &j.Stream.HostPools[i]; p.Name == name {
			return p
		}
	}
	return nil
}

// share reports whether the lists have an element in common.
func share(a, b []string) bool {
	return slices.ContainsFunc(a, func(t string) bool { return slices.Contains(b, t) })
}

// TagsKey is the key in a node's meta that holds its tags, separated by commas.
const TagsKey = "tags"

// Tagged reports whether a node has all the tags.
func Tagged(n *berth.Node, tags []string) bool {
	if len(tags) == 0 {
		return true
	}
	has := strings.Split(n.Meta[TagsKey], ",")
	for i := range has {
		has[i] = strings.TrimSpace(has[i])
	}
	return !slices.ContainsFunc(tags, func(t string) bool { return !slices.Contains(has, t) })
}

// IsHost reports whether a node has this name or address.
func IsHost(n *berth.Node, host string) bool {
	return n.Name == host || n.HostAddress() == host || n.Attributes["unique.network.ip-address"] == host
}
