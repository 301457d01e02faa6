package api

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"berth"
	"berth/internal/acl"
	"berth/internal/state"
	"berth/op"
)

// guard decides what callers may do, by the tokens and policies of the state.
type guard struct {
	store   *state.Store
	guesses *guesses
	known   sync.Map // [32]byte, the hash of a secret → *holder
	rights  policySets
	tasks   workloads
}

// policySets are the rights that sets of policies give, so that policies are parsed
// once and not for each of the tokens that have them.
type policySets struct {
	mu      sync.Mutex
	version uint64              // of the tokens and policies that they were found in
	by      map[string]*acl.ACL // by the names of the policies
}

// of returns what a token allows in a state.
func (p *policySets) of(s *state.Snapshot, t *berth.ACLToken) *acl.ACL {
	if t.Type == berth.TokenManagement {
		return acl.Everything()
	}
	names := s.PoliciesOf(t)
	key, version := strings.Join(names, "\x00"), s.ACLVersion()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by == nil || p.version < version {
		p.version, p.by = version, map[string]*acl.ACL{}
	}
	if rights := p.by[key]; rights != nil && p.version == version {
		return rights
	}
	rights := s.RightsBy(names...)
	if p.version == version { // an older state is asked for once
		p.by[key] = rights
	}
	return rights
}

// holder is what is known of the holder of a token.
type holder struct {
	version uint64          // of the tokens and policies that it was found in
	token   *berth.ACLToken // nil: the holder has none
	rights  *acl.ACL
	task    *workload // nil: the holder is no task
}

// errToken refuses a token. It does not tell one that never was from one that is
// no longer.
var errToken = berth.Errorf(berth.Denied, "Permission denied: the token is not valid")

// holder returns who holds the token of a caller.
func (g *guard) holder(token string) (*holder, error) {
	s := g.store.Snapshot()
	if isJWT(token) {
		return g.tasks.holder(s, token, time.Now())
	}
	hash := sha256.Sum256([]byte(token))
	h, _ := g.known.Load(hash)
	x, _ := h.(*holder)
	if x == nil || x.version != s.ACLVersion() {
		if x = g.find(s, token, hash); x == nil {
			g.known.Delete(hash)
			return nil, errToken
		}
		g.known.Store(hash, x) // as many as there are tokens, at most
	}
	if x.token != nil && x.token.Expired(time.Now()) {
		return nil, errToken
	}
	return x, nil
}

// seen reports whether a token, or none, was found to be valid before. It may have
// ended since.
func (g *guard) seen(token string) bool {
	if token == "" {
		return true
	}
	hash := sha256.Sum256([]byte(token))
	if isJWT(token) {
		g.tasks.mu.Lock()
		defer g.tasks.mu.Unlock()
		return g.tasks.known[hash] != nil
	}
	_, ok := g.known.Load(hash)
	return ok
}

// find looks up the holder of a token in a state; nil if it is not valid.
func (g *guard) find(s *state.Snapshot, token string, hash [32]byte) *holder {
	if token == "" {
		return &holder{version: s.ACLVersion(), rights: s.RightsBy(berth.AnonymousPolicy)}
	}
	t := s.ACLTokenOf(hash)
	if t == nil {
		return nil
	}
	return &holder{version: s.ACLVersion(), token: t, rights: g.rights.of(s, t)}
}

// authorize is the one place that decides whether a caller may do something. A
// refusal names what is missing to those who may know the namespace.
func (g *guard) authorize(who Caller, need acl.Capability, namespace string) error {
	if need == acl.Open {
		return nil
	}
	if err := g.guesses.refuses(who.Remote); err != nil && !g.seen(who.Token) {
		return err
	}
	h, err := g.holder(who.Token)
	switch {
	case err != nil:
		g.guesses.wrong(who.Remote)
		return err
	case h.rights.Allows(need, namespace):
		return nil
	case namespace == "" || namespace == berth.AllNamespaces || strings.HasPrefix(string(need), "node_pool:"):
		return berth.Errorf(berth.Denied, "Permission denied: %s %s", who.lacks(), need.Granted())
	}
	namespace, _, _ = strings.Cut(namespace, "\x00") // see acl.Place
	if h.rights.SomethingIn(namespace) {
		return berth.Errorf(berth.Denied, "Permission denied: %s %s in namespace %q", who.lacks(), need.Granted(), berth.Clip(namespace, 64))
	}
	if who.Token == "" {
		return errNoToken
	}
	return errForeign
}

