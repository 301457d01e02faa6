package state

import (
	"berth"
)

// LaunchPE launches a processing element. This is the only way in which it
// starts or restarts: its allocation is stopped, its launch count grows by one,
// and its connections are reset.
type LaunchPE struct {
	ByLeader
	PE         berth.UID
	Expect     uint64 // how often it was launched before
	Generation uint64 // of its job
	Why        string // submission, content, failed, completed, user, drain, lost, evicted or restored; for people
	// Eval is the evaluation that places it; only its ID matters. It is created
	// if no allocation of the processing element holds a node; a zero ID
	// creates none.
	Eval EvalSeed
	Now  int64
}

// Apply implements Command. If an allocation still holds a node, the evaluation
// is not created: placing waits for its end.
func (c *LaunchPE) Apply(tx *Tx) error {
	pe := tx.Resource(c.PE)
	switch {
	case pe == nil:
		return berth.Refusef(berth.CodeOwnerMissing, "processing element %s is not there any more", c.PE.Text('p'))
	case pe.PE == nil:
		return berth.Errorf(berth.Invalid, "PE: %s has kind %s, want %s", c.PE.Text('o'), pe.Kind, berth.KindPE)
	case pe.Owner.IsZero():
		return berth.Refusef(berth.CodeOwnerMissing, "%s, %s, was left to itself", pe.Name, c.PE.Text('p'))
	}
	// The launch must be of the job's present plan, and follow the launch that
	// its proposer saw.
	j, row, err := tx.alive(pe.Job, pe.Owner)
	switch {
	case err != nil:
		return err
	case pe.Generation != row.Generation || c.Generation != row.Generation:
		return berth.Refusef(berth.CodeStaleGeneration, "%s, %s, is of generation %d and was to be launched at %d; its job is at %d", pe.Name, c.PE.Text('p'), pe.Generation, c.Generation, row.Generation)
	case pe.PE.Launch != c.Expect:
		return berth.Refusef(berth.CodeStaleLaunch, "%s, %s, was launched %d times, not %d", pe.Name, c.PE.Text('p'), pe.PE.Launch, c.Expect)
	}
	if err := tx.unusedSeed(c.Eval); err != nil {
		return err
	}
	// The new launch begins without connections, with the present
	// configuration.
	n, launched := *pe, *pe.PE
	launched.Launch, launched.LaunchIndex = launched.Launch+1, tx.Index
	launched.ContentID, launched.Connectivity = pe.Object.PE.ContentID, berth.ConnectivityNone
	n.PE = &launched
	// Allocations of earlier launches stop. The job is evaluated at once only
	// if none of them is still running.
	tx.stopPE(pe, berth.StopPELaunch, c.Now)
	tx.putResource(pe, &n)
	if !c.Eval.ID.IsZero() && !tx.PEOccupies(pe) {
		tx.raise(j, EvalSeed{
			ID: c.Eval.ID, TriggeredBy: berth.TriggerPELaunch, Cause: berth.Cause{Kind: berth.CausePE, ID: c.PE.Text('p')},
		}, c.Now)
	}
	return nil
}

// PEOccupies reports whether an allocation of a processing element, or of the
// one it replaces, holds a node. Nothing is placed for it before that ends.
func (s *Snapshot) PEOccupies(pe *berth.Object) bool {
	return s.occupies(pe.Job, pe.UID) || s.occupies(pe.Job, pe.PE.Before)
}

// SetConnectivity stores which of its connections a processing element has, as
// reported by its agent.
type SetConnectivity struct {
	Alloc  berth.AllocID // that reports
	PE     berth.UID
	Launch uint64 // of the processing element; reports of older ones are refused
	State  string // none, partial or full
	Now    int64
}

// Apply implements Command. Only reports of the current launch are accepted. A
// report without news changes nothing.
func (c *SetConnectivity) Apply(tx *Tx) error {
	switch c.State {
	case berth.ConnectivityNone, berth.ConnectivityPartial, berth.ConnectivityFull:
	default:
		return berth.Errorf(berth.Invalid, "State: unknown state %.64q: want %s, %s or %s", c.State, berth.ConnectivityNone, berth.ConnectivityPartial, berth.ConnectivityFull)
	}
	// Reports of an earlier launch can arrive late.
	pe, a := tx.Resource(c.PE), tx.Alloc(c.Alloc)
	if pe == nil || pe.PE == nil || pe.PE.Launch != c.Launch || a == nil || a.Ended() || a.Rest().PE == nil || *a.Rest().PE != (berth.PERef{UID: c.PE, Launch: c.Launch}) {
		return berth.Refusef(berth.CodeStaleLaunch, "allocation %s is not of the present launch of processing element %s", c.Alloc, c.PE.Text('p'))
	}
	if pe.PE.Connectivity == c.State {
		return nil
	}
	n, p := *pe, *pe.PE
	p.Connectivity = c.State
	n.PE = &p
	tx.putResource(pe, &n)
	return nil
}
