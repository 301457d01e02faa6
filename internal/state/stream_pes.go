package state

import (
	"berth"
)

// LaunchPE launches a processing element, the only way that it starts or
// starts again: what runs of it is stopped, it counts one more, and has no
// connections.
type LaunchPE struct {
	ByLeader
	PE         berth.UID
	Expect     uint64 // how often it was launched before
	Generation uint64 // of its job
	Why        string // submission, content, failed, completed, user, drain, lost, evicted or restored; for people
	// Eval is the evaluation that places it, of which the ID alone counts. It is
	// raised if nothing of the processing element holds a node; zero raises none.
	Eval EvalSeed
	Now  int64
}

// Apply implements Command. What holds a node is waited for: then the
// evaluation is not raised.
func (c *LaunchPE) Apply(tx *Tx) error {
	pe := tx.Resource(c.PE)
	switch {
	case pe == nil:
		return berth.Refusef(berth.CodeOwnerMissing, "processing element %s is not there any more", c.PE.Text('p'))
	case pe.PE == nil:
		return berth.Errorf(berth.Invalid, "PE: %s is of kind %s; allowed is %s", c.PE.Text('o'), pe.Kind, berth.KindPE)
	case pe.Owner.IsZero():
		return berth.Refusef(berth.CodeOwnerMissing, "%s, %s, was left to itself", pe.Name, c.PE.Text('p'))
	}
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
	n, launched := *pe, *pe.PE
	launched.Launch, launched.LaunchIndex = launched.Launch+1, tx.Index
	launched.ContentID, launched.Connectivity = pe.Object.PE.ContentID, berth.ConnectivityNone
	n.PE = &launched
	tx.stopPE(pe, berth.StopPELaunch, c.Now)
	tx.putResource(pe, &n)
	if !c.Eval.ID.IsZero() && !tx.PEOccupies(pe) {
		tx.raise(j, EvalSeed{
			ID: c.Eval.ID, TriggeredBy: berth.TriggerPELaunch, Cause: berth.Cause{Kind: berth.CausePE, ID: c.PE.Text('p')},
		}, c.Now)
	}
	return nil
}

// PEOccupies says whether an allocation of a processing element, or of the one
// that it stands for, holds a node: nothing is placed for it before.
func (s *Snapshot) PEOccupies(pe *berth.Object) bool {
	return s.occupies(pe.Job, pe.UID) || s.occupies(pe.Job, pe.PE.Before)
}

// SetConnectivity stores which of its connections a processing element has, as
// the agent of its allocation reports.
type SetConnectivity struct {
	Alloc  berth.AllocID
	PE     berth.UID
	Launch uint64
	State  string // none, partial or full
	Now    int64
}

// Apply implements Command. A report of anything but the present launch is
// refused. One that says nothing new changes nothing.
func (c *SetConnectivity) Apply(tx *Tx) error {
	switch c.State {
	case berth.ConnectivityNone, berth.ConnectivityPartial, berth.ConnectivityFull:
	default:
		return berth.Errorf(berth.Invalid, "State: %.64q is none; allowed are %s, %s, %s", c.State, berth.ConnectivityNone, berth.ConnectivityPartial, berth.ConnectivityFull)
	}
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
