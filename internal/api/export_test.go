package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
)

import "context"

// WithProgress returns the context of a new connection, as Serve makes it.
func WithProgress(ctx context.Context) context.Context { return withProgress(ctx, nil) }

// Finds reports whether a server serves a request, and the text by which it refuses
// it otherwise.
func (s *Server) Finds(r *http.Request) (served bool, refused string) {
	if _, _, err := s.routes.match(r); err == nil {
		return true, ""
	}
	w := httptest.NewRecorder()
	if !refusedByName(w, r) {
		return false, ""
	}
	return false, fmt.Sprintf("%d %s", w.Code, w.Body)
}
