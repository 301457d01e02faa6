package api

import (
	"encoding/base64"
	"net/http/httptest"
	"testing"
)

// A browser sends the token of a websocket among its protocols; a header counts
// more.
func TestTokenOfAWebsocket(t *testing.T) {
	offer := "berth, " + socketSecret + base64.RawURLEncoding.EncodeToString([]byte("s3cret"))
	for _, c := range []struct{ header, protocols, want string }{
		{"", offer, "s3cret"}, {"other", offer, "other"}, {"", "berth", ""}, {"", socketSecret + "!!", ""}, {"", "", ""},
	} {
		r := httptest.NewRequest("GET", "/v1/client/allocation/x/exec", nil)
		if c.header != "" {
			r.Header.Set("X-Nomad-Token", c.header)
		}
		if c.protocols != "" {
			r.Header.Set("Sec-WebSocket-Protocol", c.protocols)
		}
		if got := token(r); got != c.want {
			t.Errorf("%+v: got %q", c, got)
		}
	}
}
