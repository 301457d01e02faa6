package api

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"berth"
	"berth/internal/keyring"
	"berth/internal/state"
	"berth/op"
)

// rootKeys registers the operations on the keyring.
func (s *Server) rootKeys() {
	readList(s, op.ListRootKeys, listRootKeys)
	write(s, op.RotateRootKey, s.rotateRootKey)
	write(s, op.RemoveRootKey, removeRootKey)
	add(s, op.PublicKeys, func(ctx context.Context, who Caller, in *op.Query) (json.RawMessage, op.Meta, error) {
		if err := s.ensureRootKey(ctx); err != nil {
			return nil, op.Meta{}, err
		}
		return answer(ctx, s, op.PublicKeys.Info, who, in, func(r *Read) (json.RawMessage, error) { return publicKeys(r, in) })
	}).always = true // who leads makes the first key
	read(s, op.OIDCDiscovery, s.discovery)
}

// ensureRootKey makes the first root key of the cluster, if there is none and
// this server leads. An error of another server's term is a *termOver.
func (s *Server) ensureRootKey(ctx context.Context) error {
	if s.Keyring == nil || s.Store.Snapshot().Count(state.RootKeys) > 0 {
		return nil
	}
	leader, err := s.Cluster.Leader()
	if err != nil {
		return &termOver{err}
	}
	k, err := s.Keyring.Make(nil)
	if err != nil {
		return err
	}
	k.CreateTime = time.Now().UnixNano()
	_, err = leader.Propose(ctx, &state.AddRootKey{Key: k, First: true})
	switch {
	case berth.KindOf(err) == berth.Conflict: // another request was faster
		return nil
	case errors.Is(err, state.ErrLost): // to make it again does no harm
		return &termOver{err}
	}
	return err
}

// rootKeyView shows a root key.
func rootKeyView(snap *state.Snapshot, k *berth.RootKey) op.RootKey {
	return op.RootKey{
		KeyID: k.ID, Algorithm: op.AlgorithmAES, Signing: k.Signing, Wrapper: k.Wrapped.Provider, State: k.State, Variables: snap.VariablesUnder(k.ID),
		CreateTime: k.CreateTime, PublishTime: k.PublishTime, CreateIndex: k.CreateIndex, ModifyIndex: k.ModifyIndex,
	}
}

// listRootKeys returns the root keys, the oldest first.
func listRootKeys(r *Read, _ *op.Query) ([]op.RootKey, error) {
	r.Table(state.RootKeys)
	r.Also(state.Variables) // which they count
	l := scanned(r.Query, r.RootKeys(), byID(func(k *berth.RootKey) string { return k.ID.String() }))
	keep := func(k *berth.RootKey) bool { return strings.HasPrefix(k.ID.String(), r.Query.Prefix) }
	return page(r, l, keep, func(k *berth.RootKey) op.RootKey { return rootKeyView(r.Snapshot, k) })
}

// rotateRootKey decides that there is a new root key.
func (s *Server) rotateRootKey(w *Write, in *op.RotateKey) (ch Change[op.KeyRotated], err error) {
	switch {
	case s.Keyring == nil:
		return ch, errNoKeyring
	case in.Algorithm != "" && in.Algorithm != op.AlgorithmAES:
		return ch, berth.Errorf(berth.Invalid, "algo: must be %s, got %q", op.AlgorithmAES, berth.Clip(in.Algorithm, 64))
	case in.PublishTime < 0:
		return ch, berth.Errorf(berth.Invalid, "publish_time: must be a time in ns since 1970, got %d", in.PublishTime)
	case in.Full && in.PublishTime > 0:
		return ch, berth.Errorf(berth.Invalid, "full and publish_time: only one of them can be given")
	}
	k, err := s.Keyring.Make(slices.Collect(w.RootKeys()))
	if err != nil {
		return ch, err
	}
	k.CreateTime, k.PublishTime = w.Now.UnixNano(), in.PublishTime
	if in.PublishTime > w.Now.UnixNano() {
		k.State = berth.KeyPrepublished
	} else {
		k.PublishTime = 0
	}
	oneMore(rootKeysLimit, w.Count(state.RootKeys))
	return propose(&state.AddRootKey{Key: k, Full: in.Full, First: w.Count(state.RootKeys) == 0}, func(o *Outcome) op.KeyRotated {
		row := o.After.RootKey(k.ID)
		if row == nil { // removed meanwhile
			row = k
		}
		v := rootKeyView(o.After, row)
		return op.KeyRotated{Key: &v, Meta: o.Meta()}
	}), nil
}

// removeRootKey decides that a root key is removed.
func removeRootKey(_ *Write, in *op.RemoveRoot) (ch Change[op.WriteAnswer], err error) {
	id, err := berth.ParseID[berth.RootKey](in.KeyID)
	if err != nil {
		return ch, err
	}
	return propose[op.WriteAnswer](&state.RemoveRootKey{ID: id, Force: in.Force}, nil), nil
}

// publicKeys returns the keys that verify identities. It is open to everybody,
// as verifiers need it before they know anything.
func publicKeys(r *Read, _ *op.Query) (json.RawMessage, error) {
	r.Table(state.RootKeys)
	return keyring.PublicKeys(r.RootKeys())
}

// discovery tells tools of OpenID Connect where the public keys are. Without an
// issuer there is nothing to tell.
func (s *Server) discovery(r *Read, _ *op.Query) (out op.Discovery, err error) {
	r.Table(state.RootKeys)
	if s.Issuer == "" {
		return out, berth.Errorf(berth.NotFound, "OIDC Discovery endpoint disabled: server.oidc_issuer is not set")
	}
	out = op.Discovery{
		Issuer: s.Issuer, JWKS: strings.TrimSuffix(s.Issuer, "/") + op.PublicKeys.Path,
		ResponseTypes: []string{"code"}, SubjectTypes: []string{"public"}, Algorithms: []string{},
	}
	for k := range r.RootKeys() {
		if !slices.Contains(out.Algorithms, k.Signing) {
			out.Algorithms = append(out.Algorithms, k.Signing)
		}
	}
	return out, nil
}
