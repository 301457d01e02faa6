package state

import "berth"

// IntroduceNode registers a node with an introduction token, which is used up by
// that: no other node can register with it. The token is forgotten when it
// expires, as then its signature no longer counts.
type IntroduceNode struct {
	Register *RegisterNode
	Token    [32]byte // SHA-256 of the token
	Expires  int64    // when the token does, ns since 1970
}

// Apply implements Command.
func (c *IntroduceNode) Apply(tx *Tx) error {
	switch {
	case c.Register == nil || c.Register.Node == nil || c.Token == [32]byte{} || c.Expires <= 0:
		return berth.Errorf(berth.Invalid, "introduction of a node: is incomplete")
	case tx.Node(c.Register.Node.ID) != nil:
		return c.Register.Apply(tx) // an answer was lost, and the agent registers again
	case tx.OneTimeToken(c.Token) != nil:
		return &berth.Error{Kind: berth.Denied, Code: berth.CodeNotIntroduced, Err: errIntroductionUsed}
	}
	if err := c.Register.Apply(tx); err != nil {
		return err
	}
	row := &berth.OneTimeToken{SecretHash: c.Token, ExpirationTime: c.Expires, CreateIndex: tx.Index, ModifyIndex: tx.Index}
	tx.acl.oneTime.put(tx, ACLOneTimeTokens, string(c.Token[:]), row)
	return nil
}

// introducedSince is the log version that brought introduction tokens.
const introducedSince = 6

// needs implements needer: the node may need more than its introduction does.
func (c *IntroduceNode) needs() int {
	if c.Register == nil {
		return introducedSince
	}
	return max(introducedSince, c.Register.needs())
}

// feature implements featured.
func (c *IntroduceNode) feature() string {
	if c.needs() == introducedSince {
		return "introduction tokens of nodes"
	}
	return c.Register.feature()
}

// errIntroductionUsed refuses an introduction token that a node has used.
var errIntroductionUsed = berth.Errorf(berth.Denied, "%s: another node has registered with this introduction token", berth.PermissionDenied)
