package api

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"berth"
	"berth/internal/keyring"
	"berth/internal/state"
	"berth/op"
)

// Introductions is the rule for nodes that the servers do not know.
type Introductions struct {
	Enforcement string        // IntroduceNone, IntroduceWarn or IntroduceStrict; "" is IntroduceNone
	DefaultTTL  time.Duration // of introduction tokens; 0 is 5 minutes
	MaxTTL      time.Duration // 0 is 30 minutes
}

// What is done with a new node that shows no valid introduction token.
const (
	IntroduceNone   = "none"
	IntroduceWarn   = "warn" // it is taken, and logged
	IntroduceStrict = "strict"
)

// nodeIdentities registers the operations on identities of nodes.
func (s *Server) nodeIdentities() {
	ofNode(s, op.ReadNodeIdentity, op.AgentReadIdentity)
	x := add(s, op.RenewNodeIdentity, func(ctx context.Context, who Caller, in *op.RenewNode) (out op.Nothing, m op.Meta, err error) {
		q := &op.Query{Region: in.Region, AuthToken: in.AuthToken}
		return askNode(ctx, s, op.RenewNodeIdentity.Info, who, q, in.NodeID, op.AgentRenewIdentity, func(id string) *op.RenewNode { return &op.RenewNode{NodeID: id} }, nil)
	})
	x.regional = true
	s.ofNode(x)
	onLeader(s, op.IntroduceNode, s.introduce)
}

// introduce makes a token that lets one new node join.
func (s *Server) introduce(ctx context.Context, who Caller, opts *op.Write, in *op.Introduce) (out op.Introduction, index uint64, err error) {
	w, _, err := s.admitWrite(ctx, op.IntroduceNode.Info, who, opts)
	if err != nil {
		return out, 0, err
	}
	if err := s.ensureRootKey(ctx); err != nil {
		return out, 0, err
	}
	most := cmp.Or(s.Introductions.MaxTTL, 30*time.Minute)
	ttl := cmp.Or(in.TTL, s.Introductions.DefaultTTL, min(most, 5*time.Minute))
	pool := cmp.Or(in.NodePool, berth.DefaultNodePool)
	switch {
	case ttl < time.Second || ttl > most:
		return out, 0, berth.Errorf(berth.Invalid, "TTL: must be from 1s to %v (server.client_introduction.max_identity_ttl), got %v", most, ttl)
	case len(in.NodeName) > maxNodeText || strings.ContainsAny(in.NodeName, "\x00\n\r"):
		return out, 0, berth.Errorf(berth.Invalid, "NodeName: is too long, or has a line break")
	case pool == berth.AllNodePool:
		return out, 0, berth.Errorf(berth.Invalid, "NodePool: no node is in the pool %q; name the pool that the node will be in", pool)
	case s.Store.Snapshot().NodePool(pool) == nil:
		return out, 0, berth.Errorf(berth.NotFound, "NodePool: node pool %q not found", berth.Clip(pool, 64))
	}
	key, err := s.signingKey(s.Store.Snapshot())
	if err != nil {
		return out, 0, err
	}
	c := op.IntroductionClaims{NodeName: in.NodeName, NodePool: pool, Common: s.common(w, op.ForIntroduction(s.Region, pool, in.NodeName), w.Now, ttl)}
	out.JWT, err = key.Sign(c)
	return out, s.Store.Snapshot().Index, err
}

// signingKey returns the root key that signs.
func (s *Server) signingKey(snap *state.Snapshot) (*keyring.Key, error) {
	row := snap.ActiveKey()
	switch {
	case s.Keyring == nil:
		return nil, errNoKeyring
	case row == nil:
		return nil, berth.Errorf(berth.Unavailable, "the cluster has no root key yet")
	}
	return s.Keyring.Open(row)
}

// common returns the claims that identities of nodes have.
func (s *Server) common(w *Write, subject string, now time.Time, ttl time.Duration) op.Common {
	return op.Common{
		Subject: subject, Audience: []string{DefaultAudience}, Issuer: s.Issuer, ID: w.uuid(),
		IssuedAt: now.Unix(), NotBefore: now.Unix(), Expires: now.Add(ttl).Unix(),
	}
}

// signNode returns an identity of a node, or nil while none can be signed: the
// node goes on with its secret.
func (s *Server) signNode(w *Write, n *berth.Node) *string {
	key, err := s.signingKey(w.Snapshot)
	if err != nil {
		return nil
	}
	ttl := berth.DefaultNodeIdentityTTL
	if p := w.NodePool(n.NodePool); p != nil && p.NodeIdentityTTL > 0 {
		ttl = p.NodeIdentityTTL
	}
	c := op.NodeClaims{NodeID: n.ID.String(), NodePool: n.NodePool, Datacenter: n.Datacenter, Common: s.common(w, op.ForNode(s.Region, n.NodePool, n.ID), w.Now, ttl)}
	jwt, err := key.Sign(c)
	if err != nil {
		s.Logger.Warn("the identity of a node cannot be signed", "node", n.ID, "error", err)
		return nil
	}
	return &jwt
}

// withIdentity adds an identity to the answer of a change by a node's agent.
func (s *Server) withIdentity(w *Write, n *berth.Node, ch Change[op.NodeAnswer]) Change[op.NodeAnswer] {
	jwt := s.signNode(w, n)
	answer := ch.Answer
	ch.Answer = func(o *Outcome) op.NodeAnswer {
		out := answer(o)
		out.SignedIdentity = jwt
		return out
	}
	return ch
}

