package fetch

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"berth/internal/agent/isolate/isolatetest"
	"berth/internal/saferoot"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "supervise" && os.Args[2] == Word {
		code := Main()
		tell()
		isolatetest.Exit(code)
	}
	os.Exit(m.Run())
}

// rig is a directory of an allocation, and a server of files.
type rig struct {
	*Fetcher
	root  *saferoot.Root
	url   string
	files map[string][]byte
	asked atomic.Int64
}

func newRig(t *testing.T, c Config) *rig {
	t.Helper()
	c.Command = isolatetest.Command()
	dir := t.TempDir()
	if err := os.MkdirAll(dir+"/task/local", 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := saferoot.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{Fetcher: New(c), root: root, files: map[string][]byte{}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.asked.Add(1)
		if to := q.URL.Query().Get("to"); to != "" {
			http.Redirect(w, q, to, http.StatusFound)
			return
		}
		b, ok := r.files[q.URL.Path]
		if !ok {
			http.NotFound(w, q)
			return
		}
		if strings.HasPrefix(q.URL.Path, "/private") && q.Header.Get("X-Token") != "t" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		w.Write(b)
	}))
	t.Cleanup(func() { s.Close(); r.root.Close() })
	r.url = s.URL
	return r
}

func (r *rig) get(t *testing.T, a Artifact, dst string) error {
	t.Helper()
	if a.Mode == "" {
		a.Mode = ModeAny
	}
	a.Source = strings.ReplaceAll(a.Source, "URL", r.url)
	owner := saferoot.Adoption{UID: -1, GID: -1}
	if os.Geteuid() == 0 {
		owner = saferoot.Adoption{}
	}
	return r.Fetch(t.Context(), &a, r.root, dst, owner)
}

