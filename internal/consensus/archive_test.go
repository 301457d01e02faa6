package consensus_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/consensus"
	"berth/internal/state/statetest"

	"github.com/hashicorp/raft"
)

// file is one file of an archive.
type file struct{ name, text string }

// filesOf returns the files of an archive.
func filesOf(t *testing.T, b []byte) (out []file) {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	for files := tar.NewReader(zip); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, file{h.Name, string(text)})
	}
}

// pack makes an archive.
func pack(t *testing.T, files []file) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	to := tar.NewWriter(zip)
	for _, f := range files {
		if err := to.WriteHeader(&tar.Header{Name: f.name, Mode: 0o600, Size: int64(len(f.text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(to, f.text); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(to.Close(), zip.Close()); err != nil {
		t.Fatal(err)
	}
	return &b
}

// saved returns a snapshot as it is saved.
func saved(t *testing.T) (consensus.Backup, []byte) {
	t.Helper()
	store, _ := statetest.New(t, statetest.AddNode(1, 1000, 1000), statetest.Register(statetest.Job(t, `{"ID": "web", "TaskGroups": [{"Name": "g"}]}`), 1))
	snap := store.Snapshot()
	b := consensus.Backup{Created: time.Unix(1767323045, 0).UTC(), Server: "s", Index: snap.Index, Term: snap.Term, RaftIndex: 7, Version: snap.SavedVersion()}
	var out bytes.Buffer
	if err := consensus.WriteBackup(&out, b, snap); err != nil {
		t.Fatal(err)
	}
	return b, out.Bytes()
}

// A snapshot is an archive of three files, and what earlier releases saved is one
// of them.
func TestASnapshotIsAnArchive(t *testing.T) {
	want, text := saved(t)
	files := filesOf(t, text)
	if len(files) != 3 || files[0].name != "meta.json" || files[1].name != "state.bin" || files[2].name != "SHA256SUMS" {
		t.Fatalf("%d files: %+v", len(files), files)
	}
	var meta raft.SnapshotMeta
	if err := json.Unmarshal([]byte(files[0].text), &meta); err != nil {
		t.Fatal(err)
	}
	if meta.Size != int64(len(files[1].text)) || meta.Index != 7 || meta.Term != want.Term || meta.Version != 1 || meta.ID == "" {
		t.Errorf("%+v", meta)
	}
	for name, in := range map[string]io.Reader{"archive": bytes.NewReader(text), "earlier form": strings.NewReader(files[1].text)} {
		got, snap, err := consensus.ReadBackup(in)
		if err != nil || got.Index != want.Index || snap.Index != want.Index {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// Each file that is missing, in another place, longer, or not as it was saved is
// named.
func TestAnArchiveThatIsNotWhole(t *testing.T) {
	_, text := saved(t)
	good := filesOf(t, text)
	meta, state, sums := good[0], good[1], good[2]
	for _, c := range []struct {
		files []file
		want  string
	}{
		{[]file{{"meta.json", meta.text + " "}, state, sums}, "meta.json is not as it was saved: its sum is "},
		{[]file{meta, state, {"SHA256SUMS", strings.ReplaceAll(sums.text, "  state.bin", "0  state.bin")}}, "state.bin is not as it was saved: its sum is "},
		{[]file{meta, state, {"SHA256SUMS", strings.SplitAfter(sums.text, "\n")[0]}}, "SHA256SUMS has no sum of state.bin"},
		{[]file{meta, {"state.bin", state.text + "x"}, sums}, "cannot load the snapshot: snapshot: data follows the end"},
		{[]file{meta, {"state.bin", "\x82\xa1a\x01"}, sums}, "state.bin is not a state that Berth saved"},
		{[]file{meta, {"state.bin", state.text[:len(state.text)-1]}, sums}, "cannot load the snapshot"},
		{[]file{state, meta, sums}, `not an operator's snapshot: it has "state.bin" where meta.json is expected`},
		{[]file{meta, state}, "cannot load the snapshot: the archive is damaged or cut short: EOF"},
		{[]file{meta, state, sums, {"more", ""}}, "the snapshot has more than the three files"},
		{[]file{{"meta.json", strings.Repeat("x", 1<<20)}, state, sums}, "meta.json is longer than 65536 bytes"},
		{nil, "the archive is damaged or cut short"},
	} {
		_, _, err := consensus.ReadBackup(pack(t, c.files))
		if berth.KindOf(err) != berth.Invalid || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want %q, got %v", c.want, err)
		}
	}
}

// A snapshot with a byte changed, or that ends early, is refused, unless the byte
// means nothing.
func TestADamagedArchiveIsRefused(t *testing.T) {
	_, text := saved(t)
	for at := 0; at < len(text); at += 1 + len(text)/200 {
		if _, _, err := consensus.ReadBackup(bytes.NewReader(text[:at])); berth.KindOf(err) != berth.Invalid {
			t.Fatalf("cut at %d of %d: %v", at, len(text), err)
		}
		bad := bytes.Clone(text)
		bad[at] ^= 0x20
		b, _, err := consensus.ReadBackup(bytes.NewReader(bad))
		if err == nil && b.Index == 0 || err != nil && berth.KindOf(err) != berth.Invalid {
			t.Fatalf("byte %d of %d: %v", at, len(text), err)
		}
	}
}
