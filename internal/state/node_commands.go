package state

import (
	"fmt"
	"math"
	"slices"
	"time"

	"berth"
	"berth/internal/fit"
	"berth/internal/validate"
)

// RegisterNode registers a node or updates what it has. The node's agent sends
// it: the secret must be that of its first registration.
type RegisterNode struct {
	Node  *berth.Node
	Event *berth.NodeEvent
	Seed  [16]byte // of the evaluations that it creates
	Now   int64

	Evals []berth.EvalID `msgpack:"-"` // set by Apply: the created evaluations
}

// Apply implements Command.
func (c *RegisterNode) Apply(tx *Tx) error {
	if err := checkNode(c.Node); err != nil {
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
	if err := validate.NodesPool("Node.NodePool", n.NodePool); err != nil {
		return err
	}
	if old == nil {
		n.CreateIndex = tx.Index
		n.DrainStrategy, n.LastDrain = nil, nil
		addEvents(&n, tx.Index, newEvent(berth.NodeEventCluster, "Node registered", c.Now))
	} else {
		if old.SecretID != n.SecretID {
			return &berth.Error{Kind: berth.Denied, Code: berth.CodeWrongSecret, Err: fmt.Errorf("%s: the secret is not that of node %s", berth.PermissionDenied, n.ID)}
		}
		n.CreateIndex, n.SchedulingEligibility, n.Events = old.CreateIndex, old.SchedulingEligibility, old.Events
		n.DrainStrategy, n.LastDrain = old.DrainStrategy, old.LastDrain // its agent does not decide these
		if mayBeLost(old) && n.Status != berth.NodeDown {
			addEvents(&n, tx.Index, newEvent(berth.NodeEventCluster, "Node re-registered", c.Now))
		}
		if n.Status == berth.NodeInit && old.Status == berth.NodeReady {
			n.Status = old.Status // an agent that registers again was not gone
		}
	}
	if c.Event != nil {
		addEvents(&n, tx.Index, *c.Event)
	}
	tx.ensureNodePool(n.NodePool)
	tx.putNode(old, &n)
	tx.loseOrphans(&n, c.Now)
	switch {
	case old == nil && !n.Ready():
	case old == nil || old.Status != n.Status:
		c.Evals = tx.raiseForNode(&n, c.Seed, c.Now)
	case !sameToConditions(old, &n):
		c.Evals = tx.raiseForChange(&n, c.Seed, c.Now)
	case !samePlugins(old, &n):
		c.Evals = tx.raiseForPlugins(&n, c.Seed, c.Now)
	}
	return nil
}

// needs implements needer: what belongs to volumes came with log version 6, the most
// allocations with 7.
func (c *RegisterNode) needs() int {
	if n := c.Node; n != nil {
		if n.NodeMaxAllocs != 0 || len(n.CSIControllerPlugins)+len(n.CSINodePlugins) > 0 {
			return roomSince
		}
		for _, v := range n.HostVolumes {
			if v.ID != "" {
				return volumesSince
			}
		}
	}
	return 1
}

// feature implements featured.
func (c *RegisterNode) feature() string {
	switch {
	case c.needs() < roomSince:
		return volumes
	case c.Node.NodeMaxAllocs != 0:
		return "client.node_max_allocs"
	}
	return csiVolumes
}

// maxPlugins bounds the CSI plugins of a node, of each kind.
const maxPlugins = 100

// checkNode returns an error unless a node has everything that its readers rely
// on. The handler checks more, with better messages; this is for a log that
// something else wrote.
func checkNode(n *berth.Node) error {
	switch {
	case n == nil || n.ID.IsZero() || n.NodeResources == nil:
		return berth.Errorf(berth.Invalid, "node: needs an ID and resources")
	case !legalStatus(n.Status):
		return berth.Errorf(berth.Invalid, "unknown node status %q: want initializing, ready, down or disconnected", n.Status)
	case n.SchedulingEligibility != "" && n.SchedulingEligibility != berth.NodeEligible && n.SchedulingEligibility != berth.NodeIneligible:
		return berth.Errorf(berth.Invalid, "unknown node eligibility %q: want eligible or ineligible", n.SchedulingEligibility)
	case n.NodeMaxAllocs < 0 || n.NodeMaxAllocs > math.MaxInt32:
		return berth.Errorf(berth.Invalid, "node: the most allocations must be at least 0, got %d", n.NodeMaxAllocs)
	case n.NodeResources.MaxDynamicPort > berth.MaxPort:
		return berth.Errorf(berth.Invalid, "node: the highest dynamic port must be at most %d, got %d", berth.MaxPort, n.NodeResources.MaxDynamicPort)
	}
	// Readers do not expect nil, nor lists that cannot be parsed.
	for name, d := range n.Drivers {
		if d == nil {
			return berth.Errorf(berth.Invalid, "node: driver %q has no information", name)
		}
	}
	for _, plugins := range [2]map[string]*berth.CSIInfo{n.CSIControllerPlugins, n.CSINodePlugins} {
		for id, x := range plugins {
			if x == nil || !validate.CSIPlugin(id) || len(plugins) > maxPlugins || validate.CSIInfo(x) != "" {
				return berth.Errorf(berth.Invalid, "node: CSI plugin %q is not valid, or of more than %d", berth.Clip(id, 64), maxPlugins)
			}
		}
	}
	if r := n.ReservedResources; r != nil {
		if _, err := fit.ReservedPorts(r.Networks.ReservedHostPorts); err != nil {
			return err
		}
	}
	return CheckNetworks(n)
}

// mostAddresses bounds the addresses of a node, because each can have its own
// ports.
const mostAddresses = 1000

// CheckNetworks returns an error if the reserved ports of the node's networks
// are invalid.
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
		return berth.Errorf(berth.Invalid, "node: must have at most %d addresses and host networks, got %d", mostAddresses, len(lists))
	}
	// Many addresses have the same list: parse each once.
	slices.Sort(lists)
	for _, list := range slices.Compact(lists) {
		if _, err := fit.ReservedPorts(list); err != nil {
			return err
		}
	}
	return nil
}

