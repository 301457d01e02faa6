package local

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"berth"
	"berth/internal/admit"
	"berth/internal/claim"
	"berth/internal/decode"
	"berth/op"
)

var quiet = slog.New(slog.DiscardHandler)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, dir string) (*DB, []Record, []Damage) {
	t.Helper()
	db, records, damage, err := Open(dir, quiet)
	must(t, err)
	return db, records, damage
}

// sample is an allocation as a server sends it.
func sample(t testing.TB, n int) *op.Alloc {
	t.Helper()
	tree, err := decode.ParseJSON([]byte(`{"ID":"web","Meta":{"a":"b"},"TaskGroups":[{"Name":"g","Count":3,
		"Networks":[{"DynamicPorts":[{"Label":"http"}]}],
		"Tasks":[{"Name":"t","Driver":"raw_exec","Config":{"command":"/bin/sh","args":["-c","exit 3"]},"Env":{"X":"y"}}]}]}`))
	must(t, err)
	job, err := admit.DecodeJob(tree, admit.FromJSON)
	must(t, err)
	var id berth.AllocID
	id[0], id[1] = byte(n>>8), byte(n)
	id[15] = 1
	return &op.Alloc{
		ID: id, Namespace: "default", Name: fmt.Sprintf("web.g[%d]", n), JobID: "web", Job: job, TaskGroup: "g",
		AllocatedResources: &op.AllocatedResources{Shared: op.AllocatedShared{Ports: []berth.PortMapping{{Label: "http", Value: 20000 + n}}}},
		CreateIndex:        uint64(n), ModifyIndex: uint64(n), AllocModifyIndex: uint64(n),
		TaskStates: map[string]*berth.TaskState{"t": {State: berth.TaskRunning, StartedAt: time.Unix(5, 6).UTC()}},
	}
}

func fill(t testing.TB, db *DB, n int) {
	t.Helper()
	for i := range n {
		a := sample(t, i)
		must(t, db.PutAlloc(a))
		must(t, db.PutTask(a.ID.String(), "t", []byte(fmt.Sprintf(`{"task":%d}`, i))))
		must(t, db.PutReported(map[string]string{a.ID.String(): fmt.Sprint("r", i), "gone": "x"}))
	}
}

func TestWhatIsPutIsThereAfterARestart(t *testing.T) {
	dir := t.TempDir()
	db, records, damage := open(t, dir)
	if len(records)+len(damage) > 0 {
		t.Fatal(records, damage)
	}
	fill(t, db, 3)
	must(t, db.PutTask(sample(t, 1).ID.String(), "t", []byte("newer")))
	must(t, db.Delete(sample(t, 2).ID.String()))
	must(t, db.Close())
	db, records, damage = open(t, dir)
	defer db.Close()
	if len(damage) > 0 || len(records) != 2 {
		t.Fatalf("%d records, damage %v", len(records), damage)
	}
	for i, r := range records {
		want := sample(t, i)
		if r.ID != want.ID.String() || !reflect.DeepEqual(r.Alloc, want) || r.Reported != fmt.Sprint("r", i) {
			t.Errorf("record %d: %+v\nwant %+v", i, r.Alloc, want)
		}
	}
	if string(records[0].Tasks["t"]) != `{"task":0}` || string(records[1].Tasks["t"]) != "newer" {
		t.Errorf("tasks %q %q", records[0].Tasks, records[1].Tasks)
	}
	if st, err := os.Stat(filepath.Join(dir, fileDB)); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
}

func TestTwoAgentsCannotShareADirectory(t *testing.T) {
	dir := t.TempDir()
	held, err := Hold(dir, claim.Wait{})
	must(t, err)
	if _, err := Hold(dir, claim.Wait{}); !errors.As(err, new(*claim.HeldError)) || !strings.Contains(err.Error(), dir) {
		t.Errorf("%v", err)
	}
	must(t, held.Close())
	held, err = Hold(dir, claim.Wait{})
	must(t, err)
	must(t, held.Close())
}

// poke changes a record behind the database's back.
func poke(t *testing.T, dir, key string, f func([]byte) []byte) {
	t.Helper()
	b, err := bbolt.Open(filepath.Join(dir, fileDB), 0o600, &bbolt.Options{NoFreelistSync: true})
	must(t, err)
	must(t, b.Update(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket(bucketRecords)
		v := f(bytes.Clone(bucket.Get([]byte(key))))
		if v == nil {
			return bucket.Delete([]byte(key))
		}
		return bucket.Put([]byte(key), v)
	}))
	must(t, b.Close())
}

