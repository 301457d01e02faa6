package state

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"berth"
)

// Limits of the names that versions are given.
const (
	MaxTagName        = 128
	MaxTagDescription = 1000
	MaxTags           = 100 // of one job: a version with a name is kept as long as the job
)

// RevertJob gives a job the specification of one of its earlier versions, as a
// new version, and raises the evaluation that looks at it.
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
		return berth.Errorf(berth.Conflict, "Enforcing prior version %d: job %q is at version %d", c.Prior, c.Key, cur.Version)
	case c.Version == cur.Version:
		return berth.Errorf(berth.Invalid, "JobVersion: job %q is at version %d already", c.Key, c.Version)
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
	j := *to
	tx.following(cur, &j, c.Now)
	source := tx.Submission(c.Key, c.Version)
	tx.putJob(cur, &j)
	if source != nil && j.Version != cur.Version {
		tx.putSubmission(&Submission{source.JobSubmission, c.Key, j.Version})
	}
	if j.Stop { // back to a version that ended the job
		tx.cancelOpen(&j, "the job was stopped", c.Now)
	}
	if !c.Eval.ID.IsZero() && j.Type != berth.TypeStream {
		tx.raise(&j, c.Eval, c.Now)
	}
	return nil
}

// SetJobStability marks a version of a job as one to go back to, or not.
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

// TagVersion names a version of a job, which is kept from then on, or takes
// the name away.
type TagVersion struct {
	Key         berth.JobKey
	Name        string
	Description string
	Version     uint64
	Latest      bool // the newest version, whatever Version says
	Remove      bool // the name alone counts
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
	_, to, err := tx.versionOf(c.Key, number)
	switch {
	case err != nil:
		return err
	case named != nil && named.Version != number:
		return berth.Errorf(berth.Conflict, "version %d of job %q has the tag %q; take it away first", named.Version, c.Key, c.Name)
	case to.VersionTag == nil && tags >= MaxTags:
		return berth.Errorf(berth.Limited, "job %q has %d versions with tags; allowed are %d", c.Key, tags, MaxTags)
	}
	v := *to
	v.VersionTag = &berth.JobVersionTag{Name: c.Name, Description: c.Description, TaggedTime: c.Now}
	tx.amend(cur, &v)
	return nil
}

func (c *TagVersion) check() error {
	bad := func(r rune) bool { return !unicode.IsPrint(r) || r == '/' }
	switch {
	case c.Name == "":
		return berth.Errorf(berth.Invalid, "Name: a tag needs a name")
	case len(c.Name) > MaxTagName:
		return berth.Errorf(berth.Invalid, "Name: %d bytes are too long; allowed are %d", len(c.Name), MaxTagName)
	case !utf8.ValidString(c.Name) || strings.ContainsFunc(c.Name, bad):
		return berth.Errorf(berth.Invalid, "Name: %q has a slash or a character that cannot be printed", c.Name)
	case len(c.Description) > MaxTagDescription:
		return berth.Errorf(berth.Invalid, "Description: %d bytes are too long; allowed are %d", len(c.Description), MaxTagDescription)
	}
	return nil
}

// tagged returns the version of a job that has the name, nil if none has, and
// how many have one.
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
