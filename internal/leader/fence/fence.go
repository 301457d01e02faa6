// Package fence has jobs evaluated when what they ran on silent nodes has
// certainly stopped by itself. An allocation of a group with
// stop_on_client_after is not lost with its node: its tasks run on until its
// agent, or the supervisor in its place, has been without servers for that long.
// Schedulers keep it until then ([state.FencedUntil]). They look at a job when
// something changes, and the passing of time is no change: that is what this
// controller is for.
//
// What such an agent has stopped by itself is evaluated when the agent reports
// it. An audit finds what has no such evaluation.
//
// Everything it needs is in the state, so a new leader continues.
package fence

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"berth"
	"berth/internal/state"
)

// Controller raises the evaluations.
type Controller struct {
	chance *rand.ChaCha8
	raised map[berth.JobKey]time.Time // when an evaluation was last raised here
	next   time.Time                  // time of the next audit
}

// retry is how long an evaluation has to decide before another one is raised.
const retry = 10 * time.Second

// most bounds the evaluations of one command.
const most = 1000

// New returns the controller of a term. IDs come from the seed.
func New(seed [32]byte) *Controller {
	return &Controller{chance: rand.NewChaCha8(seed), raised: map[berth.JobKey]time.Time{}}
}

// Watched returns the keys whose change can give the controller something to
// do. The nodes are enough: nothing is placed on a silent one.
func Watched() []state.WatchKey { return []state.WatchKey{state.OnTable(state.Nodes)} }

// Step implements leader.Controller. It goes through all nodes, and through the
// allocations of silent ones.
func (c *Controller) Step(snap *state.Snapshot, now time.Time) (do []state.Command, again time.Time) {
	look := func(at time.Time) {
		if again.IsZero() || at.Before(again) {
			again = at
		}
	}
	for k, at := range c.raised {
		if !now.Before(at.Add(retry)) {
			delete(c.raised, k)
		}
	}
	due := map[berth.JobKey]berth.NodeID{}
	for n := range snap.Nodes() {
		if n.Status != berth.NodeDown && n.Status != berth.NodeDisconnected {
			continue
		}
		for a := range snap.AllocsOn(n.ID) {
			until := state.FencedUntil(a, n)
			switch k := a.Key(); {
			case a.Ended() || a.Orphaned || until.IsZero() || snap.Job(k) == nil:
			case until.After(now):
				look(until)
			case !c.raised[k].IsZero(): // it is being decided
				look(c.raised[k].Add(retry))
			case len(due) == most:
				look(now)
			default:
				due[k] = n.ID
				look(now.Add(retry))
			}
		}
	}
	create := &state.CreateEvals{Now: now.UnixNano(), Evals: c.audit(snap, now)}
	for k, node := range due {
		e := state.EvalFor{Key: k}
		e.TriggeredBy, e.Cause = berth.TriggerMaxDisconnectTimeout, berth.Cause{Kind: berth.CauseNode, ID: node.String()}
		create.Evals = append(create.Evals, e)
	}
	// In a fixed order, so that the same seed gives the same IDs.
	slices.SortFunc(create.Evals, func(a, b state.EvalFor) int {
		return cmp.Or(cmp.Compare(a.Key.Namespace, b.Key.Namespace), cmp.Compare(a.Key.ID, b.Key.ID))
	})
	if len(create.Evals) == 0 {
		return nil, again
	}
	for i := range create.Evals {
		e := &create.Evals[i]
		c.chance.Read(e.ID[:])
		c.raised[e.Key] = now
	}
	return []state.Command{create}, again
}
