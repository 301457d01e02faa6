package state_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"berth"
	"berth/internal/state"
	"berth/internal/state/codec"
	"berth/internal/state/statetest"
)

// The shape of a log version is what it has to say: the commands by number, and
// the fields of all that they and saved snapshots hold.
func shapeOfLogVersion(t *testing.T, logVersion int) string {
	var out strings.Builder
	types := map[reflect.Type]bool{}
	for n := state.Number(1); n <= state.LastNumber(); n++ {
		c := state.NewCommand(n)
		if c == nil {
			continue
		}
		if state.Needs(c) <= logVersion {
			fmt.Fprintf(&out, "%d %s\n", n, reflect.TypeOf(c).Elem().Name())
		}
		reach(reflect.TypeOf(c), types)
	}
	for _, row := range state.RowTypes {
		reach(row, types)
	}
	if logVersion < codec.LogVersion { // its fields cannot be told from those that came later
		return out.String()
	}
	var list []string
	for s := range types {
		list = append(list, fields(s))
	}
	slices.Sort(list)
	return out.String() + strings.Join(list, "")
}

// reach adds the structs that a type holds.
func reach(t reflect.Type, to map[reflect.Type]bool) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		reach(t.Elem(), to)
	case reflect.Map:
		reach(t.Key(), to)
		reach(t.Elem(), to)
	case reflect.Struct:
		if to[t] || !strings.HasPrefix(t.PkgPath(), "berth") {
			return
		}
		to[t] = true
		for i := range t.NumField() {
			if inLog(t.Field(i)) {
				reach(t.Field(i).Type, to)
			}
		}
	}
}

// inLog reports whether a field is in the log or in a saved snapshot.
func inLog(f reflect.StructField) bool {
	return (f.IsExported() || f.Anonymous) && f.Tag.Get("msgpack") != "-"
}

func fields(t reflect.Type) string {
	var out strings.Builder
	for i := range t.NumField() {
		if f := t.Field(i); inLog(f) {
			// Where a package lies is not part of what is logged.
			name := strings.ReplaceAll(f.Type.String(), "berth/internal/", "berth/")
			fmt.Fprintf(&out, "%s.%s %s\n", t, f.Name, name)
		}
	}
	return out.String()
}

var updateLogVersions = flag.Bool("update-log-versions", false, "rewrite the shape of the newest log version")

// What a log version has to say never changes once servers speak it: those of a
// cluster that is being upgraded would part. Whoever adds a number or a field
// makes the next log version.
func TestLogVersionsStayAsTheyAre(t *testing.T) {
	for d := 1; d <= codec.LogVersion; d++ {
		path := fmt.Sprintf("testdata/logversion%d.txt", d)
		got := shapeOfLogVersion(t, d)
		if *updateLogVersions && d == codec.LogVersion {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		was, _, _ := strings.Cut(string(want), "berth.") // of older log versions the commands alone are compared
		if d == codec.LogVersion {
			was = string(want)
		}
		if got != was {
			t.Errorf("log version %d has changed:\n%s"+`
A server that does not know what is new would part from the others while they are upgraded. So, in state:
 1. raise codec.LogVersion by one, and give savedSince an entry for it;
 2. of a new field in a command of an older number, have the command's method needs return the new log version where the field is set;
 3. in the command's entry in kinds, say in an operator's words what its feature is;
 4. run this test with -args -update-log-versions, which writes testdata/logversion%d.txt; the older files stay as they are;
 5. say what is new in the table of docs/cluster.md.
If log version %d was never part of a release, 2 to 5 are enough.`, d, changes(was, got), codec.LogVersion+1, d)
		}
	}
}

// The documentation of upgrades says what each log version brought.
func TestLogVersionsAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../docs/cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(doc), "\n| Log version | New in it |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")
	if len(rows) != codec.LogVersion {
		t.Fatalf("the table of log versions in docs/cluster.md has %d rows, not %d", len(rows), codec.LogVersion)
	}
	for i, row := range rows {
		if want := fmt.Sprintf("| %d | ", i+1); !strings.HasPrefix(row, want) {
			t.Errorf("row %d is %q, want it to begin with %q", i+1, row, want)
		}
	}
}

// changes are the lines that one of two texts has and the other has not.
func changes(was, is string) string {
	var out strings.Builder
	a, b := strings.SplitAfter(was, "\n"), strings.SplitAfter(is, "\n")
	for _, l := range a {
		if !slices.Contains(b, l) {
			out.WriteString("- " + l)
		}
	}
	for _, l := range b {
		if !slices.Contains(a, l) {
			out.WriteString("+ " + l)
		}
	}
	return out.String()
}

