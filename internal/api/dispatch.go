package api

import (
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"berth"
	"berth/internal/state"
	"berth/op"
)

// forcePeriodic launches a child of a periodic job now.
func forcePeriodic(w *Write, in *op.ForcePeriodic) (Change[op.PeriodicForced], error) {
	now := w.Now.UnixNano()
	c := &state.LaunchPeriodic{Key: w.job(in.JobID), Due: now, Force: true, Eval: w.seed(berth.TriggerPeriodicJob, 0), Now: now}
	return propose(c, func(o *Outcome) op.PeriodicForced {
		return op.PeriodicForced{EvalID: c.Eval.ID, EvalCreateIndex: o.Index, LaunchedJobID: berth.PeriodicID(c.Key.ID, w.Now), Meta: o.Meta()}
	}), nil
}

// Limits on what names a child, in bytes.
const (
	maxIDPrefix = 128
	maxToken    = 255
)

// dispatchJob creates a child of a parameterized job.
func dispatchJob(w *Write, in *op.DispatchJob) (ch Change[op.JobDispatched], err error) {
	if err := checkDispatch(w, in); err != nil {
		return ch, err
	}
	k := w.job(in.JobID)
	c := &state.DispatchJob{
		Key: k, Child: childID(w, k.ID, in.IdPrefixTemplate), Payload: in.Payload, Meta: in.Meta,
		Token: w.Options.IdempotencyToken, Priority: in.Priority, Eval: w.seed(berth.TriggerJobRegister, 0), Now: w.Now.UnixNano(),
	}
	return propose(c, func(o *Outcome) op.JobDispatched { return dispatched(c, o) }), nil
}

// dispatched answers a dispatch with the child and its first evaluation. If an
// earlier dispatch had the same token, that is the earlier child; what no longer
// exists of it is left out.
func dispatched(c *state.DispatchJob, o *Outcome) op.JobDispatched {
	var before *berth.Job
	if c.Token != "" {
		before = o.After.ChildByToken(c.Key, c.Token)
	}
	if before == nil || before.ID == c.Child {
		return op.JobDispatched{DispatchedJobID: c.Child, EvalID: c.Eval.ID, EvalCreateIndex: o.Index, JobCreateIndex: o.Index, Meta: o.Meta()}
	}
	out := op.JobDispatched{DispatchedJobID: before.ID, JobCreateIndex: before.CreateIndex, Meta: o.Meta()}
	for e := range o.After.EvalsOf(before.Key()) {
		if e.CreateIndex == before.CreateIndex {
			out.EvalID, out.EvalCreateIndex = e.ID, e.CreateIndex
		}
	}
	return out
}

// checkDispatch refuses a dispatch whose name, token, priority or metadata
// cannot be stored. Whether the job takes the payload and the metadata is
// checked by Apply.
func checkDispatch(w *Write, in *op.DispatchJob) error {
	var ps berth.Problems
	if err := w.limits.priority("Priority", in.Priority); err != nil {
		return err
	}
	bad := func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }
	switch p := in.IdPrefixTemplate; {
	case len(p) > maxIDPrefix:
		ps.Addf("IdPrefixTemplate", "%d bytes is too long: the limit is %d", len(p), maxIDPrefix)
	case !utf8.ValidString(p) || strings.ContainsFunc(p, bad):
		ps.Addf("IdPrefixTemplate", "%q contains a space or a non-printable character", berth.Clip(p, 64))
	}
	if n := len(w.Options.IdempotencyToken); n > maxToken {
		ps.Addf("idempotency_token", "%d bytes is too long: the limit is %d", n, maxToken)
	}
	for key, v := range in.Meta {
		if key == "" || strings.ContainsRune(key+v, 0) || !utf8.ValidString(key+v) {
			ps.Addf("Meta", "key %q or its value is empty, contains a NUL byte or is not valid UTF-8", berth.Clip(key, 64))
		}
	}
	return ps.Err()
}

// childID is the ID of a child that is dispatched now. Its random part makes it
// unique; the log refuses one that exists.
func childID(w *Write, parent berth.JobID, prefix string) berth.JobID {
	var b [4]byte
	w.random(b[:])
	if prefix != "" {
		prefix += "-"
	}
	return parent + berth.JobID(fmt.Sprintf("%s%s%d-%s", berth.DispatchInfix, prefix, w.Now.Unix(), hex.EncodeToString(b[:])))
}
