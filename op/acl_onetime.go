package op

import (
	"time"

	"berth/internal/acl"
)

// OneTimeToken lets anyone who gets its secret learn that of the caller's token,
// once.
type OneTimeToken struct {
	OneTimeSecretID string // shown in the answer that makes it only
	AccessorID      string // of the token that it stands for
	ExpiresAt       time.Time
	CreateIndex     uint64
	ModifyIndex     uint64
}

// MakeOneTime asks for a one-time token that stands for the caller's token.
type MakeOneTime struct{ Write }

// OneTimeMade answers MakeOneTime.
type OneTimeMade struct{ OneTimeToken *OneTimeToken }

// ExchangeOneTime asks for the token that a one-time token stands for.
type ExchangeOneTime struct {
	OneTimeSecretID string
	Write
}

// OneTimeExchanged answers ExchangeOneTime: the token with its secret.
type OneTimeExchanged struct{ Token *ACLToken }

// The operations on one-time tokens.
var (
	MakeOneTimeToken     = define[MakeOneTime, OneTimeMade]("acl_token.onetime", "PUT /v1/acl/token/onetime", "", acl.AnyToken, acl.NoSpace)
	ExchangeOneTimeToken = define[ExchangeOneTime, OneTimeExchanged]("acl_token.exchange", "PUT /v1/acl/token/onetime/exchange", "", acl.Open, acl.NoSpace)
)
