package invariant

import (
	"berth"
	"berth/internal/state"
)

// jobs checks I-20 and I-21 (versions), I-22 (each job has a history) and I-24
// (counts match a recount).
func (c *checker) jobs() {
	for j := range c.Jobs(berth.AllNamespaces, "") {
		if c.Namespace(j.Namespace) == nil {
			c.addf("I-22", "job %s is in a namespace that does not exist", j.Key())
		}
		c.versions(j)
		c.counts(j)
	}
}

// versions checks the history of a job: it belongs to this incarnation, its
// newest version is the job, and it keeps no more versions than allowed.
func (c *checker) versions(j *berth.Job) {
	var last *berth.Job
	plain, tags := 0, map[string]uint64{}
	row := c.StreamOf(j.Key())
	for v := range c.JobVersions(j.Key()) {
		if v.UID != j.UID || v.CreateIndex != j.CreateIndex {
			c.addf("I-21", "the history of job %s holds version %d of another job", j.Key(), v.Version)
		}
		if last != nil && v.Version <= last.Version {
			c.addf("I-20", "in the history of job %s version %d follows %d", j.Key(), v.Version, last.Version)
		}
		last = v
		// Tagged versions are kept until they lose the tag and have a limit of
		// their own.
		if v.VersionTag == nil {
			if row == nil || row.Plan == nil || row.Version != v.Version { // the version that is placed
				plain++
			}
			continue
		}
		if other, ok := tags[v.VersionTag.Name]; ok {
			c.addf("I-21", "versions %d and %d of job %s have the tag %q", other, v.Version, j.Key(), v.VersionTag.Name)
		}
		tags[v.VersionTag.Name] = v.Version
	}
	switch {
	case last == nil:
		c.addf("I-20", "job %s has no history", j.Key())
	case last.Version != j.Version:
		c.addf("I-20", "job %s is at version %d, its history at %d", j.Key(), j.Version, last.Version)
	case last.ModifyIndex != j.ModifyIndex || last.Stable != j.Stable || last.Stop != j.Stop:
		c.addf("I-20", "job %s differs from version %d in its history", j.Key(), j.Version)
	}
	if _, most := c.TrackedVersions(); plain > most || len(tags) > state.MaxTags {
		c.addf("I-21", "job %s keeps %d versions and %d with tags: at most %d and %d may be kept", j.Key(), plain, len(tags), most, state.MaxTags)
	}
}

// counts checks the stored counts of a job against its allocations and open
// evaluations.
func (c *checker) counts(j *berth.Job) {
	s := c.Summary(j.Key())
	if s == nil || s.UID != j.UID {
		c.addf("I-24", "job %s has no counts of its own", j.Key())
		return
	}
	counts := map[string]*state.GroupCount{}
	live, open := 0, 0
	for a := range c.AllocsOf(j.Key()) {
		// Allocations of an earlier job of that name do not count.
		if a.Job.UID != j.UID {
			continue
		}
		g := counts[a.Group.Name]
		if g == nil {
			g = &state.GroupCount{Group: a.Group.Name}
			counts[a.Group.Name] = g
		}
		*g.Of(a.Client)++
		if a.Live() {
			live++
		}
	}
	for e := range c.EvalsOf(j.Key()) {
		if e.JobUID == j.UID && !e.Terminal() {
			open++
		}
	}
	if live != s.Live || open != s.Open {
		c.addf("I-24", "job %s counts %d live and %d open; recounted: %d and %d", j.Key(), s.Live, s.Open, live, open)
	}
	for _, g := range s.Groups {
		want := counts[g.Group]
		if want == nil {
			want = &state.GroupCount{Group: g.Group}
		}
		delete(counts, g.Group)
		want.Queued = g.Queued // follows from the last evaluation, not from rows
		if *want != g || g.Queued < 0 {
			c.addf("I-24", "job %s counts %+v; recounted: %+v", j.Key(), g, *want)
		}
		if j.Stop && g.Queued > 0 {
			c.addf("I-24", "job %s is stopped, but %d instances of its group %q are queued", j.Key(), g.Queued, g.Group)
		}
	}
	for g := range counts {
		c.addf("I-24", "job %s does not count its group %q", j.Key(), g)
	}
}
