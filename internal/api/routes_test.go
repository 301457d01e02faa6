package api_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// Each route of Nomad's HTTP API is served, or refused with a text that says what
// is not supported.
func TestEveryRouteOfNomad(t *testing.T) {
	s, _ := serve(t, nil)
	text, err := os.ReadFile("testdata/routes.txt")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		method, path, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		n++
		served, refused := s.Finds(httptest.NewRequest(method, path, nil))
		switch {
		case served:
		case strings.HasPrefix(refused, "501 ") && len(refused) > len("501 "):
		case refused == "204 " && path == "/v1/operator/license":
		default:
			t.Errorf("%s %s is neither served nor refused by name: %q", method, path, refused)
		}
	}
	if n < 200 {
		t.Errorf("the list has %d routes", n)
	}
	for path, want := range map[string]string{
		"/v1/sentinel/policies": "Nomad Enterprise only endpoint", "/v1/recommendation/x": "Nomad Enterprise only endpoint",
	} {
		if w := ask(s, "GET", path, ""); w.Code != http.StatusNotImplemented || !strings.HasPrefix(w.Body.String(), want) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if w := ask(s, "GET", "/v1/nothing", ""); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "no such path") {
		t.Errorf("what is no route: %d %s", w.Code, w.Body)
	}
}
