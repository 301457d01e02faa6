package state

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"berth"
)

// Limits of version tags.
const (
	MaxTagName        = 128  // bytes
	MaxTagDescription = 1000 // bytes
	MaxTags           = 100  // of one job: a tagged version is kept as long as the job
)

// RevertJob restores the specification of an earlier version of a job, as a new
// version, and creates its evaluation.
type RevertJob struct {
	Key     berth.JobKey
	Version uint64
	Enforce bool // only if the job is at version Prior
	Prior   uint64
	Eval    EvalSeed // its ID is zero for jobs that run nothing themselves
	Now     int64
}

// Apply implements Command.
func (c *RevertJob) Apply(tx *Tx) error {
	cur, to, err := tx.versionOf(c.Key, c.Version)
	switch {
	case err != nil:
		return err
	case c.Enforce && c.Prior != cur.Version:
		return berth.Errorf(berth.Conflict, "Current job has version %d; enforcing version %d", cur.Version, c.Prior)
	case c.Version == cur.Version:
		return berth.Errorf(berth.Invalid, "JobVersion: job %q is already at version %d", c.Key, c.Version)
	}
	if err := tx.unmarked(c.Key); err != nil {
		return err
	}
	if err := tx.runnable(to); err != nil {
		return err
	}
	if cur.Type == berth.TypeStream {
		if err := tx.revertable(cur, to); err != nil {
			return err
		}
	}
	if err := tx.unusedSeed(c.Eval); err != nil {
		return err
	}
	// The old version becomes a new one, at the end of the history.
	j := *to
	if err := tx.quotaAllowsJob(cur, &j); err != nil {
		return err
	}
	tx.following(cur, &j, c.Now)
	// putJob may drop the old version and its source, so read it before.
	source := tx.Submission(c.Key, c.Version)
	tx.putJob(cur, &j)
	if source != nil && j.Version != cur.Version {
		tx.putSubmission(&Submission{source.JobSubmission, c.Key, j.Version})
	}
	if j.Stop { // reverted to a version that stopped the job
		tx.cancelOpen(&j, "the job was stopped", c.Now)
	}
	if !c.Eval.ID.IsZero() && j.Type != berth.TypeStream {
		tx.raise(&j, c.Eval, c.Now)
	}
	return nil
}

// SetJobStability marks a version of a job as stable or not.
type SetJobStability struct {
	Key     berth.JobKey
	Version uint64
	Stable  bool
}

// Apply implements Command.
func (c *SetJobStability) Apply(tx *Tx) error {
	cur, to, err := tx.versionOf(c.Key, c.Version)
	if err != nil || to.Stable == c.Stable {
		return err
	}
	v := *to
	v.Stable = c.Stable
	tx.amend(cur, &v)
	return nil
}

// TagVersion tags a version of a job, which is kept from then on, or removes
// the tag.
type TagVersion struct {
	Key         berth.JobKey
	Name        string
	Description string
	Version     uint64
	Latest      bool // the newest version, whatever Version says
	Remove      bool // remove the tag; only Name matters
	Now         int64
}

// Apply implements Command.
func (c *TagVersion) Apply(tx *Tx) error {
	cur := tx.Job(c.Key)
	if cur == nil {
		return berth.Errorf(berth.NotFound, "job %q not found", c.Key)
	}
	named, tags := tx.tagged(c.Key, c.Name)
	if c.Remove {
		if named == nil {
			return berth.Errorf(berth.NotFound, "no version of job %q has the tag %.150q", c.Key, c.Name)
		}
		v := *named
		v.VersionTag = nil
		tx.amend(cur, &v)
		// Without the tag the version may be one too many.
		tx.forgetVersions(c.Key)
		return nil
	}
	if err := c.check(); err != nil {
		return err
	}
	number := c.Version
	if c.Latest {
		number = cur.Version
	}
	// A tag names one version, and tagged versions are never forgotten: both
	// are limited.
	_, to, err := tx.versionOf(c.Key, number)
	switch {
	case err != nil:
		return err
	case named != nil && named.Version != number:
		return berth.Errorf(berth.Conflict, "version %d of job %q has the tag %q; remove it first", named.Version, c.Key, c.Name)
	case to.VersionTag == nil && tags >= MaxTags:
		return berth.Errorf(berth.Limited, "job %q has %d tagged versions, the maximum is %d", c.Key, tags, MaxTags)
	}
	v := *to
	v.VersionTag = &berth.JobVersionTag{Name: c.Name, Description: c.Description, TaggedTime: c.Now}
	tx.amend(cur, &v)
	return nil
}

// check returns an Invalid error for a tag name or description that is too
// long, or that cannot be part of a path.
func (c *TagVersion) check() error {
	bad := func(r rune) bool { return !unicode.IsPrint(r) || r == '/' }
	switch {
	case c.Name == "":
		return berth.Errorf(berth.Invalid, "Name: must not be empty")
	case len(c.Name) > MaxTagName:
		return berth.Errorf(berth.Invalid, "Name: must be at most %d bytes, got %d", MaxTagName, len(c.Name))
	case !utf8.ValidString(c.Name) || strings.ContainsFunc(c.Name, bad):
		return berth.Errorf(berth.Invalid, "Name: %q has a slash or an unprintable character", c.Name)
	case len(c.Description) > MaxTagDescription:
		return berth.Errorf(berth.Invalid, "Description: must be at most %d bytes, got %d", MaxTagDescription, len(c.Description))
	}
	return nil
}

// tagged returns the version of a job that has a tag, or nil, and the number of
// tagged versions.
func (tx *Tx) tagged(k berth.JobKey, name string) (v *berth.Job, tags int) {
	for j := range tx.JobVersions(k) {
		if j.VersionTag == nil {
			continue
		}
		tags++
		if j.VersionTag.Name == name {
			v = j
		}
	}
	return v, tags
}
