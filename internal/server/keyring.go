package server

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"berth"
	"berth/internal/keyring"
	"berth/internal/peer"
	"berth/internal/state"
	"berth/internal/wire"
	"berth/op"
)

// Root keys are in the state, wrapped with a key that is in a file of each
// server. The server that makes the first root key makes that key, too; the
// others get it from there, over the connection that servers use.

// handleKeyring registers what servers ask each other for.
func (s *Server) handleKeyring() {
	if s.config.Cluster == nil || s.config.Wrapping == nil {
		return
	}
	peer.Handle(s.wire, op.FetchWrapping, func(_ context.Context, _ *wire.Call, in *op.WrappingRef) (*op.WrappingKey, error) {
		id, err := berth.ParseID[keyring.Wrapping](in.ID)
		if err != nil {
			return nil, err
		}
		key, err := s.config.Wrapping.Key(id)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, berth.Errorf(berth.NotFound, "wrapping key %s not found", id)
		}
		if err != nil {
			return nil, err
		}
		return &op.WrappingKey{Key: key}, nil
	})
}

// askAgain is the wait before other servers are asked again for a wrapping key
// that none of them had.
const askAgain = 2 * time.Second

// fetchWrapping gets the wrapping keys that root keys need and this server does
// not have, until ctx ends.
func (s *Server) fetchWrapping(ctx context.Context) error {
	if s.config.Wrapping == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	watch := s.store.Watch(state.OnTable(state.RootKeys))
	defer watch.Stop()
	warned := false
	for {
		missing := s.config.Wrapping.Missing(slices.Collect(s.store.Snapshot().RootKeys()))
		left := false
		for _, id := range missing {
			if err := s.fetchKey(ctx, id); err != nil {
				left = true
				if !warned && ctx.Err() == nil {
					s.config.Logger.Warn("no other server gave the key that wraps root keys; this server cannot read variables until it has it", "key", id, "error", err)
					warned = true
				}
			}
		}
		if !left {
			warned = false
			if err := watch.Wait(ctx); err != nil {
				return err
			}
			continue
		}
		again := time.NewTimer(askAgain)
		select {
		case <-watch.C():
		case <-again.C:
		case <-ctx.Done():
		}
		again.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// fetchKey asks the other servers of the region for a wrapping key and stores
// it. The error is that of the last one.
func (s *Server) fetchKey(ctx context.Context, id keyring.WrappingID) error {
	err := berth.Errorf(berth.Unavailable, "no other server is known")
	for _, addr := range s.InRegion(s.config.Region) {
		if addr == s.config.Advertise {
			continue
		}
		var out *op.WrappingKey
		call, cancel := context.WithTimeout(ctx, dialTimeout)
		out, err = op.Call(call, caller{s, addr}, op.FetchWrapping, &op.WrappingRef{ID: id.String()})
		cancel()
		if err == nil {
			return s.config.Wrapping.Add(id, out.Key)
		}
	}
	return err
}
