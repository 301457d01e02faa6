package api

import (
	"crypto/rand"
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
func forcePeriodic(w *Write, in *op.ForcePeriodic) (op.PeriodicForced, error) {
	k := berth.JobKey{Namespace: w.Space(), ID: berth.JobID(in.JobID)}
	now := w.Now.UnixNano()
	c := &state.LaunchPeriodic{Key: k, Due: now, Force: true, Eval: seed(w, berth.TriggerPeriodicJob, 0), Now: now}
	index, err := w.Do(c)
	if err != nil {
		return op.PeriodicForced{}, err
	}
	out := op.PeriodicForced{EvalID: c.Eval.ID, EvalCreateIndex: index, LaunchedJobID: berth.PeriodicID(k.ID, w.Now)}
	out.Meta = op.Meta{Index: index, KnownLeader: true}
	return out, nil
}

// Limits of what names a child.
const (
	maxIDPrefix = 128
	maxToken    = 255
)

// dispatchJob makes a child of a parameterized job.
func (s *Server) dispatchJob(w *Write, in *op.DispatchJob) (op.JobDispatched, error) {
	if err := checkDispatch(w, in); err != nil {
		return op.JobDispatched{}, err
	}
	k := berth.JobKey{Namespace: w.Space(), ID: berth.JobID(in.JobID)}
	c := &state.DispatchJob{
		Key: k, Child: childID(k.ID, in.IdPrefixTemplate, w.Now.Unix()), Payload: in.Payload, Meta: in.Meta,
		Token: w.Options.IdempotencyToken, Priority: in.Priority, Eval: seed(w, berth.TriggerJobRegister, 0), Now: w.Now.UnixNano(),
	}
	index, err := w.Do(c)
	if err != nil {
		return op.JobDispatched{}, err
	}
	out := op.JobDispatched{DispatchedJobID: c.Child, EvalID: c.Eval.ID, EvalCreateIndex: index, JobCreateIndex: index}
	if c.Token != "" {
		out = dispatched(s.Store.Snapshot(), k, c.Token, out)
	}
	out.Meta = op.Meta{Index: index, KnownLeader: true}
	return out, nil
}

// dispatched is the answer to a dispatch with a token: the child that bears it,
// and the evaluation it began with. What is gone meanwhile is as it was
// answered.
func dispatched(snap *state.Snapshot, parent berth.JobKey, token string, out op.JobDispatched) op.JobDispatched {
	child := snap.ChildByToken(parent, token)
	if child == nil || child.ID == out.DispatchedJobID {
		return out
	}
	out = op.JobDispatched{DispatchedJobID: child.ID, JobCreateIndex: child.CreateIndex}
	for e := range snap.EvalsOf(child.Key()) {
		if e.CreateIndex == child.CreateIndex {
			out.EvalID, out.EvalCreateIndex = e.ID, e.CreateIndex
		}
	}
	return out
}

func checkDispatch(w *Write, in *op.DispatchJob) error {
	var ps berth.Problems
	if err := checkPriority("Priority", in.Priority); err != nil {
		return err
	}
	bad := func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }
	switch p := in.IdPrefixTemplate; {
	case len(p) > maxIDPrefix:
		ps.Addf("IdPrefixTemplate", "%d bytes are too long; allowed are %d", len(p), maxIDPrefix)
	case !utf8.ValidString(p) || strings.ContainsFunc(p, bad):
		ps.Addf("IdPrefixTemplate", "%q has a space or a character that cannot be printed", clip(p))
	}
	if n := len(w.Options.IdempotencyToken); n > maxToken {
		ps.Addf("idempotency_token", "%d bytes are too long; allowed are %d", n, maxToken)
	}
	for key, v := range in.Meta {
		if key == "" || strings.ContainsRune(key+v, 0) || !utf8.ValidString(key+v) {
			ps.Addf("Meta", "%q is not a usable key, or its value is not valid UTF-8", clip(key))
		}
	}
	return ps.Err()
}

// childID is the ID of a child that is dispatched now. Chance makes it unique;
// the log refuses one that is there.
func childID(parent berth.JobID, prefix string, now int64) berth.JobID {
	var b [4]byte
	rand.Read(b[:])
	if prefix != "" {
		prefix += "-"
	}
	return parent + berth.JobID(fmt.Sprintf("%s%s%d-%s", berth.DispatchInfix, prefix, now, hex.EncodeToString(b[:])))
}
