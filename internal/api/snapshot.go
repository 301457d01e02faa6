package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"berth"
	"berth/internal/state"
	"berth/op"
)

func (s *Server) snapshots() {
	for info, h := range map[*op.Info]handler{
		op.ReadSnapshot.Info: s.readSnapshot, op.WriteSnapshot.Info: s.writeSnapshot, op.ReadStateHash.Info: s.stateHash,
	} {
		s.served[info.Name] = true
		s.routes.add(info, h)
	}
}

// readSnapshot answers with a snapshot. Its checksum is in a header, so that
// the caller can tell whether all of it came.
func (s *Server) readSnapshot(w http.ResponseWriter, r *http.Request, path values) {
	info := op.ReadSnapshot.Info
	_, q, err := decodeQuery[op.Query](r, path, s.Region)
	if err == nil && s.passOn(w, r, info, !q.AllowStale) {
		return
	}
	if err == nil {
		err = s.admit(r.Context(), info, caller(r, q.AuthToken), q)
	}
	if err == nil && s.Operator == nil {
		err = errNoOperator
	}
	var saved *Snapshot
	if err == nil {
		saved, err = s.Operator.SaveSnapshot()
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	defer saved.Close()
	meta := op.Meta{KnownLeader: true}
	if q.AllowStale {
		s.contact(&meta)
	}
	h := w.Header()
	h.Set(op.HeaderIndex, strconv.FormatUint(saved.Index, 10))
	h.Set(op.HeaderKnownLeader, strconv.FormatBool(meta.KnownLeader))
	h.Set(op.HeaderLastContact, strconv.FormatInt(meta.LastContact.Milliseconds(), 10))
	h.Set(op.HeaderDigest, saved.Digest)
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Length", strconv.FormatInt(saved.Size, 10))
	h.Set("X-Content-Type-Options", "nosniff")
	if r.Method == http.MethodHead {
		return
	}
	// What cannot be sent any more cuts the connection, which the length tells.
	_, _ = io.CopyBuffer(&patient{w, http.NewResponseController(w)}, struct{ io.Reader }{saved}, make([]byte, 64<<10))
}

// patient writes an answer of any size: the caller must take each piece in
// time, not the whole.
type patient struct {
	to    io.Writer
	limit *http.ResponseController
}

// Write implements io.Writer.
func (p *patient) Write(b []byte) (int, error) {
	p.limit.SetWriteDeadline(time.Now().Add(writeTimeout))
	return p.to.Write(b)
}

// writeSnapshot replaces the state of the cluster by that of a snapshot.
func (s *Server) writeSnapshot(w http.ResponseWriter, r *http.Request, path values) {
	info := op.WriteSnapshot.Info
	body := &upload{from: r.Body, limit: http.NewResponseController(w)}
	if s.passStream(w, r, info, body) {
		return
	}
	_, opts, err := decodeBody[op.RestoreSnapshot](w, r, path, info, s.Region)
	if err != nil {
		s.fail(w, err)
		return
	}
	if _, _, err = s.admitWrite(info, caller(r, opts.AuthToken), opts); err == nil && s.Operator == nil {
		err = errNoOperator
	}
	var out op.SnapshotRestored
	if err == nil {
		out.SnapshotIndex, out.Index, err = s.Operator.RestoreSnapshot(r.Context(), body)
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	out.KnownLeader = true
	s.reply(w, r, out, &out.Meta)
}

// upload is a body of any size: each piece must come in time, not the whole.
type upload struct {
	from  io.Reader
	limit *http.ResponseController
	began bool
}

// Read implements io.Reader.
func (b *upload) Read(p []byte) (int, error) {
	b.began = true
	b.limit.SetReadDeadline(time.Now().Add(bodyTime))
	return b.from.Read(p)
}

// passStream is passOn of a request whose body can be read once: it is tried
// again elsewhere only as long as nothing of the body was read.
func (s *Server) passStream(w http.ResponseWriter, r *http.Request, info *op.Info, body *upload) (done bool) {
	if s.Others == nil {
		return false
	}
	hand := func(how passed) func(context.Context, string) error {
		return func(ctx context.Context, addr string) error {
			once := &lent{from: body}
			err := s.handBytes(ctx, w, r, once, r.ContentLength, addr, how)
			once.Close()
			if harmless(err) && body.began {
				return berth.Errorf(berth.NoLeader, "%w: leadership changed while the body was on its way, and nothing was done", state.ErrLost)
			}
			return err
		}
	}
	if region := r.URL.Query().Get("region"); s.away(region) {
		if err := s.toRegion(r.Context(), region, hand(passedRegion)); err != nil {
			s.fail(w, berth.Errorf(or(berth.KindOf(err), berth.Unavailable), "region %q: %w", berth.Clip(region, 64), err))
		}
		return true
	}
	if passedOf(r.Context()) != passedLeader {
		if _, err := s.Cluster.Leader(); err == nil {
			return false
		}
	}
	here, err := s.toLeader(r.Context(), false, hand(passedLeader))
	if err != nil {
		s.fail(w, lostOnTheWay(err))
		return true
	}
	return !here
}

func or(kind, otherwise berth.Kind) berth.Kind {
	if kind == "" {
		return otherwise
	}
	return kind
}

// lent is a body that is given to the transport of another request, which may
// read it until it is closed, and no longer.
type lent struct {
	mu     sync.Mutex
	from   io.Reader
	closed bool
}

// Read implements io.Reader.
func (l *lent) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	return l.from.Read(p)
}

// Close implements io.Closer. It waits for a read that is under way.
func (l *lent) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return nil
}

// stateHash hashes the state of this server.
func (s *Server) stateHash(w http.ResponseWriter, r *http.Request, path values) {
	in, q, err := decodeQuery[op.StateHashQuery](r, path, s.Region)
	if err == nil {
		err = s.hashState(w, r, in, q)
	}
	if err != nil {
		s.fail(w, err)
	}
}

func (s *Server) hashState(w http.ResponseWriter, r *http.Request, in *op.StateHashQuery, q *op.Query) error {
	who := caller(r, q.AuthToken)
	if err := s.admit(r.Context(), op.ReadStateHash.Info, who, q); err != nil {
		return err
	}
	if err := s.waiting.enter(who); err != nil {
		return err
	}
	defer s.waiting.exit(who)
	wait := op.MaxWait
	if q.MaxQueryTime > 0 {
		wait = min(wait, q.MaxQueryTime)
	}
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	snap, err := s.Store.Await(ctx, in.Index)
	if err != nil {
		return berth.Errorf(berth.Unavailable, "index: this server's state is at %d, and did not come to %d within %v", s.Store.Snapshot().Index, in.Index, wait)
	}
	s.hashing.Lock()
	hash := snap.Hash()
	s.hashing.Unlock()
	meta := op.Meta{Index: max(snap.Index, 1), KnownLeader: true}
	s.contact(&meta)
	s.reply(w, r, op.StateHash{Index: snap.Index, Hash: fmt.Sprintf("%016x", hash)}, &meta)
	return nil
}
