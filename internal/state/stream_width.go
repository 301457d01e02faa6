package state

import (
	"slices"

	"berth"
)

// preserveWidths carries the widths of parallel regions over from the job as it
// is now.
func preserveWidths(j, old *berth.Job) {
	if old.Stream == nil {
		return
	}
	for _, r := range old.Stream.Regions {
		widen(j, r.Name, r.Width)
	}
}

// Widened returns a stream job with another width of a parallel region, which it
// must have.
func Widened(j *berth.Job, region string, width int) *berth.Job {
	n := *j
	widen(&n, region, width)
	return &n
}

// widen gives a parallel region of a job that is being made another width, and
// says whether the job has the region.
func widen(j *berth.Job, region string, width int) bool {
	i := slices.IndexFunc(j.Stream.Regions, func(r berth.RegionSpec) bool { return r.Name == region })
	if i < 0 {
		return false
	}
	s := *j.Stream
	s.Regions = slices.Clone(s.Regions)
	s.Regions[i].Width = width
	groups := slices.Clone(j.TaskGroups)
	for k, g := range groups {
		if slices.Contains(s.Regions[i].Groups, g.Name) {
			ng := *g
			ng.Count = width
			groups[k] = &ng
		}
	}
	j.Stream, j.TaskGroups = &s, groups
	return true
}

// widenable refuses another width of the parallel region that a group is in.
func (tx *Tx) widenable(j *berth.Job, g *berth.TaskGroup, width int64) error {
	switch _, _, err := tx.alive(j.Key(), j.UID); {
	case err != nil:
		return err
	case j.Stream == nil || j.Stream.Region(g.Name) == nil:
		return berth.Errorf(berth.Invalid, "Target: group %q of job %q is in no parallel region, so there is one of it", g.Name, j.Key())
	case width < 1 || width > berth.MaxWidth:
		return berth.Errorf(berth.Invalid, "Count: %d is no width of a parallel region; allowed are 1 to %d", width, berth.MaxWidth)
	}
	return nil
}
