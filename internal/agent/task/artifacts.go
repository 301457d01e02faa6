package task

import (
	"context"
	"errors"
	"fmt"
	"os"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/fetch"
	"berth/internal/saferoot"
)

// fetchArtifacts fetches the artifacts of the task, once in the life of its
// allocation.
func fetchArtifacts(ctx context.Context, at *attempt) error {
	all := at.task.Artifacts
	if len(all) == 0 || at.state.Fetched {
		return nil
	}
	if at.inputs == nil || at.inputs.Fetch == nil {
		return &eventError{berth.EventDownloadFailed, berth.Errorf(berth.Invalid, "this agent fetches no artifacts")}
	}
	for i := range all {
		at.doing(berth.EventDownloading, fmt.Sprintf("Downloading artifact %d of %d", i+1, len(all)),
			berth.TaskWait{Kind: berth.WaitArtifact, Name: fetch.Shown(all[i].GetterSource)}) // before names are replaced
		if err := at.fetchArtifact(ctx, &all[i]); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return &eventError{berth.EventDownloadFailed, fmt.Errorf("artifact[%d]: %w", i, err)}
		}
	}
	at.fetched = true
	return nil
}

// fetchArtifact fetches one artifact.
func (at *attempt) fetchArtifact(ctx context.Context, t *berth.TaskArtifact) error {
	dest := t.RelativeDest
	if dest == "" {
		dest = "local/"
	}
	dst, err := at.inside("destination", dest)
	if err != nil {
		return err
	}
	a := fetch.Artifact{Source: at.names.Replace(t.GetterSource), Options: at.replaceAll(t.GetterOptions), Headers: at.replaceAll(t.GetterHeaders), Mode: t.GetterMode, Insecure: t.GetterInsecure}
	if a.Mode == "" {
		a.Mode = fetch.ModeAny
	}
	owner := saferoot.Adoption{UID: 0, GID: 0}
	if uid, gid, other := lookupUser(at.out.User); other && !at.ofImage() && t.Chown {
		owner = saferoot.Adoption{UID: uid, GID: gid}
	} else if os.Geteuid() != 0 {
		owner = saferoot.Adoption{UID: -1, GID: -1}
	}
	err = at.inputs.Fetch.Fetch(ctx, &a, at.out.AllocDir, dst, owner)
	if err != nil && !errors.Is(err, fetch.ErrBad) {
		return driver.Recoverable(err)
	}
	return err
}

// replaceAll puts values in place of names in the values of a map.
func (at *attempt) replaceAll(m map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range m {
		out[k] = at.names.Replace(v)
	}
	return out
}
