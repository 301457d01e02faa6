package op

import (
	"time"

	"berth"
	"berth/internal/acl"
	"berth/internal/decode"
)

// NodeIdentity is what the identity of a node says.
type NodeIdentity struct {
	Claims map[string]any // by the names of the JWT; empty if the node has no identity yet
}

// RenewNode asks the agent of a node to get a new identity with its next
// heartbeat.
type RenewNode struct {
	NodeID string `query:"node_id"` // "" is the node of the agent that answers
	Write
}

// Introduce asks for a token that lets one new node join.
type Introduce struct {
	TTL      time.Duration // 0: what the servers are configured for
	NodeName string        // only a node of this name may use it; "": any
	NodePool string        // only a node of this pool may use it; "": of the default pool
	Write
}

// Shape takes the TTL as text as well, as older clients send it.
func (*Introduce) Shape(body decode.Tree) decode.Tree {
	if body["TTL"] == "" {
		delete(body, "TTL")
	}
	return body
}

// Introduction is a token that lets one new node join.
type Introduction struct{ JWT string }

// The operations on identities of nodes.
var (
	ReadNodeIdentity  = define[NodeTarget, NodeIdentity]("node.identity", "GET /v1/client/identity", "", acl.NodeRead, acl.NoSpace, local)
	RenewNodeIdentity = define[RenewNode, Nothing]("node.renew_identity", "PUT /v1/client/identity/renew", "", acl.NodeWrite, acl.NoSpace, local)
	IntroduceNode     = define[Introduce, Introduction]("node.introduce", "PUT /v1/acl/identity/client-introduction-token", "", acl.NodeWrite, acl.NoSpace)

	AgentReadIdentity  = define[NodeTarget, NodeIdentity]("agent.identity", "", "NodeIdentity.Get", acl.Server, acl.NoSpace, agents)
	AgentRenewIdentity = define[RenewNode, Nothing]("agent.renew_identity", "", "NodeIdentity.Renew", acl.Server, acl.NoSpace, agents, write)
)

// NodeClaims are what the identity of a node says, by the names that are
// documented for Nomad.
type NodeClaims struct {
	NodeID     string `json:"nomad_node_id"`
	NodePool   string `json:"nomad_node_pool"`
	Datacenter string `json:"nomad_node_datacenter"`
	Common
}

// IntroductionClaims are what an introduction token says.
type IntroductionClaims struct {
	NodeName string `json:"nomad_node_name,omitempty"`
	NodePool string `json:"nomad_node_pool"`
	Common
}

// Common are the claims that every identity has. Times are s since 1970.
type Common struct {
	Subject   string   `json:"sub"`
	Audience  []string `json:"aud"`
	Issuer    string   `json:"iss,omitempty"`
	IssuedAt  int64    `json:"iat"`
	NotBefore int64    `json:"nbf"`
	Expires   int64    `json:"exp"`
	ID        string   `json:"jti"`
}

// ForNode returns the subject of a node's identity.
func ForNode(region, pool string, id berth.NodeID) string {
	return "node:" + region + ":" + pool + ":" + id.String() + ":default"
}

// ForIntroduction returns the subject of an introduction token.
func ForIntroduction(region, pool, name string) string {
	return "node-introduction:" + region + ":" + pool + ":" + name + ":default"
}
