// Package ui serves the web UI: files that are built into the program, below
// /ui/. They are scripts, styles and one page; everything that they show comes
// from the HTTP API with the rights of the person who looks. The package
// promises that a browser runs no script and loads nothing that is not part of
// the program. The sources are TypeScript in src; package build makes dist of
// them.
package ui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
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

// policy is what a browser may do on a page of the UI (S-30). Styles are files;
// images can be made by scripts.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

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
func Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch p := r.URL.Path; {
		case p == "/" || p == "/ui":
			serve(w, r, func() { http.Redirect(w, r, root, http.StatusTemporaryRedirect) })
		case strings.HasPrefix(p, root):
			serve(w, r, func() { load().answer(w, r, strings.TrimPrefix(p, root)) })
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// serve answers a request of the UI, which reads only.
func serve(w http.ResponseWriter, r *http.Request, answer func()) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
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

// answer sends an asset of this build, or the page.
func (s *site) answer(w http.ResponseWriter, r *http.Request, name string) {
	f, cache := s.page, "no-cache"
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