func TestADamagedRecordSetsItsAllocationAside(t *testing.T) {
	id := sample(t, 1).ID.String()
	flip := func(b []byte) []byte { b[len(b)/2] ^= 4; return b }
	for _, c := range []struct {
		key string
		f   func([]byte) []byte
	}{
		{id + "/alloc", flip}, {id + "/task/t", flip}, {id + "/reported", flip},
		{id + "/alloc", func([]byte) []byte { return nil }},
		{id + "/alloc", func([]byte) []byte { return []byte{} }},
		{id + "/alloc", func([]byte) []byte { return seal([]byte(id+"/alloc"), []byte(`{"ID":`)) }},
		{id + "/alloc", func([]byte) []byte { return seal([]byte(id+"/alloc"), []byte(`{"ID":"`+id+`"}`)) }},
		{id + "/alloc", func(b []byte) []byte { // another's, with a good checksum
			v, _ := json.Marshal(sample(t, 2))
			return seal([]byte(id+"/alloc"), v)
		}},
		{id + "/strange", func([]byte) []byte { return seal([]byte(id+"/strange"), nil) }},
	} {
		dir := t.TempDir()
		db, _, _ := open(t, dir)
		fill(t, db, 3)
		must(t, db.Close())
		poke(t, dir, c.key, c.f)
		db, records, damage := open(t, dir)
		if len(records) != 2 || len(damage) != 1 || damage[0].ID != id || damage[0].Err == nil {
			t.Errorf("%s: %d records, damage %v", c.key, len(records), damage)
		}
		fill(t, db, 3) // it can come back
		must(t, db.Close())
		db, records, damage = open(t, dir)
		if len(records) != 3 || len(damage) != 0 {
			t.Errorf("%s, later: %d records, damage %v", c.key, len(records), damage)
		}
		must(t, db.Close())
	}
}

// mutate damages a file in one of the ways that disks and people do.
func mutate(rng *rand.Rand, b []byte) ([]byte, string) {
	b = bytes.Clone(b)
	at := rng.IntN(len(b))
	page := at / 4096 * 4096
	fill := func(from, to int, f func(i int) byte) {
		for i := from; i < min(to, len(b)); i++ {
			b[i] = f(i)
		}
	}
	switch rng.IntN(9) {
	case 0:
		b[at] ^= 1 << rng.IntN(8)
		return b, fmt.Sprintf("bit flipped at %d", at)
	case 1:
		return b[:at], fmt.Sprintf("cut to %d", at)
	case 2:
		fill(page, page+4096, func(int) byte { return 0 })
		return b, fmt.Sprintf("page at %d zeroed", page)
	case 3:
		fill(at, at+1+rng.IntN(300), func(int) byte { return byte(rng.Uint32()) })
		return b, fmt.Sprintf("noise at %d", at)
	case 4: // the head of a page, where it hurts most
		b[min(page+rng.IntN(64), len(b)-1)] = byte(rng.Uint32())
		return b, fmt.Sprintf("head of the page at %d", page)
	case 5: // one page in the place of another
		from := rng.IntN(len(b)/4096) * 4096
		copy(b[page:min(page+4096, len(b))], bytes.Clone(b[from:from+4096]))
		return b, fmt.Sprintf("page at %d copied to %d", from, page)
	case 6:
		return append(b, b[:at]...), "file appended to itself"
	case 7: // a page that points to itself
		if page >= 8192 {
			order.PutUint16(b[page+8:], kindBranch)
			order.PutUint64(b[page+pageHead+8:], uint64(page/4096))
		}
		return b, fmt.Sprintf("page at %d points to itself", page)
	default:
		n := 1 + rng.IntN(20)
		for range n {
			b[rng.IntN(len(b))] ^= byte(1 + rng.IntN(255))
		}
		return b, fmt.Sprintf("%d bytes changed", n)
	}
}

