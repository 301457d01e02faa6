package state

import (
	"slices"
	"time"

	"berth"
	"berth/internal/fit"
)

// RegisterNode makes a node known or tells what it has now. It is the node's
// own word: its secret must be the one it registered with first.
type RegisterNode struct {
	Node  *berth.Node
	Event *berth.NodeEvent
	Seed  [16]byte // of the evaluations that it raises
	Now   int64

	Evals []berth.EvalID `msgpack:"-"` // set by Apply: what it raised
}

// Apply implements Command.
func (c *RegisterNode) Apply(tx *Tx) error {
	if err := whole(c.Node); err != nil {
		return err
	}
	c.Evals = nil
	old := tx.Node(c.Node.ID)
	n := *c.Node
	n.Events, n.ModifyIndex, n.StatusUpdatedAt = nil, tx.Index, c.Now/int64(time.Second)
	if n.SchedulingEligibility == "" {
		n.SchedulingEligibility = berth.NodeEligible
	}
	if n.NodePool == "" {
		n.NodePool = berth.DefaultNodePool
	}
	if err := berth.CheckNodesPool("Node.NodePool", n.NodePool); err != nil {
		return err
	}
	if old == nil {
		n.CreateIndex = tx.Index
		n.DrainStrategy, n.LastDrain = nil, nil
		addEvents(&n, tx.Index, newEvent(berth.NodeEventCluster, "Node registered", c.Now))
	} else {
		if old.SecretID != n.SecretID {
			return berth.Errorf(berth.Denied, "Permission denied: the secret is not that of node %s", n.ID)
		}
		n.CreateIndex, n.SchedulingEligibility, n.Events = old.CreateIndex, old.SchedulingEligibility, old.Events
		n.DrainStrategy, n.LastDrain = old.DrainStrategy, old.LastDrain // its agent has no say in that
		if silent(old) && n.Status != berth.NodeDown {
			addEvents(&n, tx.Index, newEvent(berth.NodeEventCluster, "Node re-registered", c.Now))
		}
		if n.Status == berth.NodeInit && old.Status == berth.NodeReady {
			n.Status = old.Status // an agent that registers again has not gone away
		}
	}
	if c.Event != nil {
		addEvents(&n, tx.Index, *c.Event)
	}
	tx.wantNodePool(n.NodePool)
	tx.putNode(old, &n)
	tx.loseOrphans(&n, c.Now)
	switch {
	case old == nil && !n.Ready():
	case old == nil || old.Status != n.Status:
		c.Evals = tx.raiseForNode(&n, c.Seed, c.Now)
	case !sameToConditions(old, &n):
		c.Evals = tx.raiseForChange(&n, c.Seed, c.Now)
	}
	return nil
}

// whole returns an error unless a node is such that all who read it can rely
// on it. The door says more, and more kindly; this is for what comes from a
// log that something else wrote.
func whole(n *berth.Node) error {
	switch {
	case n == nil || n.ID.IsZero() || n.NodeResources == nil:
		return berth.Errorf(berth.Invalid, "node: it has no ID or no resources")
	case !legalStatus(n.Status):
		return berth.Errorf(berth.Invalid, "node status %q: allowed are initializing, ready, down, disconnected", n.Status)
	case n.SchedulingEligibility != "" && n.SchedulingEligibility != berth.NodeEligible && n.SchedulingEligibility != berth.NodeIneligible:
		return berth.Errorf(berth.Invalid, "node eligibility %q: allowed are eligible, ineligible", n.SchedulingEligibility)
	case n.NodeResources.MaxDynamicPort > berth.MaxPort:
		return berth.Errorf(berth.Invalid, "node: dynamic ports up to %d; allowed are ports up to %d", n.NodeResources.MaxDynamicPort, berth.MaxPort)
	}
	for name, d := range n.Drivers {
		if d == nil {
			return berth.Errorf(berth.Invalid, "node: nothing is said of its driver %q", name)
		}
	}
	if r := n.ReservedResources; r != nil {
		if _, err := fit.ReservedPorts(r.Networks.ReservedHostPorts); err != nil {
			return err
		}
	}
	return CheckNetworks(n)
}

// mostAddresses bounds the addresses of a node: each can have ports of its own.
const mostAddresses = 1000

// CheckNetworks returns what is wrong with the ports that a node keeps back on
// single networks.
func CheckNetworks(n *berth.Node) error {
	lists := make([]string, 0, len(n.HostNetworks))
	for _, h := range n.HostNetworks {
		lists = append(lists, h.ReservedPorts)
	}
	for _, nw := range n.NodeResources.NodeNetworks {
		for _, a := range nw.Addresses {
			lists = append(lists, a.ReservedPorts)
		}
	}
	if len(lists) > mostAddresses {
		return berth.Errorf(berth.Invalid, "node: %d addresses and host networks; allowed are %d", len(lists), mostAddresses)
	}
	slices.Sort(lists)
	for _, list := range slices.Compact(lists) {
		if _, err := fit.ReservedPorts(list); err != nil {
			return err
		}
	}
	return nil
}

