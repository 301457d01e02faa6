package state

import (
	"iter"
	"time"

	"berth"
	"berth/internal/fit"
)

// Node returns the node, or nil.
func (s *Snapshot) Node(id berth.NodeID) *berth.Node {
	t := &s.nodes
	hi, _ := id.Words()
	for n := range t.byID.Of(hi) {
		if node := t.rows.Get(n); node.ID == id {
			return node
		}
	}
	return nil
}

// NodeByNumber returns the node of that number, or nil.
func (s *Snapshot) NodeByNumber(n uint32) *berth.Node { return s.nodes.rows.Get(n) }

// NodeNumbers is the number of rows in the usage columns.
func (s *Snapshot) NodeNumbers() uint32 { return s.nodes.numbers }

// Nodes returns all nodes in order of ID.
func (s *Snapshot) Nodes() iter.Seq[*berth.Node] {
	return func(yield func(*berth.Node) bool) {
		for _, n := range s.nodes.byID.All() {
			if !yield(s.nodes.rows.Get(n)) {
				return
			}
		}
	}
}

// SomeNodeOf returns one node of the class with that number, or nil.
func (s *Snapshot) SomeNodeOf(class uint32) *berth.Node {
	c := s.nodes.classes.vec.Get(class)
	if c == nil {
		return nil
	}
	n := s.nodes.rows.Get(c.some)
	if n != nil && n.Class == c.name {
		return n
	}
	for _, number := range s.nodes.byID.All() { // that node is gone; any other will do
		if n := s.nodes.rows.Get(number); n.Class == c.name {
			return n
		}
	}
	return nil
}

// ClassName returns the hash that names the class with that number.
func (s *Snapshot) ClassName(class uint32) string {
	if c := s.nodes.classes.vec.Get(class); c != nil {
		return c.name
	}
	return ""
}

// Classes returns the upper bound of class numbers.
func (s *Snapshot) Classes() uint32 { return s.nodes.classes.next }

// Usage returns a node's usage, by the node's number.
func (s *Snapshot) Usage(number uint32) *fit.Usage {
	if u := s.nodes.usage.At(number); u != nil {
		return u
	}
	return &fit.Usage{}
}

// UsageColumns returns the usage of all nodes in blocks, each with the number
// of its first node. A number without a node has the usage of a node that is
// not Ready.
func (s *Snapshot) UsageColumns() iter.Seq2[uint32, []fit.Usage] {
	return s.nodes.usage.Runs(s.nodes.numbers)
}

// Draining returns the nodes that are being drained, in order of number.
func (s *Snapshot) Draining() iter.Seq[*berth.Node] {
	return func(yield func(*berth.Node) bool) {
		for number := range s.nodes.drains.All() {
			if !yield(s.nodes.rows.Get(number)) {
				return
			}
		}
	}
}

// FencedUntil returns until when an allocation on a silent node may still run,
// because its group has stop_on_client_after; the zero time if its group has
// not, the node is gone, or it is not silent. The node was heard for the last
// time before it got its present status.
func FencedUntil(a *berth.Alloc, n *berth.Node) time.Time {
	fence := a.Group.Fence()
	if lostAfter, _, _ := a.Group.Away(); lostAfter > 0 { // it is waited for in any case, and nothing takes its place
		return time.Time{}
	}
	if fence == 0 || n == nil || n.Status != berth.NodeDown && n.Status != berth.NodeDisconnected {
		return time.Time{}
	}
	return time.Unix(n.StatusUpdatedAt+1, 0).Add(fence) // stored in whole seconds
}

// CutOff reports whether an allocation ended because its agent could not reach
// servers: it did not finish its work.
func CutOff(a *berth.Alloc) bool {
	if a.Client != berth.ClientComplete || a.Group.StopAway() == 0 {
		return false
	}
	for _, s := range TaskStates(a) {
		for _, e := range s.Events {
			if e.Type == berth.EventCutOff {
				return true
			}
		}
	}
	return false
}

// Unfinished reports whether an allocation was to run to its end, was cut off
// instead, and nothing took its place: its job must be evaluated.
func (s *Snapshot) Unfinished(a *berth.Alloc) bool {
	if !CutOff(a) || !a.Wanted() || a.Orphaned || !a.Rest().Next.IsZero() || a.Job.PerNode() || !a.Job.Finite(a.Group) {
		return false
	}
	j := s.Job(a.Key())
	return j != nil && j.UID == a.Job.UID && !j.Stop
}

// CutOffEval returns the evaluation that an allocation needs that was cut off,
// without an ID.
func CutOffEval(a *berth.Alloc) EvalFor {
	return EvalFor{Key: a.Key(), EvalSeed: EvalSeed{
		TriggeredBy: berth.TriggerAllocFailure, Cause: berth.Cause{Kind: berth.CauseAlloc, ID: a.ID.String()},
	}}
}
