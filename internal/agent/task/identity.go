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

// Validity is when an identity was signed and until when it is valid, both by the
// clock of this machine.
type Validity struct {
	Signed  time.Time
	Expires time.Time `json:",omitzero"` // zero: it does not expire
}

// due returns when the identity is to be signed again: when two thirds of its
// time are over, and at once if the clock was put back since it was signed; the
// zero time is never.
func (v Validity) due(now time.Time) time.Time {
	switch {
	case v.Expires.IsZero():
		return time.Time{}
	case now.Before(v.Signed):
		return now
	}
	return v.Signed.Add(max(v.Expires.Sub(v.Signed)/3*2, signPause))
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
	signed, asked, err := at.signed(ctx, all)
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
	at.identities = validities(all, asked)
	return nil
}

// validities returns, by name, how long identities are valid. They were asked for at
// that time. The servers' own times are not looked at: their clocks may differ from
// that of this machine.
func validities(all []*berth.WorkloadIdentity, asked time.Time) map[string]Validity {
	out := map[string]Validity{}
	for _, w := range all {
		v := Validity{Signed: asked}
		if w.TTL > 0 {
			v.Expires = asked.Add(w.TTL)
		}
		out[identityName(w)] = v
	}
	return out
}

// The waits between two attempts to have identities signed. The first is also the
// shortest time between two renewals.
const (
	signPause     = time.Second
	longSignPause = 30 * time.Second
)

// signed has identities signed, until servers answer or refuse, or ctx ends. asked
// is when the call was made that they answered.
func (at *attempt) signed(ctx context.Context, all []*berth.WorkloadIdentity) (out []op.SignedIdentity, asked time.Time, err error) {
	if at.sign == nil {
		return nil, asked, berth.Errorf(berth.Unavailable, "identity: this agent has no servers that sign identities")
	}
	var ask []op.IdentityRequest
	for _, w := range all {
		ask = append(ask, op.IdentityRequest{AllocID: at.alloc.ID, TaskName: at.task.Name, Identity: identityName(w)})
	}
	for pause := signPause; ; pause = min(2*pause, longSignPause) {
		asked = time.Now()
		out, err = at.sign(ctx, ask)
		if err == nil && len(out) == len(ask) {
			return out, asked, nil
		}
		if err == nil {
			err = berth.Errorf(berth.Unavailable, "identity: asked for %d and got %d", len(ask), len(out))
		}
		switch berth.KindOf(err) {
		case berth.Denied, berth.Invalid, berth.NotFound:
			return nil, asked, driver.Recoverable(err)
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, asked, ctx.Err()
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
func nextRenewal(all map[string]Validity, now time.Time) (next time.Time) {
	for _, v := range all {
		if d := v.due(now); !d.IsZero() && (next.IsZero() || d.Before(next)) {
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
	due := nextRenewal(s.Identities, time.Now())
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
	known, now := l.State().Identities, time.Now()
	var due []*berth.WorkloadIdentity
	for _, w := range exposed(at.task) {
		if v, ok := known[identityName(w)]; ok && !v.due(now).IsZero() && !v.due(now).After(now) {
			due = append(due, w)
		}
	}
	// A task that ends meanwhile shall not wait for servers that are away.
	call, cancel := context.WithTimeout(ctx, longSignPause)
	signed, asked, err := at.signed(call, due)
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
	l.post(Renewed{Renewal: true, All: validities(due, asked)})
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
