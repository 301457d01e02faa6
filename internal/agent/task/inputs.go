package task

import (
	"context"
	"errors"
	"path"
	"strings"
	"time"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/fetch"
	"berth/internal/agent/secretprovider"
	"berth/op"
)

// Inputs are where a task's templates, artifacts and secrets come from.
type Inputs struct {
	Command []string // of helpers; see isolate.Helper
	// Values asks servers for what a task wants to know; nil: there are none.
	Values func(context.Context, *op.WantsQuery) (*op.WantsAnswer, error)
	Fetch  *fetch.Fetcher // nil: artifacts are not fetched
	Deny   []string       // functions that templates may not use, beside those that none may
	// Wait is for templates without a wait block, WaitBounds for those with one; nil:
	// there are none.
	Wait, WaitBounds *berth.WaitConfig
	// Secrets are the programs of this node that secrets come from.
	Secrets secretprovider.Providers
}

// eventError is an error of a hook that has a kind of task event of its own.
type eventError struct {
	typ string
	error
}

// Unwrap returns the error.
func (e *eventError) Unwrap() error { return e.error }

// eventOf returns the kind of task event of an error, "" for the usual one.
func eventOf(err error) string {
	if e, ok := errors.AsType[*eventError](err); ok {
		return e.typ
	}
	return ""
}

// inside returns the path, relative to the allocation's directory, of what a
// template or artifact names in a task's directory, or the directory that tasks
// of the allocation share. It looks at the path after interpolation (C37).
func (at *attempt) inside(what, p string) (string, error) {
	full := at.names.Replace(p)
	bad := func(why string) (string, error) {
		return "", berth.Errorf(berth.Invalid, "%s: %.200q %s", what, full, why)
	}
	if strings.Contains(full, "${") || strings.ContainsAny(full, "\x00\\") {
		return bad("is not a path")
	}
	name := at.task.Name
	rel := full
	if path.IsAbs(full) {
		rel = ""
		dirs := at.place.directories(name)
		for variable, here := range map[string]string{"NOMAD_ALLOC_DIR": "../alloc", "NOMAD_TASK_DIR": "local", "NOMAD_SECRETS_DIR": "secrets"} {
			if rest, ok := strings.CutPrefix(path.Clean(full)+"/", dirs[variable]+"/"); ok && dirs[variable] != "" {
				rel = here + "/" + rest
			}
		}
		if rel == "" {
			return bad("must be below the task's directory: local/…, secrets/…, or ${NOMAD_ALLOC_DIR}/…")
		}
	}
	clean := path.Clean(name + "/" + rel)
	switch {
	case strings.HasPrefix(clean, name+"/"), clean == "alloc", strings.HasPrefix(clean, "alloc/") && !strings.HasPrefix(clean+"/", "alloc/logs/"):
		return clean, nil
	case clean == name:
		return bad("is the task's own directory")
	}
	return bad("leads out of the task's directory")
}

// ask asks servers for what the task wants, until they answer or ctx ends.
func (at *attempt) ask(ctx context.Context, q op.WantsQuery) (*op.WantsAnswer, error) {
	if at.inputs == nil || at.inputs.Values == nil {
		return nil, berth.Errorf(berth.Unavailable, "this agent has no servers that know variables and services")
	}
	q.AllocID, q.TaskName = at.alloc.ID, at.task.Name
	for pause := signPause; ; pause = min(2*pause, longSignPause) {
		out, err := at.inputs.Values(ctx, &q)
		if err == nil && len(out.Values) == len(q.Wants) {
			return out, nil
		}
		switch berth.KindOf(err) {
		case berth.Denied, berth.Invalid, berth.NotFound, berth.TooLarge:
			return nil, driver.Recoverable(err)
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, ctx.Err()
		}
	}
}