// wantsIdentity reports whether the agent of a node is to get another identity:
// it asks for one, or the one that it shows is not valid, or past two thirds of
// its time.
func wantsIdentity(w *Write, in *op.BeatNode) bool {
	token := w.Options.AuthToken
	if in.RenewIdentity || !isJWT(token) {
		return in.RenewIdentity
	}
	c, err := nodeIdentity(w.Snapshot, token, w.Now)
	return err != nil || w.Now.Unix() >= c.IssuedAt+(c.Expires-c.IssuedAt)*2/3
}

// clockSkew is by how much the clocks of servers may differ, in s.
const clockSkew = 60

// check returns what is wrong with a JWT that the cluster signed, whose signature
// was checked: times, audience, or that its subject is another.
func (c *verified) check(now time.Time, subject string) error {
	switch at := now.Unix(); {
	case c.Subject != subject:
		return berth.Errorf(berth.Denied, "the token is none of a node")
	case at > c.Expires:
		return berth.Errorf(berth.Denied, "the token has expired")
	case c.NotBefore > at+clockSkew:
		return berth.Errorf(berth.Denied, "the token is not valid yet")
	case !slices.Contains(c.Audience, DefaultAudience):
		return berth.Errorf(berth.Denied, "the token is meant for somebody else")
	}
	return nil
}

// verified is a JWT whose signature was checked.
type verified struct {
	op.NodeClaims
	NodeName string `json:"nomad_node_name"`

	key    berth.RootKeyID
	public []byte
}

// mostVerified bounds the identities that are remembered.
const mostVerified = 20_000

// signatures remembers JWTs of nodes whose signature was checked, which takes a
// hundred times as long as to find them here. That a key signed something is
// true for ever; everything else is asked each time.
var signatures struct {
	sync.Mutex
	known map[[32]byte]*verified
}

// verify checks the signature of a JWT of a node.
func verify(snap *state.Snapshot, token string) (*verified, error) {
	hash := sha256.Sum256([]byte(token))
	signatures.Lock()
	v := signatures.known[hash]
	signatures.Unlock()
	if v != nil {
		if k := snap.RootKey(v.key); k != nil && bytes.Equal(k.Public, v.public) {
			return v, nil
		}
	}
	v = &verified{}
	err := keyring.Verify(token, func(id berth.RootKeyID) *berth.RootKey {
		k := snap.RootKey(id)
		if k != nil {
			v.key, v.public = id, k.Public
		}
		return k
	}, v)
	if err != nil {
		return nil, err
	}
	signatures.Lock()
	defer signatures.Unlock()
	if signatures.known == nil || len(signatures.known) >= mostVerified {
		signatures.known = map[[32]byte]*verified{}
	}
	signatures.known[hash] = v
	return v, nil
}

// nodeIdentity checks the identity of a node. The region in its subject is that
// of the servers whose root key signed it, so it need not be compared.
func nodeIdentity(snap *state.Snapshot, token string, now time.Time) (*verified, error) {
	v, err := verify(snap, token)
	if err != nil {
		return nil, err
	}
	id, err := berth.ParseID[berth.Node](v.NodeID)
	if err != nil || id.IsZero() {
		return nil, berth.Errorf(berth.Denied, "the token names no node")
	}
	region, _, _ := strings.Cut(strings.TrimPrefix(v.Subject, "node:"), ":")
	return v, v.check(now, op.ForNode(region, v.NodePool, id))
}

// introduced checks the introduction token of a new node, and returns until when
// it is valid.
func introduced(snap *state.Snapshot, token string, n *berth.Node, now time.Time) (until time.Time, err error) {
	if !isJWT(token) {
		return until, berth.Errorf(berth.Denied, "no introduction token came with it")
	}
	v, err := verify(snap, token)
	if err != nil {
		return until, err
	}
	region, _, _ := strings.Cut(strings.TrimPrefix(v.Subject, "node-introduction:"), ":")
	if err := v.check(now, op.ForIntroduction(region, v.NodePool, v.NodeName)); err != nil {
		return until, err
	}
	switch {
	case v.NodePool != n.NodePool:
		return until, berth.Errorf(berth.Denied, "the introduction token is for nodes of the pool %q, and the node is in %q", v.NodePool, n.NodePool)
	case v.NodeName != "" && v.NodeName != n.Name:
		return until, berth.Errorf(berth.Denied, "the introduction token is for the node named %q", v.NodeName)
	}
	return time.Unix(v.Expires+1, 0), nil
}

// introduceNew decides whether a node that the servers do not know may register,
// and returns the command that uses up its introduction token, nil if there is no
// such token. A node that has an identity, and was collected, comes back with
// that.
func (s *Server) introduceNew(w *Write, n *berth.Node, c *state.RegisterNode) (state.Command, error) {
	token := w.Options.AuthToken
	if isJWT(token) {
		if v, err := nodeIdentity(w.Snapshot, token, w.Now); err == nil && v.NodeID == n.ID.String() {
			return nil, nil
		}
	}
	until, err := introduced(w.Snapshot, token, n, w.Now)
	if err == nil {
		hash := sha256.Sum256([]byte(token))
		if w.OneTimeToken(hash) == nil {
			return &state.IntroduceNode{Register: c, Token: hash, Expires: until.UnixNano()}, nil
		}
		err = berth.Errorf(berth.Denied, "another node has registered with this introduction token")
	}
	why := fmt.Errorf("%s: node %s (%s) is not introduced: %w", berth.PermissionDenied, n.ID, n.Name, err)
	switch s.Introductions.Enforcement {
	case IntroduceStrict:
		return nil, &berth.Error{Kind: berth.Denied, Code: berth.CodeNotIntroduced, Err: why}
	case IntroduceWarn:
		s.Logger.Info("a node registers that was not introduced; with server.client_introduction.enforcement = \"strict\" it would be refused", "node", n.ID, "name", n.Name, "remote", w.Caller.Remote, "reason", err)
	}
	return nil, nil
}
