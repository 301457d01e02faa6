package events

import (
	"berth"
	"berth/internal/state"
)

// The types of the topic Resource, which reports stream jobs and what they own
// as objects with owners. Nomad does not have it. Allocations of stream jobs
// have a topic of their own.
const (
	ResourceAdded    = "Added"
	ResourceModified = "Modified"
	ResourceDeleted  = "Deleted"
)

// recoverJobs is the command by which servers replace a stream job.
var recoverJobs = state.NumberOf(&state.RecoverJobs{})

// Deletes reports whether the event marks the start of a stream job's deletion
// in the foreground.
func (e *Event) Deletes() bool {
	j, ok := e.Row.(*berth.Job)
	return ok && e.Topic == Resource && !e.Deleted && j.Stop && (e.by == deleteJob || e.by == recoverJobs || e.by == registerJob)
}

// Cause returns why a resource was changed, "" for other topics.
func (e *Event) Cause() string {
	if e.Topic != Resource {
		return ""
	}
	return e.by.Cause()
}

// ofResource reports whether a change is an event of the topic Resource: a
// change of a stream job, of its existing submission, or of something that it
// owns.
func ofResource(c *state.Change) bool {
	switch c.Table {
	case state.Resources:
		return true
	case state.Streams:
		return c.Old != nil && c.New != nil
	case state.Jobs:
		row, _ := c.New.(*berth.Job)
		if row == nil {
			row, _ = c.Old.(*berth.Job)
		}
		return row != nil && row.Type == berth.TypeStream
	}
	return false
}

// describeResource fills in an event of the topic Resource for a change.
func describeResource(e *Event, snap *state.Snapshot, changes []state.Change, c *state.Change) {
	e.Topic, e.Row, e.Deleted, e.by = Resource, c.New, c.New == nil, c.By
	switch {
	case e.Deleted:
		e.Row, e.Type = c.Old, ResourceDeleted
	case c.Old == nil:
		e.Type = ResourceAdded
	default:
		e.Type = ResourceModified
	}
	if j, ok := e.Row.(*berth.Job); ok {
		e.Stream = submission(snap, changes, j.UID)
	}
}

// submission returns the submission of a job after a command: as the command
// itself changed it, or else as at the end of the commit.
func submission(snap *state.Snapshot, changes []state.Change, uid berth.UID) *berth.StreamJob {
	for i := len(changes) - 1; i >= 0; i-- {
		for _, v := range []any{changes[i].New, changes[i].Old} {
			if s, _ := v.(*berth.StreamJob); s != nil && s.UID == uid {
				return s
			}
		}
	}
	return snap.StreamJob(uid)
}

// object returns what an event of the topic Resource is about.
func (e *Event) object() (kind, name string, uid, owner berth.UID, job berth.JobKey) {
	switch v := e.Row.(type) {
	case *berth.Job:
		return berth.KindJob, string(v.ID), v.UID, berth.UID{}, v.Key()
	case *berth.StreamJob:
		return berth.KindJob, string(v.Key.ID), v.UID, berth.UID{}, v.Key
	case *berth.Object:
		return v.Kind, v.Name, v.UID, v.Owner, v.Job
	}
	return "", "", berth.UID{}, berth.UID{}, berth.JobKey{}
}

// Object returns what an event of the topic Resource is about: its kind, name
// and UID, and the UID of its owner, "" if it has none.
func (e *Event) Object() (kind, name, uid, owner string) {
	kind, name, u, o, _ := e.object()
	uid = u.Text(berth.KindLetter(kind))
	if !o.IsZero() {
		owner = o.Text('j')
	}
	return kind, name, uid, owner
}
