package state

import (
	"slices"

	"berth"
)

// preserveWidths copies the widths of parallel regions from the current job.
func preserveWidths(j, old *berth.Job) {
	if old.Stream == nil {
		return
	}
	for _, r := range old.Stream.Regions {
		widen(j, r.Name, r.Width)
	}
}

// Widened returns a copy of a stream job with another width of a parallel
// region, which must exist.
func Widened(j *berth.Job, region string, width int) *berth.Job {
	n := *j
	widen(&n, region, width)
	return &n
}

// widen sets the width of a parallel region in a job that is being made, and
// reports whether the job has the region.
func widen(j *berth.Job, region string, width int) bool {
	i := slices.IndexFunc(j.Stream.Regions, func(r berth.RegionSpec) bool { return r.Name == region })
	if i < 0 {
		return false
	}
	// Versions share these parts, so change copies.
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

// widenable refuses an invalid width for the parallel region of a group.
func (tx *Tx) widenable(j *berth.Job, g *berth.TaskGroup, width int64) error {
	switch _, _, err := tx.alive(j.Key(), j.UID); {
	case err != nil:
		return err
	case j.Stream == nil || j.Stream.Region(g.Name) == nil:
		return berth.Errorf(berth.Invalid, "Target: group %q of job %q is not in a parallel region, so its count is always 1", g.Name, j.Key())
	case width < 1 || width > berth.MaxWidth:
		return berth.Errorf(berth.Invalid, "Count: the width of a parallel region must be 1 to %d, got %d", berth.MaxWidth, width)
	}
	return nil
}
