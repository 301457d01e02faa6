package ui

import (
	"compress/gzip"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// ask sends a request to the UI in front of an API that answers 418.
func ask(method, path string, headers ...string) *http.Response {
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return answerOf(r, Options{})
}

func answerOf(r *http.Request, o Options) *http.Response {
	w := httptest.NewRecorder()
	Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }), o).ServeHTTP(w, r)
	return w.Result()
}

// What an operator may choose: no UI, a label, another policy.
func TestOptions(t *testing.T) {
	for _, path := range []string{"/", "/ui/", "/v1/jobs"} {
		if r := answerOf(httptest.NewRequest("GET", path, nil), Options{Off: true}); r.StatusCode != http.StatusTeapot {
			t.Errorf("%s without the UI: %d", path, r.StatusCode)
		}
	}
	o := Options{Label: Label{Text: `"><script>x</script>`, Background: "#123456"}, Policy: map[string]string{"frame-ancestors": "https://portal.example"}}
	r := answerOf(httptest.NewRequest("GET", "/ui/", nil), o)
	text := body(t, r)
	if strings.Contains(text, "<script>x") || !strings.Contains(text, `data-label="&#34;&gt;&lt;script&gt;x`) || !strings.Contains(text, `data-label-background="#123456"`) {
		t.Errorf("the page begins with %.300s", text)
	}
	csp := r.Header.Get("Content-Security-Policy")
	if !strings.Contains(csp, "frame-ancestors https://portal.example") || !strings.Contains(csp, "script-src 'self'") || r.Header.Get("X-Frame-Options") != "" {
		t.Errorf("%q, X-Frame-Options %q", csp, r.Header.Get("X-Frame-Options"))
	}
	if plain := ask("GET", "/ui/"); plain.Header.Get("ETag") == r.Header.Get("ETag") || plain.Header.Get("X-Frame-Options") != "DENY" {
		t.Errorf("pages with and without a label have the ETag %s", r.Header.Get("ETag"))
	}
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestPathsOfTheUI(t *testing.T) {
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/", 307}, {"GET", "/ui", 307}, {"GET", "/ui/", 200}, {"HEAD", "/ui/", 200}, {"GET", "/ui/job/a%2Fb/why?ns=x", 200},
		{"GET", "/ui/assets/0000/main.js", 404}, {"GET", "/ui/assets/" + load().build + "/main.js", 200}, {"GET", "/ui/assets/" + load().build + "/none.js", 404},
		{"GET", "/ui/assets/" + load().build + "/../ui.go", 404}, {"POST", "/ui/", 405}, {"PUT", "/", 405}, {"GET", "/v1/jobs", 418}, {"GET", "/uix", 418},
	} {
		if r := ask(c.method, c.path); r.StatusCode != c.status {
			t.Errorf("%s %s: %d, want %d", c.method, c.path, r.StatusCode, c.status)
		}
	}
}

// Every answer tells the browser to run nothing but files of the UI (S-30).
func TestPolicyOfEveryAnswer(t *testing.T) {
	for _, path := range []string{"/", "/ui/", "/ui/nothing", "/ui/assets/x/main.js", "/ui/assets/" + load().build + "/main.js"} {
		h := ask("GET", path).Header
		csp := h.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: the policy %q lacks %s", path, csp, want)
			}
		}
		if strings.Contains(csp, "unsafe") || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", path, h)
		}
	}
}

var (
	linked = regexp.MustCompile(`(?:src|href)="([^"]+)"`)
	inline = regexp.MustCompile(`<script(?:>|[^>]*[^>"]>)|\son\w+=|style=`)
	remote = regexp.MustCompile(`(?:src|href)="(?:https?:)?//`)
)

// The page has no inline script or style, loads nothing from elsewhere, and all
// that it names is there.
func TestPage(t *testing.T) {
	page := body(t, ask("GET", "/ui/"))
	if inline.MatchString(page) || remote.MatchString(page) {
		t.Errorf("the page has inline code or names another host:\n%s", page)
	}
	links := linked.FindAllStringSubmatch(page, -1)
	if len(links) < 3 {
		t.Fatalf("the page names %d files", len(links))
	}
	for _, m := range links {
		r := ask("GET", m[1])
		if r.StatusCode != 200 || !strings.Contains(r.Header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d %v", m[1], r.StatusCode, r.Header)
		}
	}
}

func TestCompressionAndCaching(t *testing.T) {
	path := "/ui/assets/" + load().build + "/main.js"
	packed := ask("GET", path, "Accept-Encoding", "gzip, br")
	if packed.Header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("%v", packed.Header)
	}
	z, err := gzip.NewReader(packed.Body)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil || string(plain) != body(t, ask("GET", path)) {
		t.Errorf("the compressed file is another: %v", err)
	}
	page := ask("GET", "/ui/jobs")
	if page.Header.Get("Cache-Control") != "no-cache" {
		t.Errorf("the page would be kept by browsers: %v", page.Header)
	}
	if again := ask("GET", "/ui/jobs", "If-None-Match", page.Header.Get("ETag")); again.StatusCode != 304 || body(t, again) != "" {
		t.Errorf("the page was sent again: %d", again.StatusCode)
	}
}

// No file names another host, except in licences and as the names of XML.
func TestNoOtherHosts(t *testing.T) {
	other := regexp.MustCompile(`https?://[a-z0-9.-]+`)
	names, _ := fs.Glob(dist, "dist/*")
	for _, name := range names {
		if strings.HasSuffix(name, ".txt") {
			continue
		}
		b, _ := dist.ReadFile(name)
		for _, host := range other.FindAllString(string(b), -1) {
			if host != "http://www.w3.org" {
				t.Errorf("%s names %s", name, host)
			}
		}
	}
}
