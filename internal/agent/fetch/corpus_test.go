package fetch

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/hostile"
	"berth/internal/saferoot"
)

// archived is an archive of one file or link, of a kind.
type archived struct {
	kind string
	make func(name, text string, link bool) ([]byte, error)
}

var archives = []archived{
	{"tar", func(name, text string, link bool) ([]byte, error) {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		h := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), Format: tar.FormatPAX}
		if link {
			h.Typeflag, h.Linkname, h.Size, text = tar.TypeSymlink, text, 0, ""
		}
		err := w.WriteHeader(h)
		if err == nil {
			_, err = w.Write([]byte(text))
		}
		return b.Bytes(), errors.Join(err, w.Close())
	}},
	{"zip", func(name, text string, link bool) ([]byte, error) {
		var b bytes.Buffer
		w := zip.NewWriter(&b)
		h := &zip.FileHeader{Name: name, Method: zip.Store}
		h.SetMode(0o644)
		if link {
			h.SetMode(0o777 | fs.ModeSymlink)
		}
		f, err := w.CreateHeader(h)
		if err == nil {
			_, err = f.Write([]byte(text))
		}
		return b.Bytes(), errors.Join(err, w.Close())
	}},
}

// Whatever the entries and links of an archive are called, what it becomes stays below
// the destination: where it is unpacked, and where the agent takes it over.
func TestTheCorpusIsUnpackedNowhereElse(t *testing.T) {
	y := hostile.NewYard(t)
	work := filepath.Join(y.In, "work")
	root, err := saferoot.Open(y.In)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	names := append(hostile.Names(), hostile.Odd()...)
	type entry struct {
		name, text string
		link       bool
	}
	var all []entry
	for _, n := range names {
		all = append(all, entry{n, "x", false}, entry{"d/" + n, "x", false}, entry{n, "logs", true}, entry{"l", n, true}, entry{"d/l", n, true})
	}
	for _, to := range y.Links() {
		all = append(all, entry{"l", to, true}, entry{"a/b/l", to, true})
	}
	placed := 0
	for _, kind := range archives {
		for _, e := range all {
			what := fmt.Sprintf("%s %.80q %.80q", kind.kind, e.name, e.text)
			text, err := kind.make(e.name, e.text, e.link)
			if err != nil {
				continue // an archive cannot say it
			}
			if err := errors.Join(os.RemoveAll(work), os.Mkdir(work, 0o755), os.WriteFile(filepath.Join(work, rawName), text, 0o644)); err != nil {
				t.Fatal(err)
			}
			t.Chdir(work)
			_, err = (&unpacker{limit: 1 << 20, files: 100}).unpack(kind.kind)
			for _, p := range hostile.Escapes(t, filepath.Join(work, treeName)) {
				t.Errorf("%s: %s", what, p)
			}
			if err == nil {
				from, err := saferoot.Open(work)
				if err != nil {
					t.Fatal(err)
				}
				if err := root.Adopt(from, treeName, "task", saferoot.Adoption{UID: -1, GID: -1}); err == nil {
					placed++
				}
				if err := errors.Join(from.Close(), root.RemoveAll("task")); err != nil {
					t.Fatal(err)
				}
			}
		}
		y.Untouched(t, kind.kind)
	}
	t.Logf("%d archives of %d were harmless", placed, 2*len(all))
}

// No name in a source, and no destination, leads out.
func TestTheCorpusNamesNoOtherFile(t *testing.T) {
	for _, n := range append(hostile.Names(), hostile.Odd()...) {
		if p, err := parse("http://h/x?filename=" + escaped(n)); err == nil && n != "" && (p.name == "." || p.name == ".." || strings.ContainsAny(p.name, "/\\\x00")) {
			t.Errorf("filename %.80q is %q", n, p.name)
		}
		if p, err := parse("http://h/x.tgz//" + n); err == nil && (p.sub == ".." || strings.HasPrefix(p.sub, "../") || strings.HasPrefix(p.sub, "/")) {
			t.Errorf("directory %.80q is %q", n, p.sub)
		}
		if p, err := parse(n); err == nil && !p.git && !strings.Contains(p.plain, "://") && strings.HasPrefix(p.plain, "/") {
			t.Errorf("source %.80q is a file of the host", n)
		}
	}
	y := hostile.NewYard(t)
	root, err := saferoot.Open(y.In)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	destinations := hostile.Names()
	for _, link := range y.Spread(t, y.In) {
		for _, below := range []string{"/x", "/keep", "/secret", "/outside/keep", "/etc/passwd"} {
			destinations = append(destinations, link+below)
		}
	}
	for _, d := range destinations {
		work, err := saferoot.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		err = work.Replace("file", []byte("x"), 0o644)
		if err == nil {
			err = root.Adopt(work, "file", d, saferoot.Adoption{UID: -1, GID: -1})
		}
		if err == nil {
			t.Errorf("it is placed at %.80q", d)
		}
		_ = work.Close()
	}
	for i := range y.Links() {
		if err := root.Remove(fmt.Sprint("link", i)); err != nil {
			t.Fatal(err)
		}
	}
	y.Untouched(t, "destinations")
}

// escaped writes a text as a parameter of a source.
func escaped(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		fmt.Fprintf(&b, "%%%02x", c)
	}
	return b.String()
}
