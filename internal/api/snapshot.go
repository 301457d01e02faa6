package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"berth"
	"berth/internal/state"
	"berth/op"
)

// snapshots registers the operations on saved snapshots and on the hash of the
// state.
func (s *Server) snapshots() {
	addStream(s, op.ReadSnapshot, s.readSnapshot)
	addStream(s, op.WriteSnapshot, s.writeSnapshot)
	add(s, op.ReadStateHash, s.stateHash)
}

// readSnapshot answers with a snapshot. Its checksum is in a header, so that the
// caller can check that it is complete.
func (s *Server) readSnapshot(ctx context.Context, who Caller, q *op.Query, x *exchange) error {
	if err := s.admit(ctx, op.ReadSnapshot.Info, who, q); err != nil {
		return err
	}
	if s.Operator == nil {
		return errNoOperator
	}
	// The file is complete before the first byte is sent, so errors still get a
	// status.
	saved, err := s.Operator.SaveSnapshot()
	if err != nil {
		return err
	}
	defer saved.Close()
	meta := op.Meta{KnownLeader: true}
	if q.AllowStale {
		s.contact(&meta)
	}
	h := x.w.Header()
	h.Set(op.HeaderIndex, strconv.FormatUint(saved.Index, 10))
	h.Set(op.HeaderKnownLeader, strconv.FormatBool(meta.KnownLeader))
	h.Set(op.HeaderLastContact, strconv.FormatInt(meta.LastContact.Milliseconds(), 10))
	h.Set(op.HeaderDigest, saved.Digest)
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Length", strconv.FormatInt(saved.Size, 10))
	h.Set("X-Content-Type-Options", "nosniff")
	if x.view.Head {
		return nil
	}
	// A failed write cuts the connection; the caller notices by the content
	// length.
	_, _ = io.CopyBuffer(&patient{x.w, http.NewResponseController(x.w)}, struct{ io.Reader }{saved}, make([]byte, 64<<10))
	return nil
}

// patient writes an answer of any size: the write timeout applies to each
// piece, not to the whole.
type patient struct {
	to    io.Writer // the answer
	limit *http.ResponseController
}

// Write implements io.Writer.
func (p *patient) Write(b []byte) (int, error) {
	p.limit.SetWriteDeadline(time.Now().Add(writeTimeout))
	return p.to.Write(b)
}

// writeSnapshot replaces the state of the cluster by that of a snapshot.
func (s *Server) writeSnapshot(ctx context.Context, who Caller, in *op.RestoreSnapshot, x *exchange) error {
	if _, _, err := s.admitWrite(ctx, op.WriteSnapshot.Info, who, in.Opts()); err != nil {
		return err
	}
	if s.Operator == nil {
		return errNoOperator
	}
	saved, now, err := s.Operator.RestoreSnapshot(ctx, x.body)
	if err != nil {
		return err
	}
	out := op.SnapshotRestored{SnapshotIndex: saved, Meta: op.Meta{Index: now, KnownLeader: true}}
	s.reply(x.w, x.view, &answered{Meta: out.Meta, value: out})
	return nil
}

// upload is a body of any size: the read timeout applies to each piece, not to
// the whole.
type upload struct {
	from  io.Reader
	limit *http.ResponseController
	began bool // some of the body was read, so it cannot be sent again
}

// Read implements io.Reader.
func (b *upload) Read(p []byte) (int, error) {
	b.began = true
	b.limit.SetReadDeadline(time.Now().Add(bodyTime))
	return b.from.Read(p)
}

// errUploadLost answers a restore if leadership changes after a part of the
// body was sent.
var errUploadLost = berth.Errorf(berth.NoLeader, "%w: leadership changed during the upload, and nothing was done", state.ErrLost)

// stateHash hashes the state of this server.
func (s *Server) stateHash(ctx context.Context, who Caller, in *op.StateHashQuery) (out op.StateHash, meta op.Meta, err error) {
	q := in.Opts()
	if err := s.admit(ctx, op.ReadStateHash.Info, who, q); err != nil {
		return out, meta, err
	}
	if err := s.waiting.enter(who); err != nil {
		return out, meta, err
	}
	defer s.waiting.exit(who)
	wait := op.MaxWait
	if q.MaxQueryTime > 0 {
		wait = min(wait, q.MaxQueryTime)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	// Hashes can be compared only at the same index, which this server may not
	// have reached.
	snap, err := s.Store.Await(ctx, in.Index)
	if err != nil {
		return out, meta, berth.Errorf(berth.Unavailable, "index: this server's state is at %d and did not reach %d within %v", s.Store.Snapshot().Index, in.Index, wait)
	}
	s.hashing.Lock()
	hash := snap.Hash()
	s.hashing.Unlock()
	meta = op.Meta{Index: max(snap.Index, 1), KnownLeader: true}
	s.contact(&meta)
	return op.StateHash{Index: snap.Index, Hash: fmt.Sprintf("%016x", hash)}, meta, nil
}
