package api

import (
	"berth/internal/limit"
	"berth/internal/state"
)

// Limits on rows that people make, each of which is kept until they remove it.
var (
	tagsLimit        = rowsLimit("version_tags_per_job", "Tagged versions of a job, which are kept as long as it is", state.MaxTags)
	authMethodsLimit = rowsLimit("auth_methods", "Auth methods of the cluster", state.MaxAuthMethods)
	rulesLimit       = rowsLimit("binding_rules", "Binding rules of the cluster: each login looks at those of its auth method", state.MaxBindingRules)
	rootKeysLimit    = rowsLimit("root_keys", "Root keys of the cluster", state.MaxRootKeys)
)

// rowsLimit declares a limit on a number of rows.
func rowsLimit(name, of string, most int64) *limit.Limit {
	return limit.Declare(limit.Info{Name: name, Of: of, Unit: limit.Count, Default: most, Beyond: "another one is refused (429)"})
}

// oneMore reports that one more row is asked for, beside those there are. The
// command itself refuses it beyond the limit.
func oneMore(l *limit.Limit, there int, attrs ...any) {
	l.Use(int64(there)+1, l.Default, attrs...)
	if int64(there) >= l.Default {
		l.Refuse(attrs...)
	}
}
