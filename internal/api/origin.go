package api

import (
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"berth"
	"berth/internal/sameorigin"
)

// originGate keeps out requests that web pages of other sites send. It stands
// before everything else, so no operation can forget it.
type originGate struct {
	policy *sameorigin.Policy
	log    *slog.Logger
	logged atomic.Int64 // when a refusal was last logged, ns since 1970
}

// refusalPause is the time between two log lines about refused requests, as any
// page can send as many as it likes.
const refusalPause = time.Minute

// admits reports whether a request may be answered. If not, it has answered.
func (g *originGate) admits(w http.ResponseWriter, r *http.Request) bool {
	refusal := g.policy.Check(r)
	if refusal == nil {
		return true
	}
	if now, last := time.Now().UnixNano(), g.logged.Load(); now-last >= int64(refusalPause) && g.logged.CompareAndSwap(last, now) {
		g.log.Warn("an HTTP request was refused; more are not logged for a minute", "reason", refusal.Reason, "remote", r.RemoteAddr,
			"method", r.Method, "host", berth.Clip(r.Host, 100), "origin", berth.Clip(r.Header.Get("Origin"), 100), "explanation", refusal.Text)
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(refusal.Status)
	io.WriteString(w, refusal.Text)
	return false
}
