package task

import (
	"cmp"
	"context"
	"io/fs"
	"maps"
	"path"
	"slices"
	"time"

	"berth"
	"berth/internal/agent/driver"
	"berth/op"
)

// Identities of a task are signed by servers when the task is about to start,
// and again before they expire. The task finds them in files and in its
// environment.

// Signer gets identities from servers. The answers are in the order of the
// requests.
type Signer func(context.Context, []op.IdentityRequest) ([]op.SignedIdentity, error)

// Validity is when an identity was signed and until when it is valid.
type Validity struct {
	Signed  time.Time
	Expires time.Time `json:",omitzero"` // zero: it does not expire
}

// due returns when the identity is to be signed again: when two thirds of its
// time are over; the zero time is never.
func (v Validity) due() time.Time {
	if v.Expires.IsZero() {
		return time.Time{}
	}
	return v.Signed.Add(v.Expires.Sub(v.Signed) * 2 / 3)
}

// exposed returns the identities that a task gets to see.
func exposed(t *berth.Task) (out []*berth.WorkloadIdentity) {
	for _, w := range t.AllIdentities() {
		if w.Env || w.File {
			out = append(out, w)
		}
	}
	return out
}

// identityName returns the name of an identity.
func identityName(w *berth.WorkloadIdentity) string { return cmp.Or(w.Name, berth.DefaultIdentity) }

// identityEnv returns the environment variable of an identity.
func identityEnv(w *berth.WorkloadIdentity) string {
	if identityName(w) == berth.DefaultIdentity {
		return "NOMAD_TOKEN"
	}
	return "NOMAD_TOKEN_" + variable(w.Name)
}

// identityFile returns the file of an identity, relative to the task's
// directory.
func identityFile(w *berth.WorkloadIdentity) string {
	switch {
	case w.Filepath != "":
		return w.Filepath
	case identityName(w) == berth.DefaultIdentity:
		return "secrets/nomad_token"
	}
	return "secrets/nomad_" + w.Name + ".jwt"
}

// makeIdentities gets the identities of the task and puts them where it finds
// them. As long as no server signs them, it waits.
func makeIdentities(ctx context.Context, at *attempt) error {
	all := exposed(at.task)
	if len(all) == 0 {
		return nil
	}
	signed, err := at.signed(ctx, all)
	if err != nil {
		return err
	}
	if err := at.writeIdentities(all, signed); err != nil {
		return err
	}
	at.names.Env = maps.Clone(at.names.Env)
	for i, w := range all {
		if w.Env {
			at.names.Env[identityEnv(w)] = signed[i].JWT
		}
	}
	at.out.Env = list(at.names.Env)
	at.identities = validities(all, signed)
	return nil
}

// validities returns how long identities are valid, by name.
func validities(all []*berth.WorkloadIdentity, signed []op.SignedIdentity) map[string]Validity {
	out := map[string]Validity{}
	for i, w := range all {
		out[identityName(w)] = Validity{time.Now(), signed[i].Expiration}
	}
	return out
}

// The waits between two attempts to have identities signed.
const (
	signPause     = time.Second
	longSignPause = 30 * time.Second
)

