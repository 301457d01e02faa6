package api

import (
	"crypto/sha256"
	"sync"
	"time"

	"berth"
	"berth/internal/acl"
	"berth/internal/limit"
	"berth/op"
)

// Limits of callers (S-07, S-28).
const (
	burstSeconds = 10              // of writes that may come at once
	failuresEach = 2 * time.Second // after which another wrong token is allowed
	mostBuckets  = 20_000          // that are remembered; beyond that, those that are full are forgotten

	// DefaultTokenFailures is how many wrong tokens an address may show at once.
	DefaultTokenFailures = 30
)

var (
	tokenWritesLimit = limit.Declare(limit.Info{
		Name: "writes_per_token", Of: "Writes a second of one token, with access control; those of ten seconds may come at once", Unit: limit.Count, Default: 500,
		Key: "limits.token_writes", Beyond: "429 with Retry-After; operators and agents go on",
	})
	namespaceWritesLimit = limit.Declare(limit.Info{
		Name: "writes_per_namespace", Of: "Writes a second in one namespace, with access control; those of ten seconds may come at once", Unit: limit.Count, Default: 2000,
		Key: "limits.namespace_writes", Beyond: "429 with Retry-After; operators and agents go on",
	})
	tokenFailuresLimit = limit.Declare(limit.Info{
		Name: "token_failures_per_address", Of: "Wrong tokens of one address (an IPv6 /64 is one) at once; another is allowed every 2 s", Unit: limit.Count, Default: DefaultTokenFailures,
		Beyond: "429 with Retry-After for tokens that this server has not seen to be valid; those that it has go on",
	})
)

// buckets are token buckets by key: each allows some at once, and is filled again
// with time. It is safe for concurrent use.
type buckets struct {
	most  float64       // in a full bucket; 0 is no limit
	every time.Duration // that one more takes

	mu    sync.Mutex
	known map[string]bucket
}

// bucket is what is left of one, and when that was so.
type bucket struct {
	left float64
	at   time.Time
}

// perSecond returns buckets that allow n a second, and those of burstSeconds at
// once; 0 is no limit.
func perSecond(n int) *buckets {
	if n <= 0 {
		return &buckets{}
	}
	return &buckets{most: float64(n * burstSeconds), every: time.Second / time.Duration(n)}
}

// left returns what a bucket holds. The caller holds mu.
func (b *buckets) left(key string, now time.Time) float64 {
	x, ok := b.known[key]
	if !ok {
		return b.most
	}
	return min(b.most, x.left+float64(now.Sub(x.at))/float64(b.every))
}

// take takes one out of a bucket, and reports whether there was one.
func (b *buckets) take(key string, now time.Time) bool {
	if b.most == 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	left := b.left(key, now)
	if left < 1 {
		return false
	}
	if b.known == nil {
		b.known = map[string]bucket{}
	}
	if len(b.known) >= mostBuckets {
		for k := range b.known {
			if b.left(k, now) >= b.most {
				delete(b.known, k)
			}
		}
	}
	b.known[key] = bucket{left - 1, now}
	return true
}

// empty reports whether nothing is left in a bucket.
func (b *buckets) empty(key string, now time.Time) bool {
	if b.most == 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.left(key, now) < 1
}

// pace refuses a write of a caller that writes too much, or into a namespace that
// is written too much. Agents and operators are never refused.
func (s *Server) pace(info *op.Info, who Caller, namespace string, now time.Time) error {
	if s.guard == nil || info.Path == "" || who.Conn != nil || info.Need == acl.OperatorWrite || info.Need == acl.NodeWrite || info.Need == acl.Management {
		return nil
	}
	key := sha256.Sum256([]byte(who.Token))
	if !s.tokenWrites.take(string(key[:]), now) {
		tokenWritesLimit.Refuse()
		return berth.Errorf(berth.Limited, "this token writes more than %d times a second. Nothing was done; try again in a second", s.TokenWrites)
	}
	if info.Space != acl.NoSpace && !s.namespaceWrites.take(namespace, now) {
		namespaceWritesLimit.Refuse()
		return berth.Errorf(berth.Limited, "the namespace %q is written more than %d times a second. Nothing was done; try again in a second", berth.Clip(namespace, 64), s.NamespaceWrites)
	}
	return nil
}

// guesses bounds how many wrong tokens an address may show.
type guesses struct{ buckets }

// newGuesses returns the bound of a number at once; 0 is none.
func newGuesses(n int) *guesses {
	return &guesses{buckets{most: float64(n), every: failuresEach}}
}

// refuses returns an error for a caller from an address that has shown too many
// wrong tokens.
func (g *guesses) refuses(remoteAddr string) error {
	if key := clientKey(remote(remoteAddr)); g.empty(key, time.Now()) {
		tokenFailuresLimit.Refuse("address", key)
		return errGuesses
	}
	return nil
}

// wrong counts a wrong token.
func (g *guesses) wrong(remoteAddr string) { g.take(clientKey(remote(remoteAddr)), time.Now()) }

// errGuesses refuses any token, whether it is valid or not.
var errGuesses = berth.Errorf(berth.Limited, "too many requests with tokens that are not valid came from your address: try again in a few seconds")