func legalStatus(s string) bool {
	return s == berth.NodeInit || s == berth.NodeReady || s == berth.NodeDown || s == berth.NodeDisconnected
}

// SetNodeStatus changes how a node is, by its own word or because its leader
// does not hear it any more, and raises an evaluation for every job that has
// something on it.
type SetNodeStatus struct {
	ByLeader
	ID          berth.NodeID
	Status      string
	Description string
	Event       *berth.NodeEvent
	Seed        [16]byte
	Now         int64

	Evals []berth.EvalID `msgpack:"-"` // set by Apply: what it raised
}

// Apply implements Command.
func (c *SetNodeStatus) Apply(tx *Tx) error {
	old := tx.Node(c.ID)
	if old == nil {
		return berth.Errorf(berth.NotFound, "node not found: %s", c.ID)
	}
	c.Evals = nil
	if !legalStatus(c.Status) {
		return berth.Errorf(berth.Invalid, "node status %q: allowed are initializing, ready, down, disconnected", c.Status)
	}
	n := *old
	n.Status, n.StatusDescription = c.Status, c.Description
	n.StatusUpdatedAt, n.ModifyIndex = c.Now/int64(time.Second), tx.Index
	if c.Event != nil {
		addEvents(&n, tx.Index, *c.Event)
	} else if old.Status == berth.NodeDisconnected && n.Status == berth.NodeReady {
		addEvents(&n, tx.Index, newEvent(berth.NodeEventCluster, "Node reconnected", c.Now))
	}
	tx.putNode(old, &n)
	tx.loseOrphans(&n, c.Now)
	if old.Status != n.Status && (n.Status != berth.NodeInit) {
		c.Evals = tx.raiseForNode(&n, c.Seed, c.Now)
	}
	return nil
}

// AddNodeEvents notes what happened to a node.
type AddNodeEvents struct {
	ID     berth.NodeID
	Events []berth.NodeEvent
}

// Apply implements Command.
func (c *AddNodeEvents) Apply(tx *Tx) error {
	old := tx.Node(c.ID)
	if old == nil {
		return berth.Errorf(berth.NotFound, "node not found: %s", c.ID)
	}
	n := *old
	n.ModifyIndex = tx.Index
	for _, e := range c.Events {
		addEvents(&n, tx.Index, e)
	}
	tx.putNode(old, &n)
	return nil
}

func newEvent(subsystem, message string, now int64) berth.NodeEvent {
	return berth.NodeEvent{Subsystem: subsystem, Message: message, Timestamp: time.Unix(0, now).UTC()}
}

// addEvents adds an event to a node that is not stored yet.
func addEvents(n *berth.Node, index uint64, e berth.NodeEvent) {
	e.CreateIndex = index
	keep := n.Events[max(0, len(n.Events)-berth.NodeEventsKept+1):]
	n.Events = append(slices.Clone(keep), e)
}

// SetNodeEligibility says whether a node takes new work. What runs there stays.
// A node that takes work again raises evaluations: jobs that run on every node
// have something to start there. One that takes none raises evaluations of those
// of them that are being updated.
type SetNodeEligibility struct {
	ID          berth.NodeID
	Eligibility string
	Seed        [16]byte // of the evaluations that it raises
	Now         int64

	Evals []berth.EvalID `msgpack:"-"` // set by Apply: what it raised
}

// Apply implements Command. A node that is as it should be stays so, and
// nothing is raised.
func (c *SetNodeEligibility) Apply(tx *Tx) error {
	c.Evals = nil
	old := tx.Node(c.ID)
	if old == nil {
		return berth.Errorf(berth.NotFound, "node not found: %s", c.ID)
	}
	if c.Eligibility != berth.NodeEligible && c.Eligibility != berth.NodeIneligible {
		return berth.Errorf(berth.Invalid, "Eligibility: %.40q is not known; allowed are %s and %s", c.Eligibility, berth.NodeEligible, berth.NodeIneligible)
	}
	if old.SchedulingEligibility == c.Eligibility {
		return nil
	}
	if old.Draining() {
		return berth.Errorf(berth.Conflict, "node %s is drained, so it cannot be %s; end its drain first", old.ID, c.Eligibility)
	}
	n := *old
	n.SchedulingEligibility, n.ModifyIndex = c.Eligibility, tx.Index
	addEvents(&n, tx.Index, newEvent(berth.NodeEventCluster, "Node marked as "+c.Eligibility+" for scheduling", c.Now))
	tx.putNode(old, &n)
	if n.SchedulingEligibility == berth.NodeEligible {
		c.Evals = tx.raiseForNode(&n, c.Seed, c.Now)
	} else {
		c.Evals = tx.raiseForDeployed(&n, c.Seed, c.Now)
	}
	return nil
}
