package cli

import (
	"context"
	"strconv"

	"berth"
	"berth/client"
	"berth/internal/diff"
	"berth/op"
)

// jobHistoryCommand lists the versions of a job that are still stored.
func jobHistoryCommand() *command {
	return &command{
		name: "job history", args: "<job>", synopsis: "List the versions of a job and what changed in them", min: 1, max: 1,
		example: "job history -p web",
		help: `Lists the stored versions of a job, newest first, with submit time, stability and tag. All tagged versions are kept. Of the others six are kept, or
			as many as job_tracked_versions says: the newest ones, but always the newest stable version before the latest, so that a failed deployment can
			revert the job to it.

			With -p, each version is compared with its predecessor, or with the version given by -diff-tag or -diff-version.`,
		setup: func(f *flags) action {
			h := jobHistory{
				data:        f.data(),
				diff:        f.Bool("p", "Show the differences between versions."),
				full:        f.Bool("full", "Show the full job of each version as JSON."),
				version:     f.String("version", "Show only this `version`."),
				diffTag:     f.String("diff-tag", "With -p: compare with the version that has this `tag`."),
				diffVersion: f.String("diff-version", "With -p: compare with this `version`."),
			}
			return h.run
		},
	}
}

// jobHistory holds the flags of "job history". Versions are text, because 0 is
// a version and must differ from no flag.
type jobHistory struct {
	data                          dataFlags
	diff, full                    *bool
	version, diffTag, diffVersion *string
}

// run prints the versions, as text or data. The server computes the
// differences.
func (h jobHistory) run(ctx context.Context, c *call) error {
	if err := h.check(c); err != nil {
		return err
	}
	// Numbers are checked before the job is read, as a typo needs no server.
	only, err := versionNumber(c, "version", *h.version)
	if err != nil {
		return err
	}
	base, err := versionNumber(c, "diff-version", *h.diffVersion)
	if err != nil {
		return err
	}
	j, _, err := c.findJob(ctx, c.args[0])
	if err != nil {
		return err
	}
	out, _, err := client.Call(ctx, c.client, op.ListVersions, op.JobVersionsQuery{
		JobID: string(j.ID), Diffs: *h.diff, DiffTag: *h.diffTag, DiffVersion: base, Query: of(&j),
	})
	if err != nil {
		return err
	}
	// All versions are read even for one: its difference needs its predecessor.
	if only != nil {
		if out, err = one(out, &j, *only); err != nil {
			return err
		}
	}
	switch {
	case h.data.wanted() && only != nil:
		return h.data.write(c, out.Versions[0])
	case h.data.wanted():
		return h.data.write(c, out.Versions)
	case *h.full && only != nil:
		return c.json(out.Versions[0])
	case *h.full:
		return c.json(out.Versions)
	}
	return h.show(c, &out)
}

// check returns a usage error for flags that contradict each other.
func (h jobHistory) check(c *call) error {
	switch {
	case *h.diff && (*h.full || h.data.wanted()):
		return c.usagef("-p cannot be used with -full, -json or -t")
	case !*h.diff && (*h.diffTag != "" || *h.diffVersion != ""):
		return c.usagef("-diff-tag and -diff-version require -p")
	case *h.diffTag != "" && *h.diffVersion != "":
		return c.usagef("-diff-tag and -diff-version cannot be used together")
	}
	return h.data.check(c)
}

// versionNumber is the number given by a flag, or nil without it.
func versionNumber(c *call, flag, text string) (*uint64, error) {
	if text == "" {
		return nil, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil, c.usagef("flag -%s must be a version number, got %q", flag, text)
	}
	return &n, nil
}

// one reduces the list to one version and its difference.
func one(all op.JobVersions, j *op.Job, number uint64) (out op.JobVersions, err error) {
	for i, v := range all.Versions {
		if v.Version != number {
			continue
		}
		out.Versions = all.Versions[i : i+1]
		if i < len(all.Diffs) {
			out.Diffs = all.Diffs[i : i+1]
		}
		return out, nil
	}
	return out, berth.Errorf(berth.NotFound, "job %q has no version %d, or the version is no longer stored", j.ID, number)
}

// show prints the versions as text. The oldest version may have no difference:
// its predecessor is no longer stored.
func (h jobHistory) show(c *call, out *op.JobVersions) error {
	p := c.page()
	for i := range out.Versions {
		var d *diff.JobDiff
		if i < len(out.Diffs) {
			d = out.Diffs[i]
		}
		p.gap()
		p.pairs(versionPairs(&out.Versions[i])...)
		if d != nil && d.Type != diff.None {
			p.linef("Diff        =")
			for _, line := range diffLines(d, false) {
				p.linef("%s", line)
			}
		}
	}
	return c.show(p)
}

// versionPairs are the rows about one version.
func versionPairs(v *op.Job) []string {
	kv := []string{"Version", strconv.FormatUint(v.Version, 10), "Stable", strconv.FormatBool(v.Stable), "Submit Date", at(v.SubmitTime)}
	if v.Stop {
		kv = append(kv, "Stopped", "true")
	}
	if t := v.VersionTag; t != nil {
		kv = append(kv, "Tag Name", t.Name)
		if t.Description != "" {
			kv = append(kv, "Tag Description", t.Description)
		}
	}
	return kv
}
