// Package ui serves the web UI: files that are built into the program, below
// /ui/. They are scripts, styles and one page; everything that they show comes
// from the HTTP API with the rights of the person who looks. The package
// promises that a browser runs no script and loads nothing that is not part of
// the program. The sources are TypeScript in src; package build makes dist of
// them.
package ui

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

//go:embed dist
var dist embed.FS

// Options are what an operator may choose.
type Options struct {
	Off   bool // requests below /ui/ go to the next handler
	Label Label
	// Policy replaces directives of the policy of pages: "img-src" and what it
	// allows.
	Policy map[string]string
}

// Label is a text at the top of every page. Its colors are those of CSS, "" that
// of the theme.
type Label struct{ Text, Background, Color string }

// directives are what a browser may do on a page of the UI (S-30). Styles are
// files; images can be made by scripts.
var directives = [][2]string{
	{"default-src", "'none'"}, {"script-src", "'self'"}, {"style-src", "'self'"}, {"img-src", "'self' data:"}, {"connect-src", "'self'"},
	{"base-uri", "'none'"}, {"form-action", "'none'"}, {"frame-ancestors", "'none'"},
}

// policy is the Content-Security-Policy of all pages.
func (o *Options) policy() string {
	var out []string
	for _, d := range directives {
		out = append(out, d[0]+" "+cmp.Or(o.Policy[d[0]], d[1]))
	}
	return strings.Join(out, "; ")
}

// framed reports whether other sites may show a page in a frame.
func (o *Options) framed() bool { return o.Policy["frame-ancestors"] != "" }

// root is where the UI stands. Assets are below root and the hash of all files,
// so that they can be cached for ever: another build has other addresses.
const root = "/ui/"

// file is one file of the UI.
type file struct {
	kind   string // its Content-Type
	plain  []byte
	packed func() []byte // compressed with gzip, at the first request
}

// site is all files of a build.
type site struct {
	build string // hash of all files
	files map[string]*file
	page  *file // for every path that is no asset: the script shows what it names
}

// load reads the files of a build.
var load = sync.OnceValue(func() *site {
	s := &site{files: map[string]*file{}}
	all := sha256.New()
	err := fs.WalkDir(dist, "dist", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := dist.ReadFile(name)
		all.Write([]byte(name))
		all.Write(b)
		s.files[strings.TrimPrefix(name, "dist/")] = newFile(name, b)
		return err
	})
	if err != nil {
		panic(err) // the files are part of the program
	}
	s.build = hex.EncodeToString(all.Sum(nil))[:16]
	s.page = newFile("index.html", bytes.ReplaceAll(s.files["index.html"].plain, []byte("BUILD"), []byte(s.build)))
	return s
})

// newFile returns a file whose type follows from its name.
func newFile(name string, b []byte) *file {
	return &file{kind: kind(name), plain: b, packed: sync.OnceValue(func() []byte {
		var out bytes.Buffer
		z, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
		z.Write(b)
		z.Close()
		return out.Bytes()
	})}
}

// kind returns the type of a file. It does not ask the machine's tables, which
// differ.
func kind(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".html":
		return "text/html; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return mime.TypeByExtension(path.Ext(name))
}

// Handler answers requests below /ui/ and leads from / there. All others go to
// next.
func Handler(next http.Handler, o Options) http.Handler {
	if o.Off {
		return next
	}
	policy := o.policy()
	page := sync.OnceValue(func() *file { return load().labeled(o.Label) })
	serve := func(w http.ResponseWriter, r *http.Request, answer func()) {
		w.Header().Set("Content-Security-Policy", policy)
		if !o.framed() {
			w.Header().Set("X-Frame-Options", "DENY")
		}
		serve(w, r, answer)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch p := r.URL.Path; {
		case p == "/" || p == "/ui":
			serve(w, r, func() { http.Redirect(w, r, root, http.StatusTemporaryRedirect) })
		case strings.HasPrefix(p, root):
			serve(w, r, func() { load().answer(w, r, strings.TrimPrefix(p, root), page()) })
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// serve answers a request of the UI, which reads only.
func serve(w http.ResponseWriter, r *http.Request, answer func()) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=(), payment=(), usb=()")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "the web UI is read with GET", http.StatusMethodNotAllowed)
		return
	}
	answer()
}

// labeled is the page with a label, which its script shows.
func (s *site) labeled(l Label) *file {
	if l.Text == "" {
		return s.page
	}
	attributes := fmt.Sprintf(`<html lang="en" data-label="%s" data-label-background="%s" data-label-color="%s">`,
		html.EscapeString(l.Text), html.EscapeString(l.Background), html.EscapeString(l.Color))
	return newFile("index.html", bytes.Replace(s.page.plain, []byte(`<html lang="en">`), []byte(attributes), 1))
}

// answer sends an asset of this build, or the page.
func (s *site) answer(w http.ResponseWriter, r *http.Request, name string, page *file) {
	f, cache := page, "no-cache"
	if asset, ok := strings.CutPrefix(name, "assets/"); ok {
		build, asset, _ := strings.Cut(asset, "/")
		if f = s.files[asset]; f == nil || build != s.build {
			http.Error(w, "no such file in this version of the web UI: load the page again", http.StatusNotFound)
			return
		}
		cache = "public, max-age=31536000, immutable"
	}
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Cache-Control", cache)
	h.Set("Vary", "Accept-Encoding")
	body, tag := f.plain, s.build
	if f == page && page != s.page {
		sum := sha256.Sum256(page.plain)
		tag += "-" + hex.EncodeToString(sum[:4])
	}
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		body, tag = f.packed(), tag+"-gzip"
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", strconv.Quote(tag))
	if r.Header.Get("If-None-Match") == h.Get("ETag") {
		h.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method == http.MethodGet {
		w.Write(body)
	}
}
