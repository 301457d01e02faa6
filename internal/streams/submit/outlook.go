package submit

import (
	"time"

	"berth"
	"berth/internal/state"
)

// Outlook is what becomes of a stream job by itself, beside what the scheduler
// decides.
type Outlook struct {
	State string // as in Standing
	// Pool is which host pool waits for nodes and who has them, "" if none does.
	Pool   string
	Groups map[string]*GroupOutlook // by group of the planned job
}

// GroupOutlook counts the processing elements of a group that do not run and for
// which the scheduler has nothing to do.
type GroupOutlook struct {
	Unlaunched int       // are launched when it is their turn
	Later      int       // have ended, and are launched again after a delay
	Next       time.Time // when the first of those is launched again; zero: none
	Failed     int       // have failed, and their policy does not launch them again
	Ended      int       // have ended otherwise, and are not launched again
}

// OutlookOf returns what becomes of a stream job that may run.
func OutlookOf(snap *state.Snapshot, row *berth.StreamJob, now time.Time) Outlook {
	o := Outlook{State: Position(snap, row).State, Pool: poolProblem(snap, row), Groups: map[string]*GroupOutlook{}}
	job := snap.PlannedJob(row)
	for _, g := range job.TaskGroups {
		o.Groups[g.Name] = &GroupOutlook{Unlaunched: g.Count} // until one is found
	}
	runs := map[berth.PERef]*berth.Alloc{}
	for a := range snap.AllocsOf(row.Key) {
		if ref := a.Rest().PE; ref != nil {
			runs[*ref] = a
		}
	}
	for pe := range snap.ResourcesOf(row.UID, berth.KindPE) {
		g := job.Group(pe.Object.PE.Group)
		if g == nil || int64(pe.Object.PE.Index) >= int64(g.Count) {
			continue // of an older generation
		}
		ran := runs[berth.PERef{UID: pe.UID, Launch: pe.PE.Launch}]
		why, at := launchDue(pe, g, ran)
		x := o.Groups[g.Name]
		switch {
		case ran != nil && ran.Live():
			x.Unlaunched--
		case why != "" && now.Before(at):
			x.Unlaunched--
			x.Later++
			if x.Next.IsZero() || at.Before(x.Next) {
				x.Next = at
			}
		case why != "": // it is launched when it is its turn
		case ran != nil && ran.Client == berth.ClientFailed:
			x.Unlaunched--
			x.Failed++
		case ran != nil:
			x.Unlaunched--
			x.Ended++
		default: // the scheduler finds it a node
			x.Unlaunched--
		}
	}
	return o
}