// signed has identities signed, until servers answer or refuse, or ctx ends.
func (at *attempt) signed(ctx context.Context, all []*berth.WorkloadIdentity) ([]op.SignedIdentity, error) {
	if at.sign == nil {
		return nil, berth.Errorf(berth.Unavailable, "identity: this agent has no servers that sign identities")
	}
	var ask []op.IdentityRequest
	for _, w := range all {
		ask = append(ask, op.IdentityRequest{AllocID: at.alloc.ID, TaskName: at.task.Name, Identity: identityName(w)})
	}
	for pause := signPause; ; pause = min(2*pause, longSignPause) {
		out, err := at.sign(ctx, ask)
		if err == nil && len(out) == len(ask) {
			return out, nil
		}
		if err == nil {
			err = berth.Errorf(berth.Unavailable, "identity: asked for %d and got %d", len(ask), len(out))
		}
		switch berth.KindOf(err) {
		case berth.Denied, berth.Invalid, berth.NotFound:
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

// writeIdentities writes the files of identities. Servers refuse paths that
// lead elsewhere; this agent does not take their word for it.
func (at *attempt) writeIdentities(all []*berth.WorkloadIdentity, signed []op.SignedIdentity) error {
	root := at.out.AllocDir
	uid, gid, other := lookupUser(at.out.User)
	perm := fs.FileMode(0o644) // its directory keeps others out
	if other {
		perm = 0o600
	}
	for i, w := range all {
		if !w.File {
			continue
		}
		file := identityFile(w)
		if !berth.LocalPath(file) {
			return berth.Errorf(berth.Invalid, "identity.filepath: %.64q is not the path of a file below the task's directory", file)
		}
		p := at.task.Name + "/" + file
		if dir := path.Dir(file); dir != "." {
			if err := root.MkdirAll(at.task.Name+"/"+dir, 0o755); err != nil {
				return onDisk(err)
			}
		}
		if err := root.Replace(p, []byte(signed[i].JWT), perm); err != nil {
			return onDisk(err)
		}
		if other {
			if err := root.Chown(p, uid, gid); err != nil {
				return onDisk(err)
			}
		}
	}
	return nil
}

// nextRenewal returns when the first identity is to be signed again; zero is
// never.
func nextRenewal(all map[string]Validity) (next time.Time) {
	for _, v := range all {
		if d := v.due(); !d.IsZero() && (next.IsZero() || d.Before(next)) {
			next = d
		}
	}
	return next
}

// renewal returns a channel that fires when an identity of a task that runs is
// to be signed again. It is nil, which never fires, when none is.
func (l *loop) renewal() <-chan time.Time {
	s := l.State()
	if l.renewing || s.Phase != Running || s.Kill != nil {
		return nil
	}
	due := nextRenewal(s.Identities)
	if due.IsZero() {
		return nil
	}
	if due.Before(l.renewAfter) {
		due = l.renewAfter
	}
	return time.After(time.Until(due))
}

// renew has the identities signed again that are due, and posts Renewed. The
// task is told as it asks for.
func (l *loop) renew(ctx context.Context) {
	at := l.attempt()
	for _, h := range hooks { // that work out whose the files are
		if h.name == "environment" || h.name == "user" {
			_ = h.run(ctx, at)
		}
	}
	known := l.State().Identities
	var due []*berth.WorkloadIdentity
	for _, w := range exposed(at.task) {
		if v, ok := known[identityName(w)]; ok && !v.due().IsZero() && !v.due().After(time.Now()) {
			due = append(due, w)
		}
	}
	// A task that ends meanwhile shall not wait for servers that are away.
	call, cancel := context.WithTimeout(ctx, longSignPause)
	signed, err := at.signed(call, due)
	cancel()
	if err == nil {
		err = at.writeIdentities(due, signed)
	}
	if err != nil {
		if ctx.Err() == nil {
			l.c.Log.Warn("an identity of a task cannot be renewed; trying again", "task", l.c.Name, "error", err)
			l.post(Renewed{Renewal: true, Failed: true})
		}
		return
	}
	l.post(Renewed{Renewal: true, All: validities(due, signed)})
	l.tellRenewed(due)
}

// tellRenewed signals or restarts a task whose identities were renewed.
func (l *loop) tellRenewed(due []*berth.WorkloadIdentity) {
	var signals []string
	for _, w := range due {
		reason := "its identity " + identityName(w) + " was renewed"
		switch w.ChangeMode {
		case berth.ChangeRestart:
			l.post(Again{Reason: reason}) // what a signal could tell it, it learns then
			return
		case berth.ChangeSignal:
			if !slices.Contains(signals, w.ChangeSignal) {
				signals = append(signals, w.ChangeSignal)
				l.post(Signal{w.ChangeSignal, reason})
			}
		}
	}
}