// F-25.
func TestDamageNeverKeepsAnAgentFromStarting(t *testing.T) {
	const allocs = 16
	home := t.TempDir()
	db, _, _ := open(t, home)
	fill(t, db, allocs)
	for i := range allocs { // history, so that pages are freed and used again
		must(t, db.PutTask(sample(t, i).ID.String(), "t", bytes.Repeat([]byte{'x'}, i*40)))
	}
	must(t, db.Close())
	good, err := os.ReadFile(filepath.Join(home, fileDB))
	must(t, err)
	want := map[string]*op.Alloc{}
	for i := range allocs {
		a := sample(t, i)
		want[a.ID.String()] = a
	}
	extra := sample(t, allocs)
	rng := rand.New(rand.NewPCG(2026, 11))
	kept, hurt := 0, 0
	for i := range 600 {
		bad, how := mutate(rng, good)
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, fileDB), bad, 0o600))
		db, records, damage, err := Open(dir, quiet)
		if err != nil {
			t.Fatalf("%d, %s: %v", i, how, err)
		}
		for _, r := range records {
			if !reflect.DeepEqual(r.Alloc, want[r.ID]) {
				t.Fatalf("%d, %s: allocation %s is not what it was", i, how, r.ID)
			}
		}
		kept += len(records)
		if len(records) < allocs {
			hurt++
			if len(damage) == 0 {
				t.Errorf("%d, %s: %d of %d allocations, and no word of damage", i, how, len(records), allocs)
			}
		}
		must(t, db.PutAlloc(extra)) // and it works
		must(t, db.Close())
		before := len(records)
		db, records, damage, err = Open(dir, quiet)
		if err != nil || len(records) != before+1 || len(damage) > 0 {
			t.Fatalf("%d, %s, later: %d records of %d, damage %v, %v", i, how, len(records), before+1, damage, err)
		}
		must(t, db.Close())
		must(t, os.RemoveAll(dir))
	}
	t.Logf("%d of 600 files lost allocations; of all allocations %.1f%% were kept", hurt, 100*float64(kept)/float64(600*allocs))
	if kept < 600*allocs/2 {
		t.Errorf("only %d of %d allocations were kept", kept, 600*allocs)
	}
}

func TestNotEvenAnEmptyOrForeignFileDoes(t *testing.T) {
	for name, content := range map[string]string{"empty": "", "text": "hello", "zeros": strings.Repeat("\x00", 1<<16)} {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, fileDB), []byte(content), 0o600))
		db, records, _ := open(t, dir)
		if len(records) > 0 {
			t.Error(name, records)
		}
		must(t, db.Close())
	}
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, fileDB), 0o700))
	db, _, damage := open(t, dir)
	if len(damage) != 1 {
		t.Error(damage)
	}
	must(t, db.Close())
}

func TestOnlySoManyDamagedFilesAreKept(t *testing.T) {
	dir := t.TempDir()
	for range 6 {
		must(t, os.WriteFile(filepath.Join(dir, fileDB), []byte("damaged"), 0o600))
		db, _, _ := open(t, dir)
		must(t, db.Close())
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*.damaged-*")); len(files) != damagedKept {
		t.Error(files)
	}
}

func TestIdentityIsMadeOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	id, secret, err := Identity(dir, quiet)
	must(t, err)
	again, secret2, err := Identity(dir, quiet)
	must(t, err)
	if id.IsZero() || id != again || secret == "" || secret != secret2 || secret == id.String() {
		t.Errorf("%v %v, %q %q", id, again, secret, secret2)
	}
	for _, f := range []string{"client-id", "secret-id"} {
		if st, err := os.Stat(filepath.Join(dir, f)); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f, st.Mode(), err)
		}
	}
	must(t, os.WriteFile(filepath.Join(dir, "client-id"), []byte("\x00garbage"), 0o600))
	other, kept, err := Identity(dir, quiet)
	if err != nil || other == id || kept != secret {
		t.Errorf("%v %q, %v", other, kept, err)
	}
}

func TestAFullDiskIsAnErrorOfTheWrite(t *testing.T) {
	dir := t.TempDir()
	db, _, _ := open(t, dir)
	fill(t, db, 1)
	must(t, db.bolt.Close()) // as good as any reason that the disk takes nothing
	if err := db.PutTask("x", "y", nil); !errors.Is(err, berrors.ErrDatabaseNotOpen) {
		t.Errorf("%v", err)
	}
}

func FuzzRecord(f *testing.F) {
	key := []byte("00000000-0000-0000-0000-000000000001/alloc")
	good, _ := json.Marshal(sample(f, 0))
	f.Add(key, seal(key, good))
	f.Add(key, []byte{sealVersion, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		id, rest, _ := strings.Cut(string(key), "/")
		r := Record{ID: id, Tasks: map[string][]byte{}}
		_ = r.read(rest, key, value)
		_ = r.read(rest, key, seal(key, value)) // whatever it says, it is ours
	})
}

func FuzzFile(f *testing.F) {
	dir := f.TempDir()
	db, _, _ := open(f, dir)
	fill(f, db, 3)
	must(f, db.Close())
	good, err := os.ReadFile(filepath.Join(dir, fileDB))
	must(f, err)
	f.Add(good)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		bad, _ := mutate(rng, good)
		f.Add(bad)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		found, _ := checkData(b)
		for k, v := range maps.All(found) {
			if _, err := unseal([]byte(k), v); err != nil {
				t.Error(err)
			}
		}
	})
}
