package api

import (
	"context"
	"errors"
	"time"

	"berth"
	"berth/internal/acl"
	"berth/internal/state"
	"berth/op"
)

// Write is a request to change something.
type Write struct {
	*state.Snapshot
	Options op.Write
	Caller  Caller
	Now     time.Time
	Leader  Leader
	server  *Server
	ctx     context.Context
	index   uint64
	said    string // the namespace that the request named, "" if it named none
	began   bool   // something was proposed, or may have been
}

// Space returns the namespace that the request is about.
func (w *Write) Space() string { return w.Options.Namespace }

// Do proposes commands as one change and waits until they are safe. It returns
// the state index of the last.
func (w *Write) Do(cmds ...state.Command) (uint64, error) {
	results, err := w.Leader.Propose(w.ctx, cmds...)
	if err != nil && !w.began && errors.Is(err, state.ErrLost) && !errors.Is(err, state.ErrUnknown) {
		return 0, &termOver{err}
	}
	w.began = true
	if err != nil {
		return 0, err
	}
	w.index = results[len(results)-1].Index
	return w.index, nil
}

// runWrite does a write on this server, if it leads; see local.
func runWrite[In, Out any](ctx context.Context, s *Server, info *op.Info, who Caller, opts *op.Write, in *In, f func(*Write, *In) (Out, error)) (out Out, index uint64, err error) {
	w, err := s.admitWrite(ctx, info, who, opts)
	if err != nil {
		return out, 0, err
	}
	out, err = f(w, in)
	return out, w.index, err
}

// admitWrite checks that a write may be made here, and by this caller.
func (s *Server) admitWrite(ctx context.Context, info *op.Info, who Caller, opts *op.Write) (*Write, error) {
	if err := s.region(opts.Region); err != nil {
		return nil, err
	}
	w := &Write{Options: *opts, Caller: who, Now: time.Now(), server: s, ctx: ctx, said: opts.Namespace}
	if w.said == "" {
		w.Options.Namespace = berth.DefaultNamespace
	}
	if w.said == berth.AllNamespaces && info.Space == acl.QuerySpace {
		return nil, berth.Errorf(berth.Invalid, "namespace: %q is for reading; what is written stands in one namespace", w.said)
	}
	if err := s.allow(info, who, w.Space()); err != nil {
		return nil, err
	}
	var err error
	if w.Leader, err = s.Cluster.Leader(); err != nil {
		return nil, &termOver{err}
	}
	w.Snapshot = s.Store.Snapshot()
	return w, nil
}