// Every number has a log version, and no log version has numbers that are not
// there.
func TestEveryNumberHasALogVersion(t *testing.T) {
	last := map[int]state.Number{}
	for n := state.Number(1); n <= state.LastNumber(); n++ {
		if c := state.NewCommand(n); c != nil {
			last[state.Needs(c)] = n
		}
	}
	delete(last, codec.LogVersion) // its file lists those
	if want := (map[int]state.Number{1: 43, 2: 56, 3: 57, 4: 82, 5: 96, 6: 127, 7: 131}); !reflect.DeepEqual(last, want) {
		t.Errorf("the last numbers of log versions are %v, not %v", last, want)
	}
}

// Where the number does not say it, the fields do.
func TestFieldsNeedALogVersion(t *testing.T) {
	stream := newFlow(t).registers(1, 100, "")
	for _, x := range []struct {
		c    state.Command
		want int
	}{
		{statetest.Register(sized(t, 2, ""), 1), 1},
		{stream, 2},
		{&state.RegisterJob{Job: &berth.Job{TaskGroups: []*berth.TaskGroup{{DependsOn: []string{"group.db"}}}}}, 6},
		{&state.RegisterJob{Job: &berth.Job{TaskGroups: []*berth.TaskGroup{{Tasks: []*berth.Task{{Resources: &berth.Resources{SecretsMB: 2}}}}}}}, 7},
		{&state.RegisterNode{Node: &berth.Node{}}, 1},
		{&state.RegisterNode{Node: &berth.Node{NodeMaxAllocs: 3}}, 7},
		{&state.BeginTerm{Term: 3}, 1},
		{&state.BeginTerm{Term: 3, Cluster: state.ClusterID{1}}, 2},
		{&state.CreateEvals{Evals: []state.EvalFor{{}, {}}}, 1},
		{&state.CreateEvals{Evals: []state.EvalFor{{}, {Left: true}}}, 2},
		{&state.CancelEvals{}, 1},
		{&state.CancelEvals{By: statetest.ID[berth.Eval](1)}, 3},
		{&state.RaiseLogVersion{To: 3}, 3},
		{&state.StopJob{Purge: true}, 1},
		{&state.DeleteJob{Policy: berth.Background}, 2},
		{&state.ApplyPlan{}, 1},
		{&state.UpsertServices{Services: []*berth.ServiceRegistration{{}}}, 1},
		{&state.UpsertServices{Services: []*berth.ServiceRegistration{{}, {Unhealthy: true}}}, 6},
		{&state.ReportAllocs{}, 1},
		{spaces("a", "b"), 4},
		{mounting(berth.TypeService, berth.AttachFilesystem), 7},
		{mounting(berth.TypeService, berth.AttachBlock), 9},
		{mounting(berth.TypeSystem, berth.AttachFilesystem), 9},
		{mounting(berth.TypeStream, berth.AttachFilesystem), 9},
		{csiVolumeOf(berth.AttachFilesystem), 7},
		{csiVolumeOf(berth.AttachBlock), 9},
		{&state.IntroduceNode{}, 6},
		{&state.IntroduceNode{Register: statetest.AddNode(1, 100, 100)}, 6},
		{&state.IntroduceNode{Register: statetest.AddNode(1, 100, 100, func(n *berth.Node) { n.NodeMaxAllocs = 3 })}, 7},
		{&state.IntroduceNode{Register: statetest.AddNode(1, 100, 100, func(n *berth.Node) { n.CSINodePlugins = map[string]*berth.CSIInfo{"p": {}} })}, 7},
		{&state.UpsertNamespaces{Namespaces: []*berth.Namespace{{Quota: "q"}, {OptionalExtraClaims: map[string]string{"a": "b"}}}}, 8},
		{&state.UpsertNamespaces{Namespaces: []*berth.Namespace{{RequiredExtraClaims: map[string]string{"a": "b"}}, {Quota: "q"}}}, 8},
	} {
		if got := state.Needs(x.c); got != x.want {
			t.Errorf("%T needs log version %d, not %d", x.c, got, x.want)
		}
	}
}

// mounting registers a job of a type with a CSI volume that is attached in a mode.
func mounting(kind, mode string) *state.RegisterJob {
	return &state.RegisterJob{Job: &berth.Job{Type: kind, TaskGroups: []*berth.TaskGroup{{Volumes: map[string]berth.VolumeRequest{"v": {Type: berth.VolumeCSI, AttachmentMode: mode}}}}}}
}

// csiVolumeOf makes a CSI volume that can be attached in a mode.
func csiVolumeOf(mode string) *state.PutCSIVolume {
	return &state.PutCSIVolume{Volume: &berth.CSIVolume{RequestedCapabilities: []berth.VolumeCapability{{AttachmentMode: mode}}}}
}

