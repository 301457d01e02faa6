package agent

import (
	"maps"
	"slices"
	"time"

	"berth/op"
)

// What an answer of the servers asks for.

// known is what matters of an allocation that the agent has.
type known struct {
	version    uint64 // its AllocModifyIndex
	changed    uint64 // its ModifyIndex
	removed    bool
	unrecorded bool // this version is not recorded yet
}

// steps says what an answer asks for.
type steps struct {
	stale  bool     // nothing: the answer is older than one acted on
	fetch  []string // these are new, have changed or are not recorded yet
	remove []string // these are gone
}

// decide compares what the agent has with what servers say it should have.
// acted is the highest index of an answer acted on before. An allocation that
// is missing from an answer is gone only if the answer is newer than what is
// known of it: a server that lags has not heard of the newest. So is one that
// is there in an older version than is known: an older state was restored.
func decide(have map[string]known, acted uint64, ans *op.NodeAllocIndexesAnswer) (s steps) {
	if ans.Index < acted {
		return steps{stale: true}
	}
	for id, version := range ans.Allocs {
		if k, ok := have[id]; !ok || k.unrecorded && !k.removed || version > k.version || version < k.version && ans.Index > max(k.changed, k.version) {
			s.fetch = append(s.fetch, id)
		}
	}
	for id, k := range have {
		if _, ok := ans.Allocs[id]; !ok && !k.removed && ans.Index > max(k.changed, k.version) {
			s.remove = append(s.remove, id)
		}
	}
	slices.Sort(s.fetch)
	slices.Sort(s.remove)
	return s
}

// decideAfterReset is decide for a state in which the known versions mean
// nothing.
func decideAfterReset(have map[string]known, ans *op.NodeAllocIndexesAnswer) steps {
	forgotten := make(map[string]known, len(have))
	for id, k := range have {
		forgotten[id] = known{removed: k.removed}
	}
	newest := *ans
	newest.Index = max(1, ans.Index)
	return decide(forgotten, 0, &newest)
}

// epoch notices that servers were given an older state on purpose: a backup was
// restored, or the cluster started from nothing. Then their index falls, which
// otherwise means that a server lags. It is believed when the leader has said
// the same twice, a while apart.
type epoch struct {
	first map[string]uint64 // what the leader said
	at    time.Time
	low   bool // an answer was too old
}

// epochDoubt is how far apart the leader must have said the same twice before
// its older state is believed.
const epochDoubt = 10 * time.Second

// suspected reports whether the last answer was too old, so that a new epoch
// may have begun.
func (e *epoch) suspected() bool { return e.low }

// over takes an answer that is too old, and reports whether a new epoch has
// begun.
func (e *epoch) over(ans *op.NodeAllocIndexesAnswer, fromLeader bool, now time.Time) bool {
	e.low = true
	switch {
	case !fromLeader:
	case e.first == nil || !maps.Equal(e.first, ans.Allocs):
		e.first, e.at = maps.Clone(ans.Allocs), now
		if e.first == nil {
			e.first = map[string]uint64{}
		}
	default:
		return now.Sub(e.at) >= epochDoubt
	}
	return false
}
