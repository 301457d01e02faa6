package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth"
	"berth/op"
)

// Explanations of failed placements, to be read from top to bottom: numbers
// first, then what filtered nodes out.

// failedGroups explains each group of an evaluation that could not be placed in
// full.
func failedGroups(e *op.Eval) (out []failedGroup) {
	for _, name := range slices.Sorted(maps.Keys(e.FailedTGAllocs)) {
		m := e.FailedTGAllocs[name]
		if m == nil {
			m = &berth.AllocMetric{}
		}
		out = append(out, failedGroup{
			head:  fmt.Sprintf("Task Group %q (failed to place %s):", name, plural(m.CoalescedFailures+1, "allocation")),
			name:  name,
			lines: reasons(m),
		})
	}
	return out
}

// failedGroup explains one group: a heading and the reasons below it.
type failedGroup struct {
	name, head string
	lines      []string
}

// reasons lists why nodes were unsuitable.
func reasons(m *berth.AllocMetric) (out []string) {
	add := func(format string, args ...any) { out = append(out, "* "+fmt.Sprintf(format, args...)) }
	for _, q := range m.QuotaExhausted {
		add("Quota limit hit: %s", q)
	}
	for _, s := range m.Shortages {
		add("%s: %s", plural(s.Nodes, "node"), shortage(s))
	}
	// Numbers say more than Nomad's counts by dimension, which are only shown
	// without them.
	reported := len(m.Shortages) > 0
	for _, d := range slices.Sorted(maps.Keys(m.DimensionExhausted)) {
		if !reported {
			add("Dimension %q exhausted on %s", d, plural(m.DimensionExhausted[d], "node"))
		}
	}
	for _, c := range most(m.ClassFiltered) {
		add("Class %q filtered %s", c, plural(m.ClassFiltered[c], "node"))
	}
	for _, c := range most(m.ConstraintFiltered) {
		add("Constraint %q filtered %s", c, plural(m.ConstraintFiltered[c], "node"))
	}
	if len(out) == 0 {
		out = append(out, "* "+noNodes(m))
	}
	return out
}

// shortage describes a resource that ran out, with numbers.
func shortage(s berth.Shortage) string {
	if s.Holder != "" {
		return fmt.Sprintf("%s requested, held by %s", s.Dimension, s.Holder)
	}
	if s.Unit == "" {
		return fmt.Sprintf("%s %d requested, %d free", s.Dimension, s.Wanted, s.Free)
	}
	return fmt.Sprintf("%s %d %s requested, %d free", s.Dimension, s.Wanted, s.Unit, s.Free)
}

// noNodes explains why no node was considered.
func noNodes(m *berth.AllocMetric) string {
	// Nodes are counted by datacenter.
	ready := 0
	for _, n := range m.NodesAvailable {
		ready += n
	}
	pool := or(m.NodePool, berth.DefaultNodePool)
	switch {
	case ready == 0:
		return "No nodes were eligible for evaluation: none is ready"
	case m.NodesInPool == 0:
		return fmt.Sprintf("No nodes were eligible for evaluation: none of the %d ready nodes is in node pool %q", ready, pool)
	}
	return fmt.Sprintf("No nodes were eligible for evaluation out of %d ready nodes", ready)
}

// most returns the keys of counts, largest count first.
func most(counts map[string]int) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
}

// helps describes the change that would let something be placed.
func helps(e *op.Eval) string {
	// All groups count: any change that helps one of them leads to a retry.
	capacity, constraints, quota := false, false, false
	for _, m := range e.FailedTGAllocs {
		if m == nil {
			continue
		}
		quota = quota || len(m.QuotaExhausted) > 0
		capacity = capacity || m.NodesExhausted > 0
		constraints = constraints || m.NodesFiltered > 0
	}
	switch {
	case quota && (capacity || constraints):
		return fmt.Sprintf("when quota %q has room, or when a node joins, changes or has free capacity", e.QuotaLimitReached)
	case quota:
		return fmt.Sprintf("when quota %q has room", e.QuotaLimitReached)
	case capacity && constraints:
		return "when capacity frees up on a node, or when a node joins or changes so that it meets the constraints"
	case capacity:
		return "when capacity frees up on a node or another node joins"
	case constraints:
		return "when a node joins or changes so that it meets the constraints"
	}
	return "when a node is ready"
}

// waiting explains why an open evaluation has not completed, and until when it
// waits.
func (c *call) waiting(e *op.Eval, verbose bool) string {
	id, since := short(e.ID.String(), verbose), c.ago(time.Unix(0, e.CreateTime))
	switch {
	case e.Status == berth.EvalBlocked:
		return fmt.Sprintf("Evaluation %q waiting for additional capacity to place remainder, created %s: retried %s", id, since, helps(e))
	case !e.WaitUntil.IsZero() && e.WaitUntil.After(c.Now()):
		return fmt.Sprintf("Evaluation %q (%s) delayed until %s, %s", id, e.TriggeredBy, stamp(e.WaitUntil), c.ago(e.WaitUntil))
	case e.QuasiStatus != "":
		return fmt.Sprintf("Evaluation %q (%s) is %s, created %s", id, e.TriggeredBy, e.QuasiStatus, since)
	}
	return fmt.Sprintf("Evaluation %q (%s) is waiting for a scheduler, created %s", id, e.TriggeredBy, since)
}
