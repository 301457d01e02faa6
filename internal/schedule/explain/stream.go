package explain

import (
	"berth"
	"berth/internal/state"
	"berth/internal/streams"
	"berth/op"
)

// elements counts what happens to the processing elements of a stream job that
// is registered as next. Those whose configuration changes are launched again
// one after another, and are placed only then.
func (d *DryRun) elements(snap *state.Snapshot, next *berth.Job) error {
	d.New = next
	// A job that is being deleted has nothing that could be kept.
	var was *berth.StreamPlan
	if row := snap.StreamOf(next.Key()); row != nil && snap.AliveStream(row) {
		was = row.Plan
	}
	will, err := streams.Expand(next, was)
	if err != nil {
		return err
	}
	for _, g := range next.TaskGroups {
		d.Desired[g.Name], d.Changes[g.Name] = &op.DesiredUpdates{}, op.GroupChanges{}
	}
	for _, o := range will.Of(berth.KindPE) {
		u, ch := d.Desired[o.PE.Group], d.Changes[o.PE.Group]
		var old *berth.StreamObject
		if was != nil {
			old = was.Object(berth.KindPE, o.Name)
		}
		switch {
		case old == nil:
			u.Place++
			ch.Created++
		case old.PE.ContentID != o.PE.ContentID:
			u.DestructiveUpdate++
			ch.Created++
			ch.Destroyed++
		default:
			u.Ignore++
			ch.Kept++
		}
		d.Changes[o.PE.Group] = ch
	}
	if was == nil {
		return nil
	}
	// Elements that the new version no longer has, perhaps in groups that are
	// gone.
	for _, o := range was.Of(berth.KindPE) {
		if will.Object(berth.KindPE, o.Name) != nil {
			continue
		}
		u, ch := d.Desired[o.PE.Group], d.Changes[o.PE.Group]
		if u == nil {
			u = &op.DesiredUpdates{}
			d.Desired[o.PE.Group] = u
		}
		u.Stop++
		ch.Destroyed++
		d.Changes[o.PE.Group] = ch
	}
	return nil
}
