package histories

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/state"
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
		finds: []string{"with a token that is not the last", "no evaluation waits"}, // what an old decision says counts
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
		finds: []string{"is wanted, fits"}, // as it is, or when others are evicted
	},
	"victim forgotten": {
		// Nobody looks at a job of which something was evicted.
		log: func(apply applier, c state.Command) state.Result {
			r := apply(c)
			if _, ok := c.(*state.ApplyPlan); ok && r.Err == nil {
				apply(&dropped{func(e *berth.Eval) bool { return e.TriggeredBy == berth.TriggerPreemption }})
			}
			return r
		},
		finds: []string{"is wanted, fits", "no evaluation waits"},
	},
	"room of victims is free at once": {
		// What is evicted counts as ended though its tasks run.
		log: func(apply applier, c state.Command) state.Result {
			r := apply(c)
			if p, ok := c.(*state.ApplyPlan); ok && r.Err == nil {
				for _, x := range p.Place {
					apply(&ended{x.NodeID, x.Evict, p.Now})
				}
			}
			return r
		},
		finds: []string{"its agent did not say that it ended"},
	},
	"joining node unnoticed": {
		// Jobs that run on every node do not hear of a new one.
		log: func(apply applier, c state.Command) state.Result {
			r := apply(c)
			if c, ok := c.(*state.RegisterNode); ok && r.Err == nil && len(c.Evals) > 0 {
				apply(&dropped{func(e *berth.Eval) bool { return slices.Contains(c.Evals, e.ID) && berth.PerNode(e.Type) }})
			}
			return r
		},
		finds: []string{"is wanted, fits", "no evaluation waits"},
	},
	"waited for without end": {
		// Nobody looks when the time of what is unknown is over.
		log: func(apply applier, c state.Command) state.Result {
			if p, ok := c.(*state.ApplyPlan); ok && p.End != nil {
				p.End.Later = slices.DeleteFunc(p.End.Later, func(n state.NewEval) bool { return n.TriggeredBy == berth.TriggerMaxDisconnectTimeout })
			}
			return apply(c)
		},
		finds: []string{"max-disconnect-timeout of"},
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
		finds: []string{"I-06", "I-07", "is to be stopped"}, // what is raised by itself is not, of a job that was purged
	},
}

// overTime are defects of what changes jobs over time.
var overTime = map[string]defect{
	"next step forgotten": {
		// Nobody asks for the next step of a deployment.
		log: func(apply applier, c state.Command) state.Result {
			if _, ok := c.(*state.StepDeployments); ok {
				return state.Result{}
			}
			return apply(c)
		},
		finds: []string{"does not get on", "goes on"},
	},
	"drain ends too early": {
		// System jobs are left where operators want them gone.
		log: func(apply applier, c state.Command) state.Result {
			if d, ok := c.(*state.UpdateDrain); ok && d.Spec != nil {
				spec := *d.Spec
				spec.IgnoreSystemJobs = true
				d.Spec = &spec
			}
			return apply(c)
		},
		finds: []string{"the drain of"},
	},
	"drain that nobody drives": {
		log: func(apply applier, c state.Command) state.Result {
			if _, ok := c.(*state.MigrateAllocs); ok {
				return state.Result{}
			}
			return apply(c)
		},
		finds: []string{"the drain of", "still commands on their way", "goes on with"}, // it is tried again and again
	},
	"launch by the clock": {
		// A launch is for the moment at which its leader thought of it.
		log: func(apply applier, c state.Command) state.Result {
			if l, ok := c.(*state.LaunchPeriodic); ok && !l.Force {
				l.Due = l.Now
			}
			return apply(c)
		},
		finds: []string{"when it is not due"},
	},
	"launch forgotten": {
		// Of the times that come, the first of each minute is passed over.
		log: func(apply applier, c state.Command) state.Result {
			if l, ok := c.(*state.LaunchPeriodic); ok && !l.Force && time.Unix(0, l.Due).Second() == 0 {
				return state.Result{}
			}
			return apply(c)
		},
		finds: []string{"was decided for"},
	},
	"went back twice": {
		log: func(apply applier, c state.Command) state.Result {
			if f, ok := c.(*state.FailDeployment); ok {
				return apply(&backTwice{f})
			}
			return apply(c)
		},
		finds: []string{"I-20", "I-21"},
	},
	"token forgotten": {
		// A dispatch that was made is made again.
		log: func(apply applier, c state.Command) state.Result {
			if d, ok := c.(*state.DispatchJob); ok && d.Token != "" {
				d.Token += d.Eval.ID.String()
			}
			return apply(c)
		},
		finds: []string{"was dispatched twice"},
	},
}

// backTwice lets the job of a deployment that fails go back, and back again.
type backTwice struct{ *state.FailDeployment }

// Apply implements state.Command.
func (c *backTwice) Apply(tx *state.Tx) error {
	if err := c.FailDeployment.Apply(tx); err != nil || c.Reverted == nil {
		return err
	}
	// A version that is no longer kept cannot be gone back to.
	d := tx.Deployment(c.ID)
	for _, v := range []uint64{d.JobVersion, *c.Reverted} {
		if err := (&state.RevertJob{Key: d.Key(), Version: v, Now: c.Now}).Apply(tx); err != nil {
			break
		}
	}
	return nil
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

// dropped cancels pending evaluations.
type dropped struct{ which func(*berth.Eval) bool }

// Apply implements state.Command.
func (c *dropped) Apply(tx *state.Tx) error {
	cancel := &state.CancelEvals{Why: "planted"}
	for e := range tx.OpenEvals(berth.EvalPending) {
		if c.which(e) {
			cancel.IDs = append(cancel.IDs, e.ID)
		}
	}
	return cancel.Apply(tx)
}

// ended says of allocations that they ended, which their agent did not.
type ended struct {
	node berth.NodeID
	list []berth.AllocID
	now  int64
}

// Apply implements state.Command.
func (c *ended) Apply(tx *state.Tx) error {
	r := &state.ReportAllocs{Node: c.node, Now: c.now}
	for _, id := range c.list {
		r.Updates = append(r.Updates, state.AllocUpdate{ID: id, Client: berth.ClientComplete})
	}
	return r.Apply(tx)
}

// What is broken on purpose is found, each within a few histories: so the
// property sees what it is there to see.
func TestDefectsAreFound(t *testing.T) {
	const most = 200
	all := maps.Clone(defects)
	maps.Copy(all, overTime)
	for name, d := range all {
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
