package api

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"sync"
	"time"

	"berth"
	"berth/internal/msgpack"
	"berth/op"
)

// The types of callers besides those of tokens.
const (
	workloadCaller  = "workload"
	anonymousCaller = "anonymous"
	invalidCaller   = "invalid"
)

// identity returns who holds a token. Without access control only identities of
// tasks are known, and everybody else is anonymous. The error is a Denied one.
func (s *Server) identity(token string) (op.Identity, error) {
	switch {
	case token == "":
		return op.Identity{Name: "Anonymous Token", Type: anonymousCaller}, nil
	case s.guard == nil && isJWT(token):
		c, a, err := identified(s.Store.Snapshot(), token, time.Now())
		if err != nil {
			return op.Identity{}, errToken
		}
		return op.Identity{Name: workloadName(a, c.Task), Type: workloadCaller, AllocID: a.ID.String()}, nil
	case s.guard == nil:
		return op.Identity{Name: "Anonymous Token", Type: anonymousCaller}, nil
	}
	h, err := s.guard.holder(token)
	switch {
	case err != nil:
		return op.Identity{}, err
	case h.task != nil:
		return op.Identity{Name: h.task.name, Type: workloadCaller, AllocID: h.task.alloc.String()}, nil
	}
	t := h.token
	out := op.Identity{AccessorID: t.AccessorID, Name: t.Name, Type: t.Type, Global: t.Global, CreateTime: time.Unix(0, t.CreateTime).UTC()}
	if t.ExpirationTime != 0 {
		out.ExpirationTime = time.Unix(0, t.ExpirationTime).UTC()
	}
	return out, nil
}

// whoAmI tells callers who they are.
func (s *Server) whoAmI(r *Read, _ *op.Query) (op.Identity, error) {
	r.At(r.Index)
	r.Ready()
	id, err := s.identity(r.Caller.Token)
	if err != nil && s.guard != nil {
		s.guard.guesses.wrong(r.Caller.Remote)
	}
	return id, err
}

// known remembers what a server said of a token, for a few seconds. It is safe for
// concurrent use.
type whoKnown struct {
	mu   sync.Mutex
	byID map[[32]byte]whoEntry
}

// whoEntry is what a server said, and until when that counts.
type whoEntry struct {
	op.Identity
	until time.Time
}

const (
	whoTime = 10 * time.Second
	mostWho = 10_000
)

// whois returns who holds a token, also on an agent that is not a server: that
// asks one.
func (s *Server) whois(ctx context.Context, token, remoteAddr string) (op.Identity, error) {
	if s.server == nil {
		id, err := s.identity(token)
		if err != nil { // another server may have made it a moment ago
			s.Cluster.Sync(ctx, Hold)
			id, err = s.identity(token)
		}
		return id, err
	}
	if token == "" {
		return s.identity("")
	}
	hash, now := sha256.Sum256([]byte(token)), time.Now()
	s.who.mu.Lock()
	e, ok := s.who.byID[hash]
	s.who.mu.Unlock()
	if ok && now.Before(e.until) {
		return e.Identity, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	conn, err := s.server(ctx)
	if err != nil {
		return e.Identity, err
	}
	arg, err := msgpack.Append(nil, &op.Query{Region: s.Region, AuthToken: token, AllowStale: true})
	if err != nil {
		return e.Identity, err
	}
	got, err := conn.Forward(ctx, &op.Forwarded{Name: op.WhoAmI.Name, In: arg, Remote: remoteAddr})
	if err != nil {
		return e.Identity, err
	}
	e = whoEntry{until: now.Add(whoTime)}
	if err := json.Unmarshal(got.Body, &e.Identity); err != nil {
		return e.Identity, err
	}
	s.who.mu.Lock()
	defer s.who.mu.Unlock()
	if s.who.byID == nil || len(s.who.byID) >= mostWho {
		s.who.byID = map[[32]byte]whoEntry{}
	}
	s.who.byID[hash] = e
	return e.Identity, nil
}

// Authenticate returns an error unless a token is valid: that of a task or of
// access control. Without access control only identities of tasks are.
func (s *Server) Authenticate(ctx context.Context, token, remoteAddr string) error {
	if token == "" {
		return berth.Errorf(berth.Denied, "Permission denied: the Task API needs a token, also without access control; that of the task is in NOMAD_TOKEN or secrets/nomad_token with identity { env = true, file = true }")
	}
	id, err := s.whois(ctx, token, remoteAddr)
	if err == nil && id.Type == anonymousCaller {
		err = errToken
	}
	return err
}
