package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"berth"
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
	if code == http.StatusInternalServerError && berth.PublicKind(err) != berth.NoLeader && !errors.Is(err, context.Canceled) {
		s.Logger.Error("a request failed", "error", err)
	}
	op.SetError(w.Header(), err)
	// Nothing was done, and soon it may be possible.
	if berth.CodeOf(err) == berth.CodeDeleting || code == http.StatusTooManyRequests {
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

// buffers are used again for answers, up to maxKept each.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// reply answers with JSON, and the metadata as headers.
func (s *Server) reply(w http.ResponseWriter, view op.View, a *answered) {
	// What many share is sent as it is, without a copy of its own.
	if a.list != nil && !view.Pretty {
		s.send(w, view, a, a.encoded)
		return
	}
	// The whole answer is encoded first: after an error there is still a status
	// to send.
	buf := buffers.Get().(*bytes.Buffer)
	defer func() {
		if buf.Cap() <= maxKept {
			buffers.Put(buf)
		}
	}()
	buf.Reset()
	if err := a.appendJSON(buf, view.Pretty); err != nil {
		s.fail(w, err)
		return
	}
	s.send(w, view, a, buf.Bytes())
}

// send answers with a body of JSON.
func (s *Server) send(w http.ResponseWriter, view op.View, a *answered, body []byte) {
	m := &a.Meta
	h := w.Header()
	if m.Index > 0 || a.indexed {
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
	// The time counts from here, not from the request: a blocking query may
	// have waited for minutes.
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	// Small answers are not worth the processor time.
	plain := len(body) < worthwhile || !view.Gzip
	shared := !plain && a.list != nil && !view.Pretty
	if shared {
		body = a.list.gzip()
	}
	if plain || shared {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	if !plain {
		h.Set("Content-Encoding", "gzip")
	}
	if a.status != 0 {
		w.WriteHeader(a.status)
	}
	if plain || shared {
		w.Write(body)
		return
	}
	// An error here means that the caller is gone, and there is nobody to tell.
	z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
	z.Write(body)
	z.Close()
}

const indent = "    " // of pretty JSON

// appendJSON writes the answer as callers get it.
func (a *answered) appendJSON(b *bytes.Buffer, pretty bool) error {
	switch {
	case a.encoded != nil && pretty:
		return json.Indent(b, a.encoded, "", indent)
	case a.encoded != nil:
		b.Write(a.encoded)
		return nil
	}
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if pretty {
		enc.SetIndent("", indent)
	}
	return enc.Encode(a.value)
}
