package login

import (
	"berth/internal/limit"
)

// Limits of logins, for docs/limits.md. They are enforced where the
// constants are used.
var _ = []*limit.Limit{
	limit.Bound("login_token", "Bytes of a token or code of a login", limit.Bytes, int64(maxToken), "the request is refused (400)"),
	limit.Bound("login_answer", "Bytes of an answer of a provider of logins", limit.Bytes, int64(maxAnswer), "the login fails"),
}
