package agent

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"sync"

	"berth"
	"berth/internal/agent/local"
	"berth/op"
)

// The node's identity: a token that servers sign for it, and sign again when two
// thirds of its time are over. The agent shows it with every call. Its secret
// remains what it falls back on: servers that find an identity wanting hand out
// another with the next heartbeat, which always has the secret with it.

// nodeIdentity is the identity of the node. It is safe for concurrent use.
type nodeIdentity struct {
	mu     sync.Mutex
	jwt    string // "" if the node has none
	intro  string // introduces the node to servers that do not know it; "" for none
	forced bool   // another is asked for with the next heartbeat
}

// loadIdentity reads what an earlier agent recorded, and the introduction token.
// The token of the configuration comes before that in the state directory.
func (a *Agent) loadIdentity() {
	var errs [2]error
	a.identity.jwt, errs[0] = local.NodeIdentity(a.c.StateDir)
	if a.identity.intro = a.c.IntroToken; a.identity.intro == "" {
		a.identity.intro, errs[1] = local.IntroToken(a.c.StateDir)
	}
	if err := errors.Join(errs[:]...); err != nil {
		a.log.Warn("a token of the node cannot be read", "error", err)
	}
}

// credential is what proves to servers that a call is the node's own.
func (a *Agent) credential() string {
	a.identity.mu.Lock()
	defer a.identity.mu.Unlock()
	if a.identity.jwt != "" {
		return a.identity.jwt
	}
	return a.secret
}

// introduction is what a registration shows beside the node's secret: the
// identity, or what introduces a node that has none yet.
func (a *Agent) introduction() string {
	a.identity.mu.Lock()
	defer a.identity.mu.Unlock()
	switch {
	case a.identity.jwt != "":
		return a.identity.jwt
	case a.identity.intro != "":
		return a.identity.intro
	}
	return a.secret
}

// wantsIdentity reports whether the next heartbeat asks for an identity.
func (a *Agent) wantsIdentity() bool {
	a.identity.mu.Lock()
	defer a.identity.mu.Unlock()
	return a.identity.jwt == "" || a.identity.forced
}

// renewed takes over the identity in an answer of servers, if there is one.
func (a *Agent) renewed(answer *op.NodeAnswer) {
	if answer.SignedIdentity == nil || *answer.SignedIdentity == "" {
		return
	}
	jwt := *answer.SignedIdentity
	a.identity.mu.Lock()
	a.identity.jwt, a.identity.forced = jwt, false
	a.identity.mu.Unlock()
	if err := local.PutNodeIdentity(a.c.StateDir, jwt); err != nil {
		a.log.Warn("the identity of the node cannot be recorded; after a restart the agent goes by the node's secret", "error", err)
	}
}

// unproved gives up an identity that servers did not accept, and reports whether
// there was one and there is an introduction token to try instead.
func (a *Agent) unproved() bool {
	a.identity.mu.Lock()
	defer a.identity.mu.Unlock()
	had := a.identity.jwt != ""
	a.identity.jwt = ""
	return had && a.identity.intro != ""
}

// serveIdentity answers what people ask about the node's identity. The token
// itself is never told.
func (a *Agent) serveIdentity(s *serving) {
	onCall(s, op.AgentReadIdentity, func(_ context.Context, q *op.NodeTarget) (*op.NodeIdentity, error) {
		if err := a.isNode(q.NodeID); err != nil {
			return nil, err
		}
		a.identity.mu.Lock()
		jwt := a.identity.jwt
		a.identity.mu.Unlock()
		claims, err := claimsOf(jwt)
		return &op.NodeIdentity{Claims: claims}, err
	})
	onCall(s, op.AgentRenewIdentity, func(_ context.Context, in *op.RenewNode) (*op.Nothing, error) {
		if err := a.isNode(in.NodeID); err != nil {
			return nil, err
		}
		a.identity.mu.Lock()
		defer a.identity.mu.Unlock()
		a.identity.forced = true
		return &op.Nothing{}, nil
	})
}

// claimsOf returns the claims of a JWT, without checking anything: of "", none.
func claimsOf(jwt string) (map[string]any, error) {
	claims := map[string]any{}
	if jwt == "" {
		return claims, nil
	}
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 {
		return claims, berth.Errorf(berth.Unavailable, "the identity of the node is damaged; it gets another one soon")
	}
	b, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err == nil {
		err = json.Unmarshal(b, &claims)
	}
	if err != nil {
		return claims, berth.Errorf(berth.Unavailable, "the identity of the node is damaged; it gets another one soon: %w", err)
	}
	return claims, nil
}
