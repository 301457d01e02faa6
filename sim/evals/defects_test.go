package evals

import (
	"slices"
	"strings"
	"testing"

	"berth"
	"berth/state"
)

// defect is something broken on purpose, between those that otherwise are as
// they are in a server.
type defect struct {
	// log applies a command in another way than it should.
	log func(apply func(state.Command) state.Result, c state.Command) state.Result
	// queue answers in another way than the broker.
	queue func(queue) queue
	// finds is part of what must be said of it.
	finds []string
}

// deaf is a broker that is not told that workers are done.
type deaf struct{ queue }

func (deaf) Ack(berth.EvalID, berth.Token) error { return nil }

// trusting is a broker to which every token is good.
type trusting struct{ queue }

func (q trusting) Extend(id berth.EvalID, token berth.Token, applying bool) error {
	_ = q.queue.Extend(id, token, applying)
	return nil
}

type applier = func(state.Command) state.Result

var defects = map[string]defect{
	"lost ack": {
		queue: func(q queue) queue { return deaf{q} },
		finds: []string{"was done with evaluation"},
	},
	"token ignored": {
		queue: func(q queue) queue { return trusting{q} },
		finds: []string{"with a token that is not the last"},
	},
	"missed unblock race": {
		// What is blocked is said to have been decided on the newest state, so
		// room that came since then goes unnoticed.
		log: func(apply applier, c state.Command) state.Result {
			if p, ok := c.(*state.ApplyPlan); ok && p.End != nil && p.End.Missed != nil && len(p.Place) == 0 {
				p.End.SnapshotIndex = 1 << 40
			}
			return apply(c)
		},
		finds: []string{"fits on node"},
	},
	"return unnoticed": {
		// Nobody looks at a job of which something came back.
		log: func(apply applier, c state.Command) state.Result {
			r := apply(c)
			if c, ok := c.(*state.ReportAllocs); ok && r.Err == nil && len(c.Evals) > 0 {
				apply(&unnoticed{c.Evals})
			}
			return r
		},
		finds: []string{"is to be stopped"},
	},
	"waited for without end": {
		// Nobody looks when the time of what is unknown is over.
		log: func(apply applier, c state.Command) state.Result {
			if p, ok := c.(*state.ApplyPlan); ok && p.End != nil {
				p.End.Later = slices.DeleteFunc(p.End.Later, func(n state.NewEval) bool { return n.TriggeredBy == berth.TriggerMaxDisconnectTimeout })
			}
			return apply(c)
		},
		finds: []string{"given up later"},
	},
	"reaper off": {
		log: func(apply applier, c state.Command) state.Result {
			switch c.(type) {
			case *state.FailEval, *state.CancelEvals:
				return state.Result{}
			}
			return apply(c)
		},
		finds: []string{"the broker does not have it", "the broker has"},
	},
	"duplicate follow-up": {
		log: func(apply applier, c state.Command) state.Result {
			r := apply(c)
			if f, ok := c.(*state.FailEval); ok && r.Err == nil {
				apply(follow(f, func(id *berth.EvalID) { id[0] ^= 0xff }))
			}
			return r
		},
		finds: []string{"I-06", "I-07", "I-11"},
	},
	"pointer dropped": {
		log: func(apply applier, c state.Command) state.Result {
			f, ok := c.(*state.FailEval)
			if !ok {
				return apply(c)
			}
			next := follow(f, func(*berth.EvalID) {})
			f.FollowUp = berth.EvalID{}
			r := apply(f)
			if r.Err == nil {
				apply(next)
			}
			return r
		},
		finds: []string{"I-06", "I-07"},
	},
}

// follow returns the command that raises the follow-up of an evaluation by
// itself.
func follow(f *state.FailEval, rename func(*berth.EvalID)) state.Command {
	id := f.FollowUp
	rename(&id)
	return &evalOf{f.ID, id, f.Wait, f.Now}
}

// evalOf raises a follow-up whatever its predecessor says of it.
type evalOf struct {
	of, id    berth.EvalID
	wait, now int64
}

// Apply implements state.Command.
func (c *evalOf) Apply(tx *state.Tx) error {
	e := tx.Eval(c.of)
	if e == nil {
		return berth.Errorf(berth.NotFound, "eval not found: %s", c.of)
	}
	return (&state.CreateEvals{Now: c.now, Evals: []state.EvalFor{{
		EvalSeed: state.EvalSeed{
			ID: c.id, TriggeredBy: berth.TriggerFailedFollowUp, Cause: berth.Cause{Kind: berth.CauseEval, ID: c.of.String()},
		},
		Key: e.Key(), WaitUntil: c.wait, PreviousEval: c.of,
	}}}).Apply(tx)
}

// unnoticed cancels evaluations of jobs of which something came back.
type unnoticed struct{ evals []berth.EvalID }

// Apply implements state.Command.
func (c *unnoticed) Apply(tx *state.Tx) error {
	cancel := &state.CancelEvals{Why: "planted"}
	for _, id := range c.evals {
		if tx.Eval(id).TriggeredBy == berth.TriggerReconnect {
			cancel.IDs = append(cancel.IDs, id)
		}
	}
	return cancel.Apply(tx)
}

// What is broken on purpose is found, each within a few histories: so the
// property sees what it is there to see.
func TestDefectsAreFound(t *testing.T) {
	const most = 60
	for name, d := range defects {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			for seed := range uint64(most) {
				h := happen(t, seed, &d)
				if !h.failed() {
					continue
				}
				for _, want := range d.finds {
					if strings.Contains(strings.Join(h.found, "\n"), want) {
						t.Logf("found in history %d: %s", seed+1, h.found[0])
						return
					}
				}
				t.Fatalf("found something else:\n%s", h.failure())
			}
			t.Errorf("not found in %d histories", most)
		})
	}
}
