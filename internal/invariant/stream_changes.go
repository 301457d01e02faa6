package invariant

import (
	"berth"
	"berth/internal/state"
)

// Changes of stream jobs and what they own, command by command.

var (
	// The commands that changes of stream jobs are told apart by.
	byRecover  = state.NumberOf(&state.RecoverJobs{})
	byPEs      = state.NumberOf(&state.LaunchPE{})
	byCollect  = state.NumberOf(&state.CollectResources{})
	byComplete = state.NumberOf(&state.CompleteSubmission{})
)

// resource returns an object as it is now, or nil.
func (f *follower) resource(uid berth.UID) *berth.Object {
	return now(f.resources, uid, f.base.Resource)
}

// changedResource checks I-45 (nothing is created or launched for a job that
// ends) and I-49 (launches are counted one by one, and a new launch has no
// connections).
func (f *follower) changedResource(c *state.Change, old, new *berth.Object) {
	if new == nil {
		f.resources[old.UID] = nil
		f.removedResource(c, old)
		return
	}
	f.resources[new.UID] = new
	j := f.job(new.Job)
	wanted := j != nil && j.UID == new.Owner && !j.Stop
	switch {
	case old == nil && !wanted:
		f.addf("I-45", "%s %q was created for job %s, %s, which is stopped or deleted", new.Kind, new.Name, new.Job, new.Owner.Text('j'))
	case old == nil && new.PE != nil && new.PE.Launch > 0 && new.PE.Before.IsZero():
		f.addf("I-49", "%s was created with %d launches", new.Name, new.PE.Launch)
	case old == nil || new.PE == nil || old.PE == nil || new.PE.Launch == old.PE.Launch:
	case new.PE.Launch != old.PE.Launch+1 || c.By != byPEs || new.PE.Connectivity != berth.ConnectivityNone || new.PE.LaunchIndex != c.Index:
		f.addf("I-49", "%s went from %d launches to %d", new.Name, old.PE.Launch, new.PE.Launch)
	case !wanted:
		f.addf("I-45", "%s was launched for job %s, %s, which is stopped or deleted", new.Name, new.Job, new.Owner.Text('j'))
	}
}

// removedResource checks the rest of I-46: the allocations of a processing
// element have ended before it is collected, and must stop if a user deletes
// it.
func (f *follower) removedResource(c *state.Change, r *berth.Object) {
	if r.PE == nil {
		return
	}
	look := func(a *berth.Alloc) {
		if ref := a.Rest().PE; ref != nil && ref.UID == r.UID && (a.Live() || a.Occupies() && c.By == byCollect) {
			f.addf("I-46", "%s, %s, was removed, but its allocation %s is %s", r.Name, r.UID.Text('p'), a.ID, a.Client)
		}
	}
	for a := range f.base.AllocsOf(r.Job) {
		if now := f.alloc(a.ID); now != nil {
			look(now)
		}
	}
	for id, a := range f.allocs {
		if a != nil && a.Key() == r.Job && f.base.Alloc(id) == nil {
			look(a)
		}
	}
}

// nothingOwned checks I-46: a job that was deleted in the foreground is removed
// after everything that it owned.
func (f *follower) nothingOwned(j *berth.Job) {
	for r := range f.base.ResourcesOf(j.UID, "") {
		if now := f.resource(r.UID); now != nil && now.Owner == j.UID {
			f.addf("I-46", "job %s, %s, was removed, but its %s %q exists", j.Key(), j.UID.Text('j'), r.Kind, r.Name)
		}
	}
	for uid, r := range f.resources {
		if r != nil && r.Owner == j.UID && f.base.Resource(uid) == nil {
			f.addf("I-46", "job %s, %s, was removed, but its %s %q exists", j.Key(), j.UID.Text('j'), r.Kind, r.Name)
		}
	}
}

// changedStream checks that a submission changes its phase only in allowed ways.
func (f *follower) changedStream(c *state.Change, old, new *berth.StreamJob) {
	if old == nil || new == nil || old.Phase == new.Phase {
		return
	}
	ok := false
	switch new.Phase {
	case berth.PhaseSubmitted:
		ok = old.Phase == berth.PhaseSubmission && c.By == byComplete
	case berth.PhaseSubmission:
		ok = old.Phase == berth.PhaseSubmitted && new.Generation == old.Generation+1
	case berth.PhaseFailed:
		ok = old.Phase == berth.PhaseSubmission && new.LastError != ""
	case berth.PhaseStopped:
		ok = c.By == byStop
	}
	if !ok {
		f.addf("I-50", "job %s went from %s of generation %d to %s of %d", new.Key, old.Phase, old.Generation, new.Phase, new.Generation)
	}
}

// successor checks I-51 (only its user creates a job again that a user deleted)
// and I-52 (a job that starts again is never missing): the command that removes
// a job also creates its successor, and no other command does.
func (f *follower) successor(c *state.Change, old, new *berth.Job) {
	k := keyOf(old, new)
	// What was to come after the deletion is read from the state before the
	// first change.
	if _, ok := f.intents[k]; !ok {
		f.intents[k] = ""
		if d := f.base.Deletion(k); d != nil {
			f.intents[k] = d.Deletion.Intent
		}
	}
	// A job that recovers or is replaced begins again; one that a user deleted
	// does not.
	begins := f.intents[k] == berth.IntentRecover || f.intents[k] == berth.IntentReplace
	switch {
	case c.By == byFinalize && new == nil:
		if begins {
			f.absent[k] = c.Index
		}
		f.nothingOwned(old)
		if !begins {
			f.intents[k] = ""
		}
	case c.By == byFinalize && old == nil:
		if at, ok := f.absent[k]; !ok || at != c.Index {
			f.addf("I-51", "job %s, which a user deleted, exists again as %s", k, new.UID.Text('j'))
		}
		delete(f.absent, k)
		f.intents[k] = ""
	case new == nil, c.By == byStop && begins:
		f.intents[k] = ""
	case c.By == byDelete:
		f.intents[k] = berth.IntentUser
	case c.By == byRecover:
		f.intents[k] = berth.IntentRecover
		f.mustLook(c.Index, new)
	case c.By == byRegister && new.Stop && f.intents[k] == "":
		f.intents[k] = berth.IntentReplace
	}
}

// keyOf returns the key of a changed job; old or new may be nil.
func keyOf(old, new *berth.Job) berth.JobKey {
	if new != nil {
		return new.Key()
	}
	return old.Key()
}

// missing checks the rest of I-52.
func (f *follower) missing() {
	for k, index := range f.absent {
		f.addf("I-52", "job %s was to start again, but is missing since index %d", k, index)
	}
}

// newElement checks I-45 and I-49 for a new allocation of a processing element.
func (f *follower) newElement(a *berth.Alloc) {
	ref := a.Rest().PE
	if a.Job.Type != berth.TypeStream || ref == nil {
		return
	}
	pe, j := f.resource(ref.UID), f.job(a.Key())
	switch {
	case j == nil || j.UID != a.Job.UID || j.Stop:
		f.addf("I-45", "allocation %s was placed for job %s, %s, which is stopped or deleted", a.ID, a.Key(), a.Job.UID.Text('j'))
	case pe == nil || pe.PE == nil || pe.PE.Launch != ref.Launch || pe.Owner != j.UID:
		f.addf("I-49", "allocation %s was placed for launch %d of %s, which is not the current one", a.ID, ref.Launch, a.Name())
	}
}
