package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// A job is a register: who registers it writes its value, who purges it writes
// "", and with an index it is a compare-and-set, since every value is written
// once. The history of each is linearisable if every call that was done, and
// any of those of which that is unknown, can have happened at one moment
// between its beginning and its end.

// linearLimit bounds the time of the search for an order.
const linearLimit = 30 * time.Second

// never is the end of a call whose outcome is unknown: it may take effect at
// any later time.
const never = time.Duration(1 << 62)

// registers is the model that histories are checked against: each key holds one
// value.
var registers = porcupine.Model{
	Partition: func(all []porcupine.Operation) (out [][]porcupine.Operation) {
		by := map[string][]porcupine.Operation{}
		for _, o := range all {
			key := o.Input.(*call).Key
			by[key] = append(by[key], o)
		}
		for _, key := range slices.Sorted(maps.Keys(by)) {
			out = append(out, by[key])
		}
		return out
	},
	Init: func() any { return "" },
	Step: func(state, in, _ any) (bool, any) {
		now, c := state.(string), in.(*call)
		switch {
		case c.Kind == read:
			return now == c.Value, now
		case absent(c): // a purge, or a probe
			return now == "", now
		case c.Kind == probe:
			return now != "", now
		case c.Kind == swap && c.Outcome == refused:
			return now != c.Old, now
		case c.Kind == swap && c.Outcome == unknown && now != c.Old:
			return true, now
		case c.Kind == swap:
			return now == c.Old, c.Value
		}
		return true, c.Value
	},
	DescribeOperation: func(in, _ any) string {
		c := in.(*call)
		return fmt.Sprintf("%s %s %s%s by %d at %s: %s", c.Kind, c.Key, strings.TrimPrefix(c.Old+" → ", " → "), c.Value, c.Client, c.Server, c.Outcome)
	},
}

// operations returns the calls that prove something about a register.
func operations(calls []*call) (out []porcupine.Operation) {
	first, judged := map[string]time.Duration{}, map[string]bool{}
	for _, c := range calls {
		for _, seen := range observed(c) {
			at, ok := first[c.Key+"="+seen]
			if !ok || c.Return < at {
				first[c.Key+"="+seen] = c.Return
			}
		}
		if conflicted(c) || c.Kind == probe && c.Outcome == done {
			judged[c.Key] = true
		}
	}
	for _, c := range calls {
		o := porcupine.Operation{ClientId: c.Client, Input: c, Call: int64(c.Call), Output: c.Value, Return: int64(c.Return)}
		switch {
		case !strings.HasPrefix(c.Key, "register-") || c.Kind == stale:
			continue
		case c.Outcome == refused && !conflicted(c) && !absent(c), c.Outcome == unknown && (c.Kind == read || c.Kind == probe):
			continue // it proves nothing
		case c.Outcome == unknown:
			at, seen := first[c.Key+"="+c.Value]
			if !seen && c.Kind != purge && !judged[c.Key] {
				continue // nobody saw it, so it can have happened last
			}
			o.Return = int64(never)
			if seen && c.Kind != purge { // it happened before it was seen
				o.Return = int64(max(at, c.Call))
			}
		}
		out = append(out, o)
	}
	return out
}

// telling returns a history of one register without the calls whose order follows
// from that of others: it can have happened if and only if the whole can. A read
// that took long says nothing more than one within its time that saw the same.
// And a value is written once, so it is there for one stretch of time: of its
// reads, the first to end and the last to begin say all. Without this the search
// tries the reads of forty users in each order before it gives up.
func telling(all []porcupine.Operation) (out []porcupine.Operation) {
	reads := map[string][]porcupine.Operation{}
	for _, o := range all {
		c := o.Input.(*call)
		switch {
		case c.Kind == read && c.Value != "":
			reads[c.Value] = append(reads[c.Value], o)
		case c.Kind == read, absent(c):
			reads[""] = append(reads[""], o)
		default:
			out = append(out, o)
		}
	}
	for _, value := range slices.Sorted(maps.Keys(reads)) {
		same := reads[value]
		if value == "" {
			out = append(out, innermost(same)...)
			continue
		}
		first := slices.MinFunc(same, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
		last := slices.MaxFunc(same, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
		if out = append(out, first); last != first {
			out = append(out, last)
		}
	}
	return out
}

// innermost returns the operations in whose time no other one lies.
func innermost(all []porcupine.Operation) (out []porcupine.Operation) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b porcupine.Operation) int {
		return cmp.Or(cmp.Compare(b.Call, a.Call), cmp.Compare(a.Return, b.Return))
	})
	end := int64(math.MaxInt64) // the first end of those that began later
	for _, o := range all {
		if o.Return < end {
			out, end = append(out, o), o.Return
		}
	}
	return out
}

// observed returns the values that a call proves to have been there.
func observed(c *call) []string {
	switch {
	case c.Kind == read && c.Outcome == done:
		return []string{c.Value}
	case c.Kind == swap && c.Outcome == done:
		return []string{c.Old}
	}
	return nil
}

// conflicted reports whether a compare-and-set was refused because of the
// present value, and not for another reason.
func conflicted(c *call) bool {
	return c.Kind == swap && c.Outcome == refused && c.Status == http.StatusConflict
}

// absent reports whether a change was refused because there was no job.
func absent(c *call) bool {
	return (c.Kind == purge || c.Kind == probe) && c.Outcome == refused && c.Status == http.StatusNotFound
}

