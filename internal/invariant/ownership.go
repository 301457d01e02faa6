package invariant

import (
	"berth"
	"berth/internal/state"
)

// deletions checks I-41 (a job that is being deleted in the foreground is
// stopped, and nothing of it is newer than its mark) and I-43 (orphaned
// allocations have no job).
func (c *checker) deletions() {
	for d := range c.Deletions() {
		j := c.Job(d.Key)
		switch m := d.Deletion; {
		case j == nil || j.UID != d.UID:
			c.addf("I-41", "job %s, %s, is being deleted but does not exist", d.Key, d.UID.Text('j'))
			continue
		case !j.Stop:
			c.addf("I-41", "job %s is being deleted but is not stopped", d.Key)
		case m.Policy != berth.Foreground || m.Intent == "" || m.RequestIndex <= j.CreateIndex || m.RequestIndex > j.ModifyIndex:
			c.addf("I-41", "job %s, of index %d, has an impossible deletion mark: %+v", d.Key, j.ModifyIndex, m)
		}
		// The deletion is finished when no allocation holds it, so the count
		// must be right.
		held := 0
		for a := range c.AllocsOf(d.Key) {
			if a.Job.UID != d.UID {
				continue
			}
			if a.CreateIndex >= d.Deletion.RequestIndex {
				c.addf("I-41", "allocation %s was placed at index %d, but its job has been deleting since index %d", a.ID, a.CreateIndex, d.Deletion.RequestIndex)
			}
			if !a.Ended() {
				held++
			}
		}
		if n := c.Blocking(d.Key, d.UID); n != held {
			c.addf("I-41", "job %s is held by %d allocations, but counts %d", d.Key, held, n)
		}
	}
	for a := range c.Allocs() {
		if a.Orphaned && c.lives(a.Key(), a.Job.UID) {
			c.addf("I-43", "allocation %s is orphaned, but its job %s exists", a.ID, a.Key())
		}
	}
}

// deletions checks I-41 (a mark stays as long as its job, and the job does not
// change) and I-43 (orphans stay orphans).
func (p *pair) deletions() {
	for d := range p.old.Deletions() {
		j := p.new.Job(d.Key)
		if j == nil || j.UID != d.UID {
			continue
		}
		was, m := d.Deletion, p.new.Deletion(d.Key)
		if m != nil { // force can be asked for later, and not be taken back
			was.Force = was.Force || m.Deletion.Force
		}
		switch {
		case m == nil:
			if row := p.new.StreamJob(d.UID); row == nil || row.Phase != berth.PhaseStopped || d.Deletion.Intent == berth.IntentUser { // except when a user stopped a job that was to start again
				p.addf("I-41", "the deletion of job %s, which began at index %d, was undone", d.Key, d.Deletion.RequestIndex)
			}
		case m.Deletion != was && (d.Deletion.Intent == berth.IntentUser || m.Deletion.Intent != berth.IntentUser || m.Deletion.RequestIndex != d.Deletion.RequestIndex):
			p.addf("I-41", "the deletion of job %s changed from %+v to %+v", d.Key, d.Deletion, m.Deletion)
		case j.Version != p.old.Job(d.Key).Version:
			p.addf("I-41", "job %s is being deleted but changed to version %d", d.Key, j.Version)
		}
	}
	for a := range p.old.Allocs() {
		if n := p.new.Alloc(a.ID); n != nil && n != a && a.Orphaned && !n.Orphaned {
			p.addf("I-43", "allocation %s was orphaned and is no longer", a.ID)
		}
	}
}

// ownerGoes checks I-42: a job that is deleted in the foreground is removed
// only after everything that it ran has ended. A job deleted in another way
// gets an evaluation that stops its allocations, or orphans them (see
// leftAlone).
func (f *follower) ownerGoes(c *state.Change, old, new *berth.Job) {
	switch {
	case c.By == byDelete && new != nil:
		f.mustLook(c.Index, new)
	case c.By == byDelete:
		f.owners[c.Index] = old
	case new == nil:
		f.eachOf(old, func(a *berth.Alloc) {
			if !a.Ended() {
				f.addf("I-42", "job %s, %s, was deleted in the foreground and removed, but its allocation %s is %s", old.Key(), old.UID.Text('j'), a.ID, a.Client)
			}
		})
	}
}

// mustLook records that a command must raise an evaluation of a job.
func (f *follower) mustLook(index uint64, j *berth.Job) {
	if !j.Schedulable() {
		return
	}
	f.neededEvals[index] = neededEval{j.Key(), j.JobModifyIndex}
	for _, e := range f.evals {
		f.raised(e)
	}
}

// leftAlone checks the rest of I-42.
func (f *follower) leftAlone() {
	for index, j := range f.owners {
		looked := false
		for _, e := range f.evals {
			looked = looked || e != nil && e.CreateIndex == index && e.JobUID == j.UID
		}
		if looked {
			continue
		}
		f.eachOf(j, func(a *berth.Alloc) {
			if a.Live() && !a.Orphaned {
				f.addf("I-42", "job %s, %s, was removed at index %d, but no evaluation will stop its allocation %s", j.Key(), j.UID.Text('j'), index, a.ID)
			}
		})
	}
}

// eachOf calls do with the current allocations of a job's incarnation.
func (f *follower) eachOf(j *berth.Job, do func(*berth.Alloc)) {
	for a := range f.base.AllocsOf(j.Key()) {
		if now := f.alloc(a.ID); now != nil && now.Job.UID == j.UID {
			do(now)
		}
	}
	for id, a := range f.allocs {
		if a != nil && a.Job.UID == j.UID && a.Key() == j.Key() && f.base.Alloc(id) == nil {
			do(a)
		}
	}
}
