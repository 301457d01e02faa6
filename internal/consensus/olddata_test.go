package consensus_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"testing"

	"berth/internal/consensus"
	"berth/internal/invariant"
	"berth/internal/state"
)

// The data directory of an earlier build opens, and the state is the same to
// the last bit. It holds two snapshots and the log after them: service, batch,
// system, sysbatch, stream, periodic and parameterized jobs, a deployment that
// waits for promotion, a blocked evaluation, a node pool, and a deleted job. The
// two commands of the term that it takes to look follow: its begin, and the log
// version of today. What this saves up to there is what the build that wrote
// the data saved, so the sum stays as long as rows of the past do.
func TestDataOfAnEarlierBuild(t *testing.T) {
	dir := t.TempDir()
	unpack(t, filepath.Join("testdata", "data-before-restructure.tar.gz"), dir)
	ledAs(t, dir, "5a144fd1-fff3-c6f6-8be5-6daa8907e140", func(store *state.Store, _ *consensus.Server, _ consensus.Term) {
		s := store.Snapshot()
		var saved bytes.Buffer
		if err := s.Save(&saved); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("index %d, %d bytes, sum %08x", s.Index, saved.Len(), crc32.ChecksumIEEE(saved.Bytes())); got != "index 159, 17595 bytes, sum ec60f496" {
			t.Errorf("the state has %s", got)
		}
		if jobs, evals, allocs := s.Count(state.Jobs), s.Count(state.Evals), s.Count(state.Allocs); jobs < 20 || evals < 30 || allocs < 30 {
			t.Errorf("%d jobs, %d evaluations, %d allocations", jobs, evals, allocs)
		}
		if v := invariant.Check(s); len(v) > 0 {
			t.Error(v)
		}
	})
}

// unpack writes the files of a compressed archive into a directory.
func unpack(t *testing.T, archive, dir string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.FileInfo().IsDir() {
			err = os.MkdirAll(path, 0o700)
		} else {
			var content []byte
			if content, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(path, content, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