// Who proposes is asked before the first command of a log version, and, refused,
// nothing has happened; what was allowed once is not asked for again.
func TestTheFirstCommandOfALogVersionIsAskedFor(t *testing.T) {
	store, _ := statetest.New(t, statetest.AddNode(1, 1000, 1000))
	plain := store.Snapshot()
	asked, refusal := 0, errors.New("not yet")
	tx := state.BeginAllowed(plain, func(state.Command, int) error { asked++; return refusal })
	if r := tx.Apply(statetest.Register(sized(t, 2, ""), 1)); r.Err != nil || asked != 0 {
		t.Fatalf("a plain job: %v, asked %d times", r.Err, asked)
	}
	before := tx.Seal()
	if r := tx.Apply(&state.BeginTerm{Term: 9, Cluster: state.ClusterID{1}}); r.Err != refusal || r.Index != before.Index || asked != 1 {
		t.Errorf("refused as %v at %d, asked %d times", r.Err, r.Index, asked)
	}
	if got := tx.Seal(); got.Hash() != before.Hash() || got.LogVersion != 1 {
		t.Error("what was refused left a trace")
	}
	refusal = nil
	for term := range uint64(3) {
		if r := tx.Apply(&state.BeginTerm{Term: 9 + term, Cluster: state.ClusterID{1}}); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	tx.Undo()
	if r := tx.Apply(&state.BeginTerm{Term: 20, Cluster: state.ClusterID{1}}); r.Err != nil {
		t.Fatal(r.Err)
	}
	b := tx.End()
	if asked != 2 || b.LogVersion != 2 || b.Needs != 2 {
		t.Errorf("asked %d times; the state is of log version %d, its commands of %d", asked, b.LogVersion, b.Needs)
	}
	next := state.Begin(b.Snapshot)
	next.Apply(&state.BeginTerm{Term: 30})
	if b := next.End(); b.LogVersion != 2 || b.Needs != 1 {
		t.Errorf("then the state is of log version %d, its commands of %d", b.LogVersion, b.Needs)
	}
}

// A state is saved in the version that the least knowing of the servers that
// agree on it can read.
func TestTheOldestVersionIsSaved(t *testing.T) {
	store, log := statetest.New(t, statetest.AddNode(1, 1000, 1000), statetest.Register(sized(t, 2, ""), 1))
	for i, version := range []string{"3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13"} {
		logVersion := i + 1
		var raise state.Command
		switch {
		case logVersion == 2:
			raise = &state.BeginTerm{Term: 9, Cluster: state.ClusterID{1}}
		case logVersion > 2:
			raise = &state.RaiseLogVersion{To: logVersion}
		}
		if raise != nil {
			if _, err := log.Propose(t.Context(), raise); err != nil {
				t.Fatal(err)
			}
		}
		var saved bytes.Buffer
		s := store.Snapshot()
		if err := s.Save(&saved); err != nil {
			t.Fatal(err)
		}
		line, _, _ := bytes.Cut(saved.Bytes(), []byte("\n"))
		if want := "berth snapshot " + version; string(line) != want {
			t.Errorf("log version %d: the file begins %q, not %q", logVersion, line, want)
		}
		loaded, err := state.Load(&saved)
		if err != nil {
			t.Fatal(err)
		}
		if loaded.LogVersion != logVersion || loaded.Hash() != s.Hash() {
			t.Errorf("log version %d: loaded it is of log version %d\n%s", logVersion, loaded.LogVersion, diff(s, loaded))
		}
		if up := loaded.Raised(s); up.LogVersion != logVersion {
			t.Errorf("log version %d: restored it is of log version %d", logVersion, up.LogVersion)
		}
	}
}

// An entry says what a server must know to read it, unless the first log
// version is enough. One that says more than this build knows is refused,
// though it knows each number.
func TestEntriesSayWhatTheyNeed(t *testing.T) {
	cmds := state.AppendCommand(nil, &state.BeginTerm{Term: 3})
	for logVersion, version := range map[int]byte{1: 2, 2: 3, 3: 3} {
		b := codec.EncodeEntryOn(77, logVersion, cmds)
		base, ok := codec.EntryBase(b)
		if got, err := state.DecodeEntry(b); err != nil || len(got) != 1 || b[0] != version || base != 77 || !ok {
			t.Errorf("log version %d: %v of version %d on %d, %v", logVersion, got, b[0], base, err)
		}
	}
	_, err := state.DecodeEntry(codec.EncodeEntryOn(77, codec.LogVersion+1, cmds))
	if want := fmt.Sprintf("log entry: log version %d, written by a newer build; this build reads 1 to %d", codec.LogVersion+1, codec.LogVersion); err == nil || err.Error() != want {
		t.Errorf("%v\nwanted: %s", err, want)
	}
	for _, b := range [][]byte{{3, 0, 1}, {3, 0, 1, 0}, {3, 0, 1, 0xff}} {
		if _, err := state.DecodeEntry(b); err == nil {
			t.Errorf("%v is taken for an entry", b)
		}
	}
}

// To ask for a log version costs the commands of which there are most nothing.
func BenchmarkNeeds(b *testing.B) {
	for _, c := range []state.Command{&state.ApplyPlan{}, &state.ReportAllocs{}, &state.RegisterJob{Job: &berth.Job{}}} {
		b.Run(fmt.Sprintf("%T", c), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				state.Needs(c)
			}
		})
	}
}