// judgeOrder looks for an order in which the history can have happened.
func judgeOrder(calls []*call) []string {
	byKey := map[string][]porcupine.Operation{}
	for _, o := range operations(calls) {
		key := o.Input.(*call).Key
		byKey[key] = append(byKey[key], o)
	}
	var out []string
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		history := telling(byKey[key])
		switch porcupine.CheckOperationsTimeout(registers, history, linearLimit) {
		case porcupine.Illegal:
			out = append(out, fmt.Sprintf("I-37: the history of %s (%d calls) is not linearisable%s", key, len(byKey[key]), culprit(history)))
		case porcupine.Unknown:
			out = append(out, fmt.Sprintf("the history of %s (%d calls) was not judged within %v", key, len(byKey[key]), linearLimit))
		}
	}
	return out
}

// culprit describes the call at which the history stops being linearizable: the
// first, by their ends, without which the history up to it is.
func culprit(all []porcupine.Operation) string {
	ends := slices.Clone(all)
	slices.SortFunc(ends, func(a, b porcupine.Operation) int { return int(min(max(a.Return-b.Return, -1), 1)) })
	// A binary search: each check is expensive.
	n := len(ends)
	for low, high := 0, n; low < high; {
		mid := (low + high) / 2
		// Calls that ended later may have happened before.
		part := slices.Clone(ends[:mid+1])
		for _, o := range ends[mid+1:] {
			if o.Call < ends[mid].Return && o.Input.(*call).writes() && o.Input.(*call).Outcome != refused {
				lost := *o.Input.(*call)
				lost.Outcome = unknown
				o.Input, o.Return = &lost, int64(never)
				part = append(part, o)
			}
		}
		if porcupine.CheckOperationsTimeout(registers, part, linearLimit) == porcupine.Illegal {
			n, high = mid, mid
		} else {
			low = mid + 1
		}
	}
	if n == len(ends) {
		return ""
	}
	c := ends[n].Input.(*call)
	return fmt.Sprintf(": %s, from %v to %v", registers.DescribeOperation(c, nil), c.Call.Round(time.Millisecond), c.Return.Round(time.Millisecond))
}

// judgeIndexes checks that the index that one server sends to one caller never
// falls. A restarted server may begin with an older state for stale reads.
func judgeIndexes(calls []*call) (out []string) {
	type line struct {
		client int
		key    string
		kind   kind
		life   int
	}
	last := map[line]*call{}
	for _, c := range calls {
		if c.Outcome != done || c.writes() || c.Index == 0 {
			continue
		}
		l := line{c.Client, c.Key, c.Kind, 0}
		if c.Kind == stale {
			l.life = c.Life
		}
		if was := last[l]; was != nil && was.Return <= c.Call && c.Index < was.Index {
			out = append(out, fmt.Sprintf("I-37: %s of %s at %s: the index fell from %d to %d", c.Kind, c.Key, c.Server, was.Index, c.Index))
		}
		last[l] = c
	}
	return out
}

// judgeConnections checks what was read over each connection: nothing older than
// what was written or read over it before, stale reads included. A register that
// is gone was purged: by a purge that can have happened after it was seen.
func judgeConnections(calls []*call) (out []string) {
	type place struct {
		conn, key string
		life      int
	}
	purges := map[string]time.Duration{} // when the last that may have been done ended
	for _, c := range calls {
		if c.Kind == purge && c.Outcome != refused {
			end := c.Return
			if c.Outcome == unknown {
				end = never
			}
			purges[c.Key] = max(purges[c.Key], end)
		}
	}
	seen, certain := map[place]*call{}, map[place]*call{} // the newest call; the newest that was not stale
	ordered := slices.Clone(calls)
	slices.SortStableFunc(ordered, func(a, b *call) int { return cmp.Compare(a.Call, b.Call) })
	for _, c := range ordered {
		if c.Conn == "" || c.Outcome != done || c.Kind == probe || c.Kind == dispatch || c.Kind == purge || !strings.HasPrefix(c.Key, "register-") {
			continue
		}
		at := place{c.Conn, c.Key, c.Life}
		was, sure := seen[at], certain[at]
		switch {
		case was == nil || was.Return > c.Call:
		case c.Value != "" && c.Version < was.Version:
			out = append(out, fmt.Sprintf("I-37: %s of %s at %s is of index %d, and the same connection was answered with %d", c.Kind, c.Key, c.Server, c.Version, was.Version))
		// What a stale read showed may have been purged before.
		case c.Value == "" && sure != nil && sure.Return <= c.Call && purges[c.Key] < sure.Call:
			out = append(out, fmt.Sprintf("I-37: %s of %s at %s finds nothing, and the same connection was answered with %q", c.Kind, c.Key, c.Server, sure.Value))
		}
		if c.Value != "" {
			seen[at] = c
			if c.Kind != stale {
				certain[at] = c
			}
		}
	}
	return out
}

// judgeTokens checks that each token was always answered with the same child.
func judgeTokens(calls []*call) (out []string) {
	child := map[string]string{}
	for _, c := range calls {
		if c.Kind != dispatch || c.Outcome != done {
			continue
		}
		if was := child[c.Key]; was != "" && was != c.Value {
			out = append(out, fmt.Sprintf("I-23: the token %s was answered with %s and with %s", c.Key, was, c.Value))
		}
		child[c.Key] = c.Value
	}
	return out
}