// tree lists what there is below a directory.
func (r *rig) tree(t *testing.T) string {
	t.Helper()
	var out []string
	top := r.root.Path() + "/task"
	err := filepath.Walk(top, func(p string, st os.FileInfo, err error) error {
		if err != nil || st.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(top, p)
		b, _ := os.ReadFile(p)
		if st.Mode()&os.ModeSymlink != 0 {
			to, _ := os.Readlink(p)
			b = []byte("-> " + to)
		}
		out = append(out, fmt.Sprintf("%s %v %s", rel, st.Mode(), b))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, "\n")
}

type entry struct {
	name, text string
	kind       byte
	mode       int64
}

func tarGz(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, e := range entries {
		h := tar.Header{Name: e.name, Typeflag: e.kind, Mode: 0o644 | e.mode, Size: int64(len(e.text))}
		if e.kind != 0 && e.kind != tar.TypeReg {
			h.Linkname, h.Size = e.text, 0
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			io.WriteString(w, e.text)
		}
	}
	w.Close()
	z.Close()
	return b.Bytes()
}

// What is fetched is where the job wants it.
func TestArtifacts(t *testing.T) {
	r := newRig(t, Config{Cache: t.TempDir()})
	archive := tarGz(t, entry{name: "bin/app", text: "app", mode: 0o111}, entry{name: "conf/a", text: "A"}, entry{name: "conf/b", text: "a", kind: tar.TypeSymlink}, entry{name: "suid", text: "s", mode: 0o4755})
	r.files["/app.tar.gz"], r.files["/plain"], r.files["/private/x"] = archive, []byte("plain"), []byte("x")
	sum := sha256.Sum256(archive)
	for _, a := range []struct {
		Artifact
		dst string
	}{
		{Artifact{Source: "URL/app.tar.gz", Options: map[string]string{"checksum": "sha256:" + hex.EncodeToString(sum[:])}}, "task/local"},
		{Artifact{Source: "URL/plain?filename=other"}, "task/local"},
		{Artifact{Source: "URL/plain", Mode: ModeFile}, "task/local/deep/name"},
		{Artifact{Source: "URL/app.tar.gz?archive=false"}, "task/local/raw"},
		{Artifact{Source: "URL/app.tar.gz//conf"}, "task/local/only"},
		{Artifact{Source: "URL/private/x", Headers: map[string]string{"X-Token": "t"}}, "task/local"},
	} {
		if err := r.get(t, a.Artifact, a.dst); err != nil {
			t.Errorf("%s: %v", a.Source, err)
		}
	}
	got := strings.Replace(r.tree(t), string(archive), "ARCHIVE", 1)
	want := `local/bin/app -rwxr-xr-x app
local/conf/a -rw-r--r-- A
local/conf/b Lrwxrwxrwx -> a
local/deep/name -rw-r--r-- plain
local/only/a -rw-r--r-- A
local/only/b Lrwxrwxrwx -> a
local/other -rw-r--r-- plain
local/raw/app.tar.gz -rw-r--r-- ARCHIVE
local/suid -rwxr-xr-x s
local/x -rw-r--r-- x`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	// With a checksum it is fetched once in the life of the node.
	asked := r.asked.Load()
	if err := r.get(t, Artifact{Source: "URL/gone.tar.gz?checksum=sha256:" + hex.EncodeToString(sum[:])}, "task/local/again"); err != nil {
		t.Error(err)
	}
	if n := r.asked.Load(); n != asked {
		t.Errorf("asked %d times more", n-asked)
	}
	if left, _ := os.ReadDir(r.root.Path() + "/.fetch"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// What leads elsewhere, or is too much, is refused, and nothing of it is placed.
func TestAdvisory_C12_C14_C23_HostileArtifacts(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	bomb := func() []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		w := tar.NewWriter(z)
		w.WriteHeader(&tar.Header{Name: "zeros", Size: 128 << 20, Mode: 0o644})
		zero := make([]byte, 1<<20)
		for range 128 {
			w.Write(zero)
		}
		w.Close()
		z.Close()
		return b.Bytes()
	}()
	many := func() []byte {
		var all []entry
		for i := range 5000 {
			all = append(all, entry{name: fmt.Sprint("f", i)})
		}
		return tarGz(t, all...)
	}()
	zipped := func(name string, mode os.FileMode, text string) []byte {
		var b bytes.Buffer
		w := zip.NewWriter(&b)
		h := &zip.FileHeader{Name: name, Method: zip.Deflate}
		h.SetMode(mode)
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(f, text)
		w.Close()
		return b.Bytes()
	}
	sym, hard := byte(tar.TypeSymlink), byte(tar.TypeLink)
	type hostile struct {
		file string
		data []byte
		want string
	}
	all := []hostile{
		{"up.tgz", tarGz(t, entry{name: "../x", text: "x"}), "leads out of it"},
		{"abs.tgz", tarGz(t, entry{name: outside, text: "x"}), "leads out of it"},
		{"mid.tgz", tarGz(t, entry{name: "a/../../x", text: "x"}), "leads out of it"},
		{"back.tgz", tarGz(t, entry{name: `a\..\x`, text: "x"}), "leads out of it"},
		{"sym-abs.tgz", tarGz(t, entry{name: "l", text: "/etc/passwd", kind: sym}), "leads out of it"},
		{"sym-up.tgz", tarGz(t, entry{name: "l", text: "../../../etc", kind: sym}), "leads out of it"},
		{"sym-deep.tgz", tarGz(t, entry{name: "a/b/l", text: "../../../x", kind: sym}), "leads out of it"},
		{"through.tgz", tarGz(t, entry{name: "d", text: ".", kind: sym}, entry{name: "d/x", text: "x"}), "not a directory"},
		{"through-file.tgz", tarGz(t, entry{name: "d", text: "e", kind: sym}, entry{name: "d", text: "x"}), "two entries"},
		{"before.tgz", tarGz(t, entry{name: "d/x", text: "x"}, entry{name: "d", text: "/tmp", kind: sym}), "leads out of it"},
		{"hard.tgz", tarGz(t, entry{name: "h", text: "/etc/passwd", kind: hard}), "neither a file nor"},
		{"hard-in.tgz", tarGz(t, entry{name: "a", text: "a"}, entry{name: "h", text: "a", kind: hard}), "neither a file nor"},
		{"dev.tgz", tarGz(t, entry{name: "null", kind: tar.TypeChar}), "neither a file nor"},
		{"block.tgz", tarGz(t, entry{name: "sda", kind: tar.TypeBlock}), "neither a file nor"},
		{"fifo.tgz", tarGz(t, entry{name: "fifo", kind: tar.TypeFifo}), "neither a file nor"},
		{"deep.tgz", tarGz(t, entry{name: strings.Repeat("d/", 100) + "x", text: "x"}), "deeper than"},
		{"many.tgz", many, "more than 4096 entries"},
		{"bomb.tgz", bomb, "more than 100 times its size"},
		{"bomb.gz", bomb, "more than 100 times its size"},
		{"cut.tgz", tarGz(t, entry{name: "a", text: strings.Repeat("x", 4000)})[:40], "cannot be read"},
		{"text.zip", []byte("no zip"), "cannot be read"},
		{"text.tar.xz", []byte("no xz"), "cannot be read"},
		{"text.tar.zst", []byte("no zst"), "cannot be read"},
		{"text.tar.bz2", []byte("no bz2"), "cannot be read"},
		{"up.zip", zipped("../x", 0o644, "x"), "leads out of it"},
		{"link.zip", zipped("l", 0o777|os.ModeSymlink, "/etc/passwd"), "leads out of it"},
		{"dev.zip", zipped("d", 0o644|os.ModeDevice, ""), "neither a file nor"},
		{"pipe.zip", zipped("d", 0o644|os.ModeNamedPipe, ""), "neither a file nor"},
		{"zeros.zip", zipped("z", 0o644, strings.Repeat("\x00", 64<<20)), "more than 100 times its size"},
	}
	r := newRig(t, Config{})
	for _, h := range all {
		r.files["/"+h.file] = h.data
		if err := r.get(t, Artifact{Source: "URL/" + h.file}, "task/local"); err == nil || !strings.Contains(err.Error(), h.want) {
			t.Errorf("%s: %v, want %q", h.file, err, h.want)
		}
	}
	r.files["/x"], r.files["/dir/.."] = []byte("x"), []byte("x")
	for source, want := range map[string]string{
		"file:///etc/passwd":                "files of the host",
		"/etc/passwd":                       "files of the host",
		"./x":                               "files of the host",
		"git::file:///etc":                  "",
		"git::ext::sh -c touch% " + outside: "",
		"hg::https://127.0.0.1/x":           "not supported",
		"gcs::https://www.googleapis.com/storage/v1/b/k": "not supported",
		"smb://host/x":        "not supported",
		"URL/x?filename=../x": "not the name of a file",
		"URL/x?filename=a/b":  "not the name of a file",
		"URL/x?checksum=sha256:" + strings.Repeat("0", 64):         "the checksum is",
		"URL/x?checksum=md5:zz":                                    "checksum",
		"URL/x?archive=exe":                                        "unknown kind of archive",
		"URL/x?archive=zip":                                        "cannot be read",
		"URL/x//sub":                                               "has no directory",
		"URL/x//../../etc":                                         "leads out",
		"URL/none":                                                 "404",
		"http://169.254.169.254/latest/meta-data":                  "link only",
		"http://[fe80::1]/":                                        "",
		"URL/x?to=http://169.254.169.254/latest/meta-data":         "link only",
		"URL/x?to=file:///etc/passwd":                              "",
		"git::http://--upload-pack=touch%20" + outside + "/repo":   "",
		"git::ssh://-oProxyCommand=touch%20" + outside + "/repo":   "",
		"git::http://127.0.0.1:1/x?ref=--upload-pack=touch " + "x": "",
		"unknown://x/y":                                            "",
		"":                                                         "",
		"http://\x00/":                                             "control characters",
	} {
		if err := r.get(t, Artifact{Source: source}, "task/local"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", source, err, want)
		}
	}
	if _, err := os.Lstat(outside); err == nil {
		t.Error("something was made outside")
	}
	if got := r.tree(t); got != "" {
		t.Errorf("placed: %.300s", got)
	}
	// What a task left in the way leads nowhere.
	for _, trap := range []string{"task/local/app", "task/trap"} {
		if err := os.Symlink("/tmp", r.root.Path()+"/"+trap); err != nil {
			t.Fatal(err)
		}
	}
	r.files["/good.tgz"] = tarGz(t, entry{name: "app/x", text: "x"})
	if err := r.get(t, Artifact{Source: "URL/good.tgz"}, "task/local"); err == nil {
		t.Error("it went through a link")
	}
	if err := r.get(t, Artifact{Source: "URL/good.tgz"}, "task/trap/in"); err == nil {
		t.Error("it went through a link at its destination")
	}
}
