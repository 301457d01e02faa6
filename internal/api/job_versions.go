package api

import (
	"slices"

	"berth"
	"berth/internal/diff"
	"berth/internal/state"
	"berth/op"
)

// versions registers the operations on the versions of jobs and on their
// sources.
func (s *Server) versions() {
	read(s, op.ListVersions, listVersions)
	read(s, op.ReadSubmission, readSubmission)
	write(s, op.Revert, revertJob)
	write(s, op.Stability, setStability)
	write(s, op.TagVersion, tagVersion)
	write(s, op.UntagVersion, untagVersion)
}

// listVersions returns the kept versions of a job, newest first. On request it
// adds their differences: each from the version before it, or all from one that
// is named.
func listVersions(r *Read, in *op.JobVersionsQuery) (out op.JobVersions, err error) {
	j, sum, err := r.job(in.JobID)
	if err != nil {
		return out, err
	}
	r.At(max(j.ModifyIndex, sum.Changed), state.OnJob(j.Key()))
	// The state has the oldest first, and users want the newest.
	list := slices.Collect(r.JobVersions(j.Key()))
	slices.Reverse(list)
	for _, v := range list {
		out.Versions = append(out.Versions, versionView(j, v, sum))
	}
	if !in.Diffs {
		return out, nil
	}
	// The oldest version has nothing before it, so there is one difference less
	// unless a base is named.
	base, err := baseOf(list, in)
	if err != nil {
		return out, err
	}
	for i, v := range list {
		switch {
		case base != nil:
			out.Diffs = append(out.Diffs, diff.Jobs(base, v))
		case i+1 < len(list):
			out.Diffs = append(out.Diffs, diff.Jobs(list[i+1], v))
		}
	}
	return out, nil
}

// baseOf returns the version that all others are compared with, nil if each is
// with the one before it.
func baseOf(list []*berth.Job, in *op.JobVersionsQuery) (*berth.Job, error) {
	switch {
	case in.DiffTag != "" && in.DiffVersion != nil:
		return nil, berth.Errorf(berth.Invalid, "diff_tag and diff_version cannot both be given")
	case in.DiffTag == "" && in.DiffVersion == nil:
		return nil, nil
	}
	for _, v := range list {
		if in.DiffVersion != nil && v.Version == *in.DiffVersion || in.DiffTag != "" && v.VersionTag != nil && v.VersionTag.Name == in.DiffTag {
			return v, nil
		}
	}
	if in.DiffTag != "" {
		return nil, berth.Errorf(berth.NotFound, "diff_tag: no version of job %q has the tag %q", in.JobID, berth.Clip(in.DiffTag, 64))
	}
	return nil, berth.Errorf(berth.NotFound, "diff_version: job %q has no version %d, or it is no longer kept", in.JobID, *in.DiffVersion)
}

// versionView shows a version of a job. How the job fares is said of the
// newest alone; of the others nothing is counted.
func versionView(cur, v *berth.Job, sum *state.Summary) op.Job {
	if v.Version == cur.Version {
		return jobView(v, sum)
	}
	return op.Job{Job: v, UID: v.UID.Text('j'), Status: berth.JobDead, StatusDescription: "there is a newer version of the job"}
}

// readVersion shows one kept version of a job.
func readVersion(r *Read, cur *berth.Job, sum *state.Summary, version uint64) (op.Job, error) {
	v := r.JobVersion(cur.Key(), version)
	if v == nil {
		return op.Job{}, berth.Errorf(berth.NotFound, "job %q has no version %d, or it is no longer kept", cur.Key(), version)
	}
	return versionView(cur, v, sum), nil
}

// readSubmission returns the job source of one version. It is not found if the
// job was registered without one, or with one that is too large.
func readSubmission(r *Read, in *op.SubmissionQuery) (out berth.JobSubmission, err error) {
	if in.Version == nil {
		return out, berth.Errorf(berth.Invalid, "version: is missing: want a version number")
	}
	j, _, err := r.job(in.JobID)
	if err != nil {
		return out, err
	}
	r.At(j.ModifyIndex, state.OnJob(j.Key()))
	sub := r.Submission(j.Key(), *in.Version)
	if sub == nil {
		return out, berth.Errorf(berth.NotFound, "job source not found: the source of version %d of job %q is not kept", *in.Version, in.JobID)
	}
	return sub.JobSubmission, nil
}

// revertJob decides that a job becomes again what it was in an older version.
// That makes a new version.
func revertJob(w *Write, in *op.RevertJob) (Change[op.JobRegistered], error) {
	c := &state.RevertJob{Key: w.job(in.JobID), Version: in.JobVersion, Now: w.Now.UnixNano()}
	if in.EnforcePriorVersion != nil {
		c.Enforce, c.Prior = true, *in.EnforcePriorVersion
	}
	if looksAt(w.JobVersion(c.Key, in.JobVersion)) {
		c.Eval = w.seed(berth.TriggerJobRegister, 0)
	}
	return propose(c, func(o *Outcome) op.JobRegistered { return registered(c.Eval.ID, o) }), nil
}

// registered answers a write that changed a job. eval is the evaluation that it
// raised, zero if it raised none.
func registered(eval berth.EvalID, o *Outcome) op.JobRegistered {
	out := op.JobRegistered{EvalID: eval, JobModifyIndex: o.Index, Meta: o.Meta()}
	if !eval.IsZero() {
		out.EvalCreateIndex = o.Index
	}
	return out
}

// setStability decides whether a version counts as stable, which is what a
// failed deployment reverts to.
func setStability(w *Write, in *op.SetStability) (Change[op.StabilitySet], error) {
	c := &state.SetJobStability{Key: w.job(in.JobID), Version: in.JobVersion, Stable: in.Stable}
	return propose(c, func(o *Outcome) op.StabilitySet { return op.StabilitySet{JobModifyIndex: o.Index, Meta: o.Meta()} }), nil
}

// tagVersion decides that a version gets a name. A tagged version is kept beyond
// the usual number. Latest means the newest, unless a version is given.
func tagVersion(w *Write, in *op.TagJobVersion) (Change[op.VersionTagged], error) {
	c := &state.TagVersion{
		Key: w.job(in.JobID), Name: in.TagName, Description: in.Description, Version: in.Version, Latest: in.Latest && in.Version == 0,
		Now: w.Now.UnixNano(),
	}
	tags := 0
	for v := range w.JobVersions(c.Key) {
		if v.VersionTag != nil {
			tags++
		}
	}
	oneMore(tagsLimit, tags, "job", c.Key.String())
	return propose(c, func(o *Outcome) op.VersionTagged {
		return op.VersionTagged{Name: c.Name, Description: c.Description, TaggedTime: c.Now, Meta: o.Meta()}
	}), nil
}

// untagVersion decides that a name of a version is removed.
func untagVersion(w *Write, in *op.UntagJobVersion) (Change[op.VersionTagged], error) {
	c := &state.TagVersion{Key: w.job(in.JobID), Name: in.TagName, Remove: true, Now: w.Now.UnixNano()}
	return propose(c, func(o *Outcome) op.VersionTagged { return op.VersionTagged{Meta: o.Meta()} }), nil
}
