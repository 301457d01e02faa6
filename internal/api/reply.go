package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"berth"
	"berth/internal/state"
	"berth/op"

	"github.com/klauspost/compress/gzip"
)

// status turns the kind of an error into an HTTP status. An error without a
// kind is our fault.
var status = map[berth.Kind]int{
	berth.Invalid: http.StatusBadRequest, berth.Denied: http.StatusForbidden, berth.NotFound: http.StatusNotFound,
	berth.Conflict: http.StatusConflict, berth.TooLarge: http.StatusRequestEntityTooLarge, berth.Limited: http.StatusTooManyRequests,
	berth.NoLeader: http.StatusInternalServerError, berth.Unavailable: http.StatusServiceUnavailable, "": http.StatusInternalServerError,
}

// fail answers with an error: its text, as clients show it.
func (s *Server) fail(w http.ResponseWriter, err error) {
	code := status[berth.KindOf(err)]
	if e, ok := errors.AsType[*badMethod](err); ok {
		code = http.StatusMethodNotAllowed
		w.Header().Set("Allow", e.allowed)
	}
	if code == http.StatusInternalServerError && !errors.Is(err, state.ErrLost) {
		s.Logger.Error("a request failed", "error", err)
	}
	unled(w, err)
	refusal := berth.CodeOf(err)
	if refusal != "" {
		w.Header().Set(op.HeaderCode, refusal)
	}
	if refusal == berth.CodeDeleting {
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	w.Write([]byte(strings.TrimSuffix(err.Error(), "\n")))
}

// writeTimeout is how long a caller may take to read an answer.
const writeTimeout = 60 * time.Second

// worthwhile is the size from which an answer is compressed.
const worthwhile = 4 << 10

// maxKept is the size up to which a buffer is kept for another answer: one list
// of a large cluster shall not hold its memory for ever.
const maxKept = 4 << 20

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// reply answers with a value as JSON, and its metadata as headers.
func (s *Server) reply(w http.ResponseWriter, r *http.Request, v any, m *op.Meta) {
	buf := buffers.Get().(*bytes.Buffer)
	defer func() {
		if buf.Cap() <= maxKept {
			buffers.Put(buf)
		}
	}()
	buf.Reset()
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if pretty := r.URL.Query(); pretty.Has("pretty") {
		enc.SetIndent("", "    ")
	}
	if err := enc.Encode(v); err != nil {
		s.fail(w, err)
		return
	}
	h := w.Header()
	if m.Index > 0 {
		h.Set(op.HeaderIndex, strconv.FormatUint(m.Index, 10))
	}
	if m.NextToken != "" {
		h.Set(op.HeaderNextToken, m.NextToken)
	}
	h.Set(op.HeaderKnownLeader, strconv.FormatBool(m.KnownLeader))
	h.Set(op.HeaderLastContact, strconv.FormatInt(m.LastContact.Milliseconds(), 10))
	h.Set("Content-Type", "application/json")
	h.Set("Vary", "Accept-Encoding")
	h.Set("X-Content-Type-Options", "nosniff")
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	if buf.Len() < worthwhile || !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Length", strconv.Itoa(buf.Len()))
		w.Write(buf.Bytes())
		return
	}
	h.Set("Content-Encoding", "gzip")
	z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
	z.Write(buf.Bytes())
	z.Close()
}
