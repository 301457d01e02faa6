package explain

import (
	"fmt"
	"time"

	"berth"
	"berth/internal/state"
	"berth/internal/streams/placement"
	"berth/op"
)

// Of a stream job, the scheduler only places what was launched. What is launched,
// and when, its submission decides.

// streamOver explains a stream job that may run nothing, and reports whether it
// is one.
func streamOver(x *op.Explanation, snap *state.Snapshot, j *berth.Job) bool {
	row := snap.StreamOf(j.Key())
	if row == nil || snap.AliveStream(row) {
		return false
	}
	say := func(verdict, format string, args ...any) {
		x.Verdict, x.Summary = verdict, fmt.Sprintf("Job %q: ", j.Key())+fmt.Sprintf(format, args...)
	}
	d := snap.Deletion(j.Key())
	switch {
	case d != nil && d.Deletion.Intent == berth.IntentRecover:
		say(op.WhySubmission, "its submission starts over once what it made is gone. %s", remainsText(snap, j.Key()))
	case d != nil:
		say(op.WhyStopped, "it is being deleted. %s", remainsText(snap, j.Key()))
	case row.Phase == berth.PhaseFailed:
		say(op.WhyFailed, "its submission was given up: %s. Register a changed job to begin another", row.LastError)
	default:
		say(op.WhyStopped, "it was stopped. %s", remainsText(snap, j.Key()))
	}
	return true
}

// streamCounts adds what the submission will do for a group. later takes the time
// of the next launch.
func (a *explainer) streamCounts(x *op.GroupExplanation, later map[string]time.Time) {
	if a.stream == nil || a.stream.Groups[x.Group] == nil {
		return
	}
	g := a.stream.Groups[x.Group]
	x.Unlaunched, x.Later, x.GaveUp, x.Finished = g.Unlaunched, g.Later, g.Failed, g.Ended
	if g.Later > 0 {
		later[x.Group] = g.Next
	}
}

// rules returns a function that returns why the placement rules of a stream job
// keep the group's next processing element off a node, "" if they do not.
func (f *finder) rules() func(*berth.Node) string {
	none := func(*berth.Node) string { return "" }
	if f.job.Type != berth.TypeStream {
		return none
	}
	v := placement.NewView(f.snap, f.job.UID)
	if !v.Alive {
		return none
	}
	for a := range f.snap.AllocsOf(f.job.Key()) {
		if a.Job.UID == f.job.UID && a.Live() {
			v.Keep(a)
		}
	}
	for _, w := range v.Unplaced() {
		if w.Group.Name == f.group.Name {
			return placement.NewRules(f.snap, v).Excluder(w)
		}
	}
	return none
}