// legalStatus reports whether s is a status that a node may have.
func legalStatus(s string) bool {
	return s == berth.NodeInit || s == berth.NodeReady || s == berth.NodeDown || s == berth.NodeDisconnected
}

// SetNodeStatus changes the status of a node, at its own request or because its
// heartbeats stopped, and creates an evaluation for every job with an
// allocation on it.
type SetNodeStatus struct {
	ByLeader
	ID          berth.NodeID
	Status      string
	Description string           // for people
	Event       *berth.NodeEvent // nil: "Node reconnected", if it did
	Seed        [16]byte         // of the IDs of the evaluations
	Now         int64

	Evals []berth.EvalID `msgpack:"-"` // set by Apply: the created evaluations
}

// Apply implements Command.
func (c *SetNodeStatus) Apply(tx *Tx) error {
	old := tx.Node(c.ID)
	if old == nil {
		return berth.Errorf(berth.NotFound, "node not found: %s", c.ID)
	}
	c.Evals = nil
	if !legalStatus(c.Status) {
		return berth.Errorf(berth.Invalid, "unknown node status %q: want initializing, ready, down or disconnected", c.Status)
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
	// Orphans have no job whose evaluation would mark them as lost.
	tx.loseOrphans(&n, c.Now)
	if old.Status != n.Status && (n.Status != berth.NodeInit) {
		c.Evals = tx.raiseForNode(&n, c.Seed, c.Now)
	}
	return nil
}

// AddNodeEvents adds events to nodes.
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

// newEvent returns a node event of the time now, in nanoseconds since 1970.
func newEvent(subsystem, message string, now int64) berth.NodeEvent {
	return berth.NodeEvent{Subsystem: subsystem, Message: message, Timestamp: time.Unix(0, now).UTC()}
}

// addEvents adds an event to a node that is not stored yet.
func addEvents(n *berth.Node, index uint64, e berth.NodeEvent) {
	e.CreateIndex = index
	keep := n.Events[max(0, len(n.Events)-berth.NodeEventsKept+1):]
	n.Events = append(slices.Clone(keep), e)
}

// SetNodeEligibility sets whether a node takes new work. Running allocations
// stay. A node that becomes eligible gets evaluations of the jobs that run on
// every node, because they may start there. One that becomes ineligible gets
// evaluations of such jobs that are being updated.
type SetNodeEligibility struct {
	ID          berth.NodeID
	Eligibility string
	Seed        [16]byte // of the evaluations that it creates
	Now         int64

	Evals []berth.EvalID `msgpack:"-"` // set by Apply: the created evaluations
}

// Apply implements Command. If the eligibility does not change, nothing does.
func (c *SetNodeEligibility) Apply(tx *Tx) error {
	c.Evals = nil
	old := tx.Node(c.ID)
	if old == nil {
		return berth.Errorf(berth.NotFound, "node not found: %s", c.ID)
	}
	if c.Eligibility != berth.NodeEligible && c.Eligibility != berth.NodeIneligible {
		return berth.Errorf(berth.Invalid, "Eligibility: unknown eligibility %.40q: want %s or %s", c.Eligibility, berth.NodeEligible, berth.NodeIneligible)
	}
	if old.SchedulingEligibility == c.Eligibility {
		return nil
	}
	if old.Draining() {
		return berth.Errorf(berth.Conflict, "node %s is being drained, so it cannot be %s; end its drain first", old.ID, c.Eligibility)
	}
	n := *old
	n.SchedulingEligibility, n.ModifyIndex = c.Eligibility, tx.Index
	addEvents(&n, tx.Index, newEvent(berth.NodeEventCluster, "Node marked as "+c.Eligibility+" for scheduling", c.Now))
	tx.putNode(old, &n)
	// An eligible node may help any job; an ineligible one concerns only those
	// that run here.
	if n.SchedulingEligibility == berth.NodeEligible {
		c.Evals = tx.raiseForNode(&n, c.Seed, c.Now)
	} else {
		c.Evals = tx.raiseForDeployed(&n, c.Seed, c.Now)
	}
	return nil
}
