package local

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth"
	"berth/internal/admit"
	"berth/internal/agent/record"
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
		TaskStates: map[string]*op.TaskState{"t": {State: berth.TaskRunning, StartedAt: time.Unix(5, 6).UTC()}},
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
	must(t, db.PutTask(sample(t, 1).ID.String(), "t", []byte(`"newer"`)))
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
	if string(records[0].Tasks["t"]) != `{"task":0}` || string(records[1].Tasks["t"]) != `"newer"` {
		t.Errorf("tasks %q %q", records[0].Tasks, records[1].Tasks)
	}
	if st, err := os.Stat(fileOf(dir, sample(t, 1))); err != nil || st.Mode().Perm() != 0o600 {
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

func fileOf(dir string, a *op.Alloc) string { return filepath.Join(dir, dirAllocs, a.ID.String()) }

// records takes a file apart.
func records(t testing.TB, b []byte) (out [][]byte) {
	t.Helper()
	for len(b) > 0 {
		_, _, rest, err := record.Next(b)
		must(t, err)
		out = append(out, b[:len(b)-len(rest)])
		b = rest
	}
	return out
}

func TestADamagedRecordSetsItsAllocationAside(t *testing.T) {
	id := sample(t, 1).ID.String()
	good := func(what string, v any) []byte {
		b, err := record.Append(nil, what, v)
		must(t, err)
		return b
	}
	flip := func(n int) func([][]byte) [][]byte {
		return func(all [][]byte) [][]byte { all[n][len(all[n])/2] ^= 4; return all }
	}
	instead := func(b []byte) func([][]byte) [][]byte {
		return func(all [][]byte) [][]byte { all[0] = b; return all }
	}
	for name, f := range map[string]func([][]byte) [][]byte{
		"the allocation is damaged":  flip(0),
		"a task is damaged":          flip(1),
		"what was told is damaged":   flip(2),
		"the allocation is missing":  func(all [][]byte) [][]byte { return all[1:] },
		"the file is empty":          func([][]byte) [][]byte { return nil },
		"the allocation is cut":      instead([]byte("berth 1 00000000 ")),
		"the allocation is not JSON": instead([]byte(strings.ReplaceAll(string(good(kindAlloc+id, "{")), `"{"`, `{`))),
		"the allocation is empty":    instead(good(kindAlloc+id, map[string]string{"ID": id})),
		"another's allocation":       instead(good(kindAlloc+id, sample(t, 2))),
		"another's record":           instead(good(kindAlloc+sample(t, 2).ID.String(), sample(t, 1))),
		"another's task": func(all [][]byte) [][]byte {
			return append(all, good(kindTask+sample(t, 2).ID.String(), taskRecord{"t", nil}))
		},
		"an unknown record": func(all [][]byte) [][]byte { return append(all, good("strange "+id, nil)) },
		"a text":            func([][]byte) [][]byte { return [][]byte{[]byte("hello\nworld\n")} },
		"zeros":             func([][]byte) [][]byte { return [][]byte{make([]byte, 1<<16)} },
	} {
		dir := t.TempDir()
		db, _, _ := open(t, dir)
		fill(t, db, 3)
		must(t, db.Close())
		path := fileOf(dir, sample(t, 1))
		b, err := os.ReadFile(path)
		must(t, err)
		must(t, os.WriteFile(path, bytes.Join(f(records(t, b)), nil), 0o600))
		db, records, damage := open(t, dir)
		if len(records) != 2 || len(damage) != 1 || damage[0].ID != id || !strings.Contains(damage[0].Err.Error(), path) {
			t.Errorf("%s: %d records, damage %v", name, len(records), damage)
		}
		fill(t, db, 3) // it can come back
		must(t, db.Close())
		db, records, damage = open(t, dir)
		if len(records) != 3 || len(damage) != 0 {
			t.Errorf("%s, later: %d records, damage %v", name, len(records), damage)
		}
		must(t, db.Close())
	}
}

// An agent is killed as it writes, or the disk is full: what was there counts,
// and what is put later is there as well.
func TestHalfARecordIsAsIfItWereNotThere(t *testing.T) {
	dir := t.TempDir()
	db, _, _ := open(t, dir)
	fill(t, db, 2)
	id := sample(t, 0).ID.String()
	defer func(was func(*os.File, []byte) error) { appendTo = was }(appendTo)
	whole := appendTo
	appendTo = func(f *os.File, b []byte) error {
		return errors.Join(whole(f, b[:len(b)/2]), unix.ENOSPC)
	}
	if err := db.PutTask(id, "t", []byte(`"lost"`)); !errors.Is(err, unix.ENOSPC) {
		t.Error(err)
	}
	must(t, db.Close())
	appendTo = whole
	for _, want := range []string{`{"task":0}`, `"after"`, `"again"`} {
		db, records, damage := open(t, dir)
		if len(records) != 2 || len(damage) > 0 || string(records[0].Tasks["t"]) != want {
			t.Fatalf("%d records, damage %v; want %s", len(records), damage, want)
		}
		must(t, db.PutTask(id, "t", []byte(`"after"`)))
		if want != `{"task":0}` {
			must(t, db.PutTask(id, "t", []byte(`"again"`)))
		}
		must(t, db.Close())
	}
	db, _, _ = open(t, dir)
	appendTo = func(f *os.File, b []byte) error {
		return errors.Join(whole(f, b[:len(b)/2]), unix.ENOSPC)
	}
	if err := db.PutTask(id, "t", []byte(`"lost"`)); !errors.Is(err, unix.ENOSPC) {
		t.Error(err)
	}
	appendTo = whole
	must(t, db.PutTask(id, "t", []byte(`"there is room again"`)))
	must(t, db.Close())
	db, records, damage := open(t, dir)
	if len(records) != 2 || len(damage) > 0 || string(records[0].Tasks["t"]) != `"there is room again"` {
		t.Errorf("%q, damage %v", records[0].Tasks, damage)
	}
	must(t, db.Close())
}

func TestAFileDoesNotGrowForEver(t *testing.T) {
	dir := t.TempDir()
	db, _, _ := open(t, dir)
	a := sample(t, 1)
	must(t, db.PutAlloc(a))
	must(t, db.PutReported(map[string]string{a.ID.String(): "r"}))
	state := []byte(`"` + strings.Repeat("x", 10_000) + `"`)
	for range 100 {
		must(t, db.PutTask(a.ID.String(), "t", state))
		must(t, db.PutTask(a.ID.String(), "u", state))
		if st, err := os.Stat(fileOf(dir, a)); err != nil || st.Size() > 2*slack {
			t.Fatalf("%d bytes, %v", st.Size(), err)
		}
	}
	must(t, db.Close())
	db, records, damage := open(t, dir)
	defer db.Close()
	if len(damage) > 0 || len(records) != 1 || !reflect.DeepEqual(records[0].Alloc, a) || records[0].Reported != "r" ||
		!bytes.Equal(records[0].Tasks["t"], state) || !bytes.Equal(records[0].Tasks["u"], state) {
		t.Errorf("%d records, damage %v", len(records), damage)
	}
}

// Many put at once, and bring to disk what they put, while others are deleted.
func TestManyPutAtOnce(t *testing.T) {
	const allocs, times = 20, 30
	dir := t.TempDir()
	db, _, _ := open(t, dir)
	state := strings.Repeat("x", slack/10)
	var wg sync.WaitGroup
	for i := range allocs {
		a := sample(t, i)
		id := a.ID.String()
		must(t, db.PutAlloc(a))
		for _, task := range []string{"t", "u"} {
			wg.Go(func() {
				for n := range times {
					if err := db.PutTask(id, task, fmt.Appendf(nil, "%q", fmt.Sprint(state, n))); err != nil {
						if i%2 == 0 || berth.KindOf(err) != berth.NotFound {
							t.Error(err)
						}
					}
					if err := errors.Join(db.Sync(id), db.PutReported(map[string]string{id: "r"})); err != nil {
						t.Error(err)
					}
				}
			})
		}
		if i%2 == 1 {
			wg.Go(func() {
				if err := db.Delete(id); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	must(t, db.Close())
	db, records, damage := open(t, dir)
	defer db.Close()
	if len(records) != allocs/2 || len(damage) > 0 {
		t.Fatalf("%d records, damage %v", len(records), damage)
	}
	for _, r := range records {
		for task, got := range r.Tasks {
			if want := fmt.Sprintf("%q", fmt.Sprint(state, times-1)); string(got) != want {
				t.Errorf("%s of %s is not the last", task, r.ID)
			}
		}
	}
}

// mutate damages a file in one of the ways that disks and people do.
func mutate(rng *rand.Rand, b []byte) ([]byte, string) {
	b = bytes.Clone(b)
	at := rng.IntN(len(b))
	fill := func(from, to int, f func(i int) byte) {
		for i := from; i < min(to, len(b)); i++ {
			b[i] = f(i)
		}
	}
	switch rng.IntN(7) {
	case 0:
		b[at] ^= 1 << rng.IntN(8)
		return b, fmt.Sprintf("bit flipped at %d", at)
	case 1:
		return b[:at], fmt.Sprintf("cut to %d", at)
	case 2:
		fill(at, at+4096, func(int) byte { return 0 })
		return b, fmt.Sprintf("zeros at %d", at)
	case 3:
		fill(at, at+1+rng.IntN(300), func(int) byte { return byte(rng.Uint32()) })
		return b, fmt.Sprintf("noise at %d", at)
	case 4: // one part in the place of another
		from := rng.IntN(len(b))
		copy(b[at:], bytes.Clone(b[from:]))
		return b, fmt.Sprintf("what is at %d copied to %d", from, at)
	case 5:
		return append(b, b[:at]...), "file appended to itself"
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
	const allocs = 4
	home := t.TempDir()
	db, _, _ := open(t, home)
	fill(t, db, allocs)
	for i := range allocs { // history
		must(t, db.PutTask(sample(t, i).ID.String(), "t", []byte(`"`+strings.Repeat("x", i*40)+`"`)))
	}
	must(t, db.Close())
	want := map[string]*op.Alloc{}
	good := map[string][]byte{}
	for i := range allocs {
		a := sample(t, i)
		want[a.ID.String()] = a
		b, err := os.ReadFile(fileOf(home, a))
		must(t, err)
		good[a.ID.String()] = b
	}
	extra := sample(t, allocs)
	rng := rand.New(rand.NewPCG(2026, 11))
	hurt := 0
	for i := range 600 {
		victim := sample(t, rng.IntN(allocs)).ID.String()
		bad, how := mutate(rng, good[victim])
		dir := t.TempDir()
		must(t, os.Mkdir(filepath.Join(dir, dirAllocs), 0o700))
		for id, b := range good {
			if id == victim {
				b = bad
			}
			must(t, os.WriteFile(filepath.Join(dir, dirAllocs, id), b, 0o600))
		}
		db, records, damage, err := Open(dir, quiet)
		if err != nil {
			t.Fatalf("%d, %s: %v", i, how, err)
		}
		for _, r := range records {
			if !reflect.DeepEqual(r.Alloc, want[r.ID]) {
				t.Fatalf("%d, %s: allocation %s is not what it was", i, how, r.ID)
			}
		}
		switch {
		case len(records) == allocs && len(damage) == 0:
		case len(records) == allocs-1 && len(damage) == 1 && damage[0].ID == victim:
			hurt++
		default:
			t.Errorf("%d, %s: %d of %d allocations, damage %v", i, how, len(records), allocs, damage)
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
	t.Logf("%d of 600 damaged files were set aside", hurt)
}

// What is in the way is set aside, and what an agent left as it was killed is
// removed.
func TestForeignFilesAreSetAside(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, dirAllocs), nil, 0o600))
	db, records, damage := open(t, dir)
	if len(records) != 0 || len(damage) != 1 || damage[0].ID != "" {
		t.Error(records, damage)
	}
	fill(t, db, 1)
	must(t, db.Close())
	in := func(name string) string { return filepath.Join(dir, dirAllocs, name) }
	directory := sample(t, 7).ID.String()
	must(t, os.WriteFile(in("notes"), []byte("hello"), 0o600))
	must(t, os.WriteFile(in(directory+".new"), []byte("half"), 0o600))
	must(t, os.MkdirAll(in(directory+"/below"), 0o700))
	db, records, damage = open(t, dir)
	if len(records) != 1 || len(damage) != 2 || damage[0].ID != directory || damage[1].ID != "" {
		t.Error(records, damage)
	}
	must(t, db.Close())
	if left, _ := filepath.Glob(in("*")); len(left) != 1 {
		t.Error(left)
	}
	if aside, _ := filepath.Glob(filepath.Join(dir, dirDamaged, "*")); len(aside) != 3 {
		t.Error(aside)
	}
}

func TestOnlySomeDamagedFilesAreKept(t *testing.T) {
	dir := t.TempDir()
	db, _, _ := open(t, dir)
	must(t, db.Close())
	for i := range damagedKept + 5 {
		must(t, os.WriteFile(fileOf(dir, sample(t, i)), []byte("damaged"), 0o600))
	}
	db, _, damage := open(t, dir)
	must(t, db.Close())
	if files, _ := filepath.Glob(filepath.Join(dir, dirDamaged, "*")); len(files) != damagedKept || len(damage) != damagedKept+5 {
		t.Error(files, damage)
	}
}

func TestIdentityIsMadeOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	id, secret, err := Identity(dir, false, quiet)
	must(t, err)
	again, secret2, err := Identity(dir, false, quiet)
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
	other, kept, err := Identity(dir, false, quiet)
	if err != nil || other == id || kept != secret {
		t.Errorf("%v %q, %v", other, kept, err)
	}
}

// An identity that is lost while allocations are recorded is not replaced: the
// node would end them. Both files back, all goes on.
func TestAnIdentityIsNotReplacedWhileAllocationsAreRecorded(t *testing.T) {
	dir := t.TempDir()
	id, secret, err := Identity(dir, false, quiet)
	must(t, err)
	db, _, _ := open(t, dir)
	a := sample(t, 1)
	must(t, errors.Join(db.PutAlloc(a), db.Sync(a.ID.String()), db.Close()))
	for _, name := range []string{"client-id", "secret-id"} {
		path := filepath.Join(dir, name)
		whole, err := os.ReadFile(path)
		must(t, err)
		for what, spoil := range map[string]func() error{
			"missing": func() error { return os.Remove(path) },
			"damaged": func() error { return os.WriteFile(path, nil, 0o600) },
		} {
			must(t, spoil())
			_, _, err := Identity(dir, false, quiet)
			if berth.KindOf(err) != berth.Conflict || !strings.Contains(err.Error(), path+" is "+what) || !strings.Contains(err.Error(), "backup") {
				t.Errorf("%s %s: %v", name, what, err)
			}
			must(t, os.WriteFile(path, whole, 0o600))
		}
	}
	if again, same, err := Identity(dir, false, quiet); err != nil || again != id || same != secret {
		t.Errorf("%v, %v", again, err)
	}
	must(t, errors.Join(os.Remove(filepath.Join(dir, "client-id")), os.RemoveAll(filepath.Join(dir, dirAllocs))))
	if other, _, err := Identity(dir, false, quiet); err != nil || other == id {
		t.Errorf("after the records were deleted: %v, %v", other, err)
	}
}

// What is not there is not made by a task's state.
func TestOnlyAnAllocationMakesAFile(t *testing.T) {
	dir := t.TempDir()
	db, _, _ := open(t, dir)
	a := sample(t, 1)
	id := a.ID.String()
	if err := db.PutTask(id, "t", []byte("1")); berth.KindOf(err) != berth.NotFound {
		t.Error(err)
	}
	must(t, db.PutAlloc(a))
	if err := db.PutTask(id, "t", []byte("{")); err == nil {
		t.Error("a state that is no JSON was taken")
	}
	must(t, db.Delete(id))
	must(t, db.Delete(id))
	if err := db.PutTask(id, "t", []byte("1")); berth.KindOf(err) != berth.NotFound {
		t.Error(err)
	}
	must(t, errors.Join(db.Sync(id), db.PutReported(map[string]string{id: "r"})))
	if left, _ := filepath.Glob(filepath.Join(dir, dirAllocs, "*")); len(left) > 0 {
		t.Error(left)
	}
	must(t, db.Close())
	if err := db.PutAlloc(a); err == nil {
		t.Error("an allocation was put after all was closed")
	}
}

func FuzzFile(f *testing.F) {
	dir := f.TempDir()
	db, _, _ := open(f, dir)
	fill(f, db, 1)
	must(f, db.Close())
	id := sample(f, 0).ID
	good, err := os.ReadFile(fileOf(dir, sample(f, 0)))
	must(f, err)
	f.Add(good)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		bad, _ := mutate(rng, good)
		f.Add(bad)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, n, err := parse(id.String(), b)
		if n > len(b) || err == nil && n != len(b) {
			t.Fatalf("%d of %d bytes, %v", n, len(b), err)
		}
		if _, err := c.decodeAlloc(id); err != nil {
			return
		}
		again, err := c.encode(id.String())
		must(t, err)
		d, _, err := parse(id.String(), again)
		if _, e := d.decodeAlloc(id); err != nil || e != nil || len(d.tasks) != len(c.tasks) || d.reported != c.reported {
			t.Errorf("%v, %v: %v is not %v", err, e, d, c)
		}
	})
}

// FuzzRecord: whatever a record with a good checksum says.
func FuzzRecord(f *testing.F) {
	id := sample(f, 0).ID
	good, _ := json.Marshal(sample(f, 0))
	f.Add("allocation ", good)
	f.Add("task ", []byte(`{"Task":"t","State":{}}`))
	f.Fuzz(func(t *testing.T, kind string, body []byte) {
		c := contents{tasks: map[string]json.RawMessage{}}
		_ = c.add(kind, body)
		_, _ = c.decodeAlloc(id)
	})
}

// A node whose ID is made from that of the machine keeps it when its state is
// lost, and the ID is not that of the machine itself.
func TestTheMachinesID(t *testing.T) {
	file := filepath.Join(t.TempDir(), "machine-id")
	defer func(old []string) { hostFiles = old }(hostFiles)
	hostFiles = []string{filepath.Join(t.TempDir(), "absent"), file}
	of := func(text string) string {
		t.Helper()
		if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		id, secret, err := Identity(t.TempDir(), true, quiet)
		if err != nil || secret == "" || secret == id.String() {
			t.Fatal(id, secret, err)
		}
		return id.String()
	}
	const machine = "4c4c4544004d5210804bb4c04f4e3732"
	first := of(machine)
	if first != of(machine) || first == of("5"+machine[1:]) || strings.ReplaceAll(first, "-", "") == machine {
		t.Errorf("the ID %s", first)
	}
	if a, b := of("00000000-0000-0000-0000-000000000000"), of("00000000-0000-0000-0000-000000000000"); a == b {
		t.Errorf("a machine without an ID of its own: %s twice", a)
	}
}
