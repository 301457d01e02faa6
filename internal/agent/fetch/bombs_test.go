package fetch

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// An archive that becomes far more than itself is refused for what it is, whatever it
// is compressed with, as one file and as a tar. Nothing is placed, and another try
// would not help.
func TestBombsOfAllKinds(t *testing.T) {
	var tarred bytes.Buffer
	w := tar.NewWriter(&tarred)
	zeros := make([]byte, 8<<20)
	err := w.WriteHeader(&tar.Header{Name: "zeros", Size: int64(len(zeros)), Mode: 0o644})
	_, werr := w.Write(zeros)
	if err := errors.Join(err, werr, w.Close()); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, Config{})
	for kind, make := range map[string]func(io.Writer) (io.WriteCloser, error){
		"xz":  func(w io.Writer) (io.WriteCloser, error) { return xz.NewWriter(w) },
		"zst": func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) },
	} {
		for name, text := range map[string][]byte{"bomb." + kind: zeros, "bomb.tar." + kind: tarred.Bytes()} {
			var b bytes.Buffer
			z, err := make(&b)
			if err != nil {
				t.Fatal(err)
			}
			_, werr := z.Write(text)
			if err := errors.Join(werr, z.Close()); err != nil {
				t.Fatal(err)
			}
			r.files["/"+name] = b.Bytes()
			if err := r.get(t, Artifact{Source: "URL/" + name}, "task/local"); !errors.Is(err, ErrBad) || !strings.Contains(err.Error(), "more than 100 times its size") {
				t.Errorf("%s of %d bytes: %v", name, b.Len(), err)
			}
		}
	}
	if got := r.tree(t); got != "" {
		t.Errorf("placed: %.300s", got)
	}
}
