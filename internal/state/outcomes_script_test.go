package state_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/invariant"
	"berth/internal/state"
	"berth/internal/state/codec"
	"berth/internal/state/statetest"
)

// Random commands come to few kinds. The other kinds are in a recording that is
// written by hand: a small cluster whose operators use access control, variables,
// volumes and the rest. It also has commands that are refused, because a command
// that was refused once must not be accepted by a later build, nor the reverse.
//
// It begins one log version below the one that it is named after, and raises that.
// Commands for what a later log version brings belong to a recording of their own:
// other commands here would be other outcomes.
var written = recording{"logversion9more", scriptStart, 1, func(t *testing.T) [][]byte { return newScript(t).cmds }}

// scriptStart is the log version that the script begins with.
const scriptStart = 8

// script applies commands one after another, and keeps them.
type script struct {
	*testing.T
	s    *state.Snapshot
	cmds [][]byte
	said []string // what came of each, without the sum of the state
}

// newScript returns the script with all its commands.
func newScript(t *testing.T) *script {
	start := *state.New().Snapshot()
	start.LogVersion = scriptStart
	r := &script{T: t, s: &start}
	r.begin()
	r.secrets()
	r.access()
	r.login()
	r.introduction()
	r.hostVolumes()
	r.csiVolumes()
	r.deployment()
	r.drain()
	r.streams()
	r.namespaces()
	return r
}

// try applies a command to the state. A refused one must leave it as it was.
func (r *script) try(c state.Command) error {
	r.Helper()
	tx := state.Begin(r.s)
	err := tx.Apply(c).Err
	after := tx.End().Snapshot
	r.cmds = append(r.cmds, state.AppendCommand(nil, c)) // a plan says only now what it uses
	if err != nil {
		r.said = append(r.said, state.CommandName(c)+" refused "+string(berth.KindOf(err)))
		if after.Hash() != r.s.Hash() {
			r.Errorf("command %d, %T, was refused and changed the state", len(r.cmds), c)
		}
		return err
	}
	r.said = append(r.said, state.CommandName(c)+" applied")
	for _, v := range invariant.Check(after) {
		r.Errorf("command %d, %T: %s", len(r.cmds), c, v)
	}
	r.s = after
	return nil
}

// does applies commands that are accepted.
func (r *script) does(cmds ...state.Command) {
	r.Helper()
	for _, c := range cmds {
		if err := r.try(c); err != nil {
			r.Fatalf("command %d, %T: %v", len(r.cmds), c, err)
		}
		if p, ok := c.(*state.ApplyPlan); ok && len(p.Refused) > 0 {
			r.Fatalf("command %d: %s", len(r.cmds), p.Refused[0].Reason)
		}
	}
}

// refuses applies commands that are refused.
func (r *script) refuses(kind berth.Kind, cmds ...state.Command) {
	r.Helper()
	for _, c := range cmds {
		if err := r.try(c); err == nil || berth.KindOf(err) != kind {
			r.Fatalf("command %d, %T: %v; want a refusal of kind %s", len(r.cmds), c, err, kind)
		}
	}
}

// deposed returns a command as the leader of an earlier term would have sent it.
func deposed[C interface {
	state.Command
	Stamp(term uint64)
}](c C) state.Command {
	c.Stamp(1)
	return c
}

// at is the time a number of minutes after the cluster began.
func at(minutes int) int64 { return 1_700_000_000e9 + int64(minutes)*int64(time.Minute) }

// begin begins a term and a log version, and compares the servers' states.
func (r *script) begin() {
	r.does(&state.BeginTerm{Term: 2, Cluster: state.ClusterID{1}})
	r.refuses(berth.Invalid, &state.RaiseLogVersion{To: 0})
	r.refuses(berth.Conflict, deposed(&state.RaiseLogVersion{To: 9}))
	r.does(&state.RaiseLogVersion{To: 9}, &state.RaiseLogVersion{To: 3}) // the second changes nothing
	r.refuses(berth.Conflict, deposed(&state.CheckHash{}))
	r.does(&state.CheckHash{}, &state.CheckHash{Of: r.s.Index, Hash: 0x5eed})
	// Jobs and volumes are placed on these.
	for n := 1; n <= 5; n++ {
		r.does(statetest.AddNode(n, 4000, 4000))
	}
	r.does(&state.AddNodeEvents{ID: node(1), Events: []berth.NodeEvent{
		{Message: "Node heartbeat missed", Subsystem: berth.NodeEventHeartbeat, Timestamp: time.Unix(0, at(1)).UTC()},
		{Message: "Driver is unhealthy", Subsystem: berth.NodeEventDriver, Details: map[string]string{"driver": "raw_exec"}},
	}})
	for range berth.NodeEventsKept { // more than a node remembers
		r.does(&state.AddNodeEvents{ID: node(2), Events: []berth.NodeEvent{{Message: "Node heartbeat missed", Subsystem: berth.NodeEventHeartbeat}}})
	}
	r.refuses(berth.NotFound, &state.AddNodeEvents{ID: node(99), Events: []berth.NodeEvent{{Message: "nobody"}}})
}

// The script's commands still are what was recorded, and each is accepted or
// refused as it was.
func TestOutcomesOfTheScript(t *testing.T) {
	if *recordOutcomes {
		t.Skip("the recording may not be there yet")
	}
	r := newScript(t)
	text, err := os.ReadFile(written.path() + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for i := range min(len(lines), len(r.said)) {
		if !strings.HasPrefix(lines[i], r.said[i]) {
			t.Fatalf("command %d of the script: %q, but recorded is %q. Commands that a script gains belong to a new recording.", i+1, r.said[i], lines[i])
		}
	}
	if len(lines) != len(r.said) {
		t.Errorf("the script has %d commands, the recording %d", len(r.said), len(lines))
	}
}

// Each kind of command has a recorded outcome, so that no change of its meaning
// goes unnoticed. Those that the newest log version brought may still change.
func TestEveryCommandHasARecordedOutcome(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("testdata", "outcomes", "*.log.gz"))
	if err != nil {
		t.Fatal(err)
	}
	seen, byHand := map[state.Number]bool{}, map[string]bool{}
	for _, path := range paths {
		for i, text := range recorded(t, path) {
			list, err := state.DecodeEntry(codec.EncodeEntry(text))
			if err != nil || len(list) != 1 {
				t.Fatalf("%s: command %d: %v", path, i+1, err)
			}
			seen[state.NumberOf(list[0])] = true
			if path == written.path()+".log.gz" {
				byHand[state.CommandName(list[0])] = true
			}
		}
	}
	for n := range state.LastNumber() + 1 {
		if c := state.NewCommand(n); c != nil && !seen[n] && state.Needs(c) < codec.LogVersion {
			t.Errorf("%s is in no recording of testdata/outcomes: add it to a script", state.CommandName(c))
		}
	}
	text, err := os.ReadFile(written.path() + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	accepted := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if name, said, _ := strings.Cut(line, " "); strings.HasPrefix(said, "applied") {
			accepted[name] = true
		}
	}
	for name := range byHand {
		if !accepted[name] {
			t.Errorf("%s is never accepted in %s.txt", name, written.path())
		}
	}
}
