package api

import (
	"cmp"
	"net"
	"sync"

	"berth"
	"berth/internal/limit"
)

// maxWaits is how many queries of one token may wait at a time (S-26); without
// a token they are counted by address.
const maxWaits = 1000

var waitsLimit = limit.Declare(limit.Info{
	Name: "blocking_queries_per_caller", Of: "Blocking queries of one token, or of one address without a token, that wait", Unit: limit.Count, Default: maxWaits,
	Beyond: "429; the queries that wait are not touched",
})

// waiting counts the queries that wait.
type waiting struct {
	mu    sync.Mutex
	count map[string]int // by waiter; callers with none are absent
}

// enter counts a query that is about to wait. Without an error the caller must
// call exit when the wait is over.
func (w *waiting) enter(c Caller) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := waiter(c)
	if w.count[k] >= maxWaits {
		waitsLimit.Refuse("caller", k)
		return berth.Errorf(berth.Limited, "this caller already has %d blocking queries, which is the limit", maxWaits)
	}
	w.count[k]++
	waitsLimit.Use(int64(w.count[k]), maxWaits)
	return nil
}

// exit takes a query off the count.
func (w *waiting) exit(c Caller) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := waiter(c)
	if w.count[k]--; w.count[k] == 0 {
		delete(w.count, k)
	}
}

// waiter is whom a wait is counted for.
func waiter(c Caller) string {
	return cmp.Or(c.Token, clientKey(remote(c.Remote)))
}

// remote is an address of which only the text is known.
type remote string

// Network implements net.Addr.
func (remote) Network() string { return "tcp" }

// String implements net.Addr.
func (r remote) String() string { return string(r) }

var _ net.Addr = remote("")