// lacks begins the sentence that says what a caller may not do.
func (c *Caller) lacks() string {
	if c.Token == "" {
		return "no token was sent, and anonymous requests lack"
	}
	return "the token lacks"
}

// errForeign refuses a caller that has no rights at all in a namespace, and
// errNoToken one that has not said who it is.
var (
	errForeign = berth.Errorf(berth.Denied, "Permission denied")
	errNoToken = berth.Errorf(berth.Denied, "%w: no token was sent", errForeign)
)

// mayOf asks for a right in the namespace of something that exists. Who has no
// rights there at all gets the answer that absent returns, which is also that for
// something that does not exist: nobody learns which IDs of others are in use.
func mayOf(may func(acl.Capability, string) error, need acl.Capability, namespace string, absent func() error) error {
	err := may(need, namespace)
	if errors.Is(err, errForeign) {
		return absent()
	}
	return err
}

// absent returns the answer for something that does not exist: that it was not
// found, to those who could see it if it were in the namespace of the request.
func (r *Read) absent(need acl.Capability, format string, args ...any) func() error {
	return func() error {
		if err := r.may(need, r.Space()); err != nil {
			return err
		}
		return berth.Errorf(berth.NotFound, format, args...)
	}
}

// name names what a caller may see.
func (g *guard) name(who Caller) string {
	h, err := g.holder(who.Token)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%x@%d", sha256.Sum256([]byte(who.Token)), h.version)
}

// meet gives this server the chance to learn of a token that another server made
// a moment ago. The error is Behind if that takes too long: then the leader knows
// the token, or not.
func (s *Server) meet(ctx context.Context, info *op.Info, who Caller, patience time.Duration) error {
	asks := info == op.ReadUIStart.Info || info == op.WhoAmI.Info // open, and about the token
	if s.guard == nil || who.Token == "" || info.Need == acl.Open && !asks || info.Need == acl.Node || info.Need == acl.Server {
		return nil
	}
	if s.guard.guesses.refuses(who.Remote) != nil && !s.guard.seen(who.Token) {
		return nil // it is refused, and not even looked up
	}
	if _, err := s.guard.holder(who.Token); err == nil {
		return nil
	}
	// Without a leader, what is known here decides.
	if err := s.Cluster.Sync(ctx, patience); errors.As(err, new(Behind)) {
		return err
	}
	return nil
}

// recheck is how often a request that waits asks whether its token is still
// valid.
const recheck = 500 * time.Millisecond

// while returns a context that ends, at most a second late, when a check refuses
// the caller. The second result then returns the refusal.
func (s *Server) while(ctx context.Context, info *op.Info, check func() error) (context.Context, func() error, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	lost := func() error {
		if err := context.Cause(ctx); err != nil && berth.KindOf(err) == berth.Denied {
			return err
		}
		return nil
	}
	if s.guard == nil || info.Need == acl.Open || info.Need == acl.Node || info.Need == acl.Server {
		return ctx, lost, func() { cancel(nil) }
	}
	go func() {
		tick := time.NewTicker(recheck)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if err := check(); err != nil {
					cancel(err)
					return
				}
			}
		}
	}()
	return ctx, lost, func() { cancel(nil) }
}

// whileIn is while for what needs the right of an operation in a namespace.
func (s *Server) whileIn(ctx context.Context, info *op.Info, who Caller, namespace string) (context.Context, func() error, context.CancelFunc) {
	return s.while(ctx, info, func() error { return s.Authorize(who, info.Need, namespace) })
}
