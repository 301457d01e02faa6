package api

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"berth"
	"berth/internal/admit"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"
)

// drawn draws what happens to two stream jobs that import from each other, and
// to nodes.
func drawn(t *rapid.T, draw *statetest.Random, s *state.Snapshot) state.Command {
	c := draw.Streams(t, s)
	if r, ok := c.(*state.RegisterJob); ok && r.Job.Stream != nil {
		i := &r.Job.Stream.Imports[0]
		i.StreamID, i.Subscription = "", `kind == "raw"`
		if r.Job.ID == "flow1" {
			i.Subscription += " && priority >= 1"
		}
		if rapid.IntRange(0, 2).Draw(t, "alone") == 0 {
			r.Job.Stream.Exports, r.Job.Stream.Imports = nil, nil
		}
		r.Submission = nil
	}
	if rapid.IntRange(0, 29).Draw(t, "another type") == 0 { // under one of the names: refused while that is a stream job's
		k := berth.JobKey{Namespace: berth.DefaultNamespace, ID: berth.JobID(rapid.SampledFrom([]string{"flow0", "flow1"}).Draw(t, "plain"))}
		if j := s.Job(k); j != nil && j.Type != berth.TypeStream {
			return &state.StopJob{Key: k, Purge: true, Now: 1}
		}
		j, err := admit.ParseJob([]byte(`{"ID": "` + string(k.ID) + `", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "mock_driver"}]}]}`))
		if err != nil {
			t.Fatal(err)
		}
		return &state.RegisterJob{Job: j, Now: 1}
	}
	if rapid.IntRange(0, 19).Draw(t, "another node") == 0 {
		return statetest.AddNode(rapid.IntRange(1, 5).Draw(t, "node"), 4000, 4000, func(n *berth.Node) {
			n.NodeResources.Networks = []berth.NetworkResource{{Device: "eth0", IP: fmt.Sprint("10.0.0.", rapid.IntRange(1, 3).Draw(t, "address"))}}
		})
	}
	return c
}

// told is what an agent has of an allocation.
type told struct {
	node  berth.NodeID
	text  string
	watch *state.Watch
}

// Who waits for what the answer is said to follow from misses nothing: as long
// as none of that changes, the answer is the same. It is checked over whatever
// can happen to jobs that import from each other.
func TestConnectionsAreWatched(t *testing.T) {
	most := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		store, log := statetest.New(t, statetest.AddNode(1, 4000, 4000), statetest.AddNode(2, 4000, 4000), statetest.AddNode(3, 4000, 4000))
		var draw statetest.Random
		have := map[berth.AllocID]*told{}
		defer func() {
			for _, x := range have {
				x.watch.Stop()
			}
		}()
		for range rapid.IntRange(40, 120).Draw(rt, "commands") {
			c := drawn(rt, &draw, store.Snapshot())
			_, _ = log.Propose(rt.Context(), c) // what is refused changes nothing
			s := store.Snapshot()
			for id, x := range have {
				woken := false
				select {
				case <-x.watch.C():
					woken = true
				default:
				}
				now, _, err := tellOf(s, x.node, id)
				if err == nil && !woken && now != x.text {
					rt.Fatalf("%T changed what %s is told, and did not wake it:\n%s\n%s", c, id, x.text, now)
				}
				if err != nil || woken {
					x.watch.Stop()
					delete(have, id)
				}
			}
			for a := range s.Allocs() {
				if a.Rest().PE == nil || have[a.ID] != nil {
					continue
				}
				text, keys, err := tellOf(s, a.NodeID, a.ID)
				if err != nil {
					continue
				}
				have[a.ID] = &told{a.NodeID, text, store.Watch(keys...)}
				most["allocations"]++
				for _, what := range []string{`"dynamic"`, `"10.0.0.`, `"LaunchCount":2`} {
					if strings.Contains(text, what) {
						most[what]++
					}
				}
			}
		}
	})
	for _, what := range []string{"allocations", `"dynamic"`, `"LaunchCount":2`} {
		if most[what] == 0 {
			t.Errorf("nothing of %s was ever drawn: %v", what, most)
		}
	}
}

func tellOf(s *state.Snapshot, node berth.NodeID, id berth.AllocID) (string, []state.WatchKey, error) {
	a, pe, err := launchOn(s, node, id)
	if err != nil {
		return "", nil, err
	}
	v := newConnections(s, pe, a)
	d, err := v.document()
	if err != nil {
		return "", nil, err
	}
	b, err := json.Marshal((*op.ConnectivityFile)(d))
	return string(b), v.keys, err
}

// submits plays the whole submission of a stream job of a text, command by
// command; after is called after each.
func submits(t *testing.T, log *statetest.Log, text string, change func(*berth.Job), after func()) berth.JobKey {
	t.Helper()
	j := statetest.Job(t, text)
	change(j)
	do := func(c state.Command) {
		t.Helper()
		if x, ok := c.(interface{ Stamp(uint64) }); ok {
			x.Stamp(log.Tip().Term)
		}
		log.Must(t, c)
		after()
	}
	do(&state.RegisterJob{Job: j, Now: 1})
	row := log.Tip().StreamOf(j.Key())
	plan, err := statetest.Planned(log.Tip(), row)
	if err != nil {
		t.Fatal(err)
	}
	do(&state.PlanSubmission{Key: row.Key, UID: row.UID, Plan: plan, Now: 2})
	for _, kind := range berth.StreamKinds {
		for list := range slices.Chunk(plan.Of(kind), state.MaxResources) {
			c := &state.EnsureResources{Key: row.Key, UID: row.UID, Kind: kind, Now: 3}
			for _, o := range list {
				c.Names = append(c.Names, o.Name)
			}
			do(c)
		}
	}
	for _, pe := range slices.Collect(log.Tip().ResourcesOf(row.UID, berth.KindPE)) {
		eval := statetest.ID[berth.Eval](int(log.Tip().Index) + 100_000)
		do(&state.LaunchPE{PE: pe.UID, Eval: state.EvalSeed{ID: eval}, Now: 4})
		group := slices.IndexFunc(j.TaskGroups, func(g *berth.TaskGroup) bool { return g.Name == pe.Object.PE.Group })
		place := &state.ApplyPlan{
			Eval: eval, Place: []berth.Placement{{Group: group, Index: pe.Object.PE.Index, NodeID: statetest.ID[berth.Node](1)}}, End: &state.EvalEnd{Status: berth.EvalComplete}, Now: 5,
		}
		place.Place[0].Ports = []uint16{uint16(20000 + log.Tip().Index)}
		if do(place); len(place.Refused) > 0 {
			t.Fatal(place.Refused)
		}
	}
	do(&state.CompleteSubmission{Key: row.Key, UID: row.UID, Now: 6})
	return row.Key
}

// Two hundred agents wait for other connections of processing elements that
// import. Jobs that neither export nor import wake none of them; one that does
// wakes them when its exports and imports are there, and no more often.
func TestWhoIsWokenByOtherJobs(t *testing.T) {
	store, log := statetest.New(t, statetest.AddNode(1, 1_000_000, 1_000_000), &state.BeginTerm{Term: 1})
	own := func(*berth.Job) {}
	nobody := func(j *berth.Job) { j.Stream.Exports, j.Stream.Imports = nil, nil }
	k := submits(t, log, statetest.StreamText("waits", 200, 1, ""), own, func() {})
	var all []*state.Watch
	for a := range log.Tip().AllocsOf(k) {
		if _, keys, err := tellOf(log.Tip(), a.NodeID, a.ID); err != nil {
			t.Fatal(err)
		} else {
			all = append(all, store.Watch(keys...))
		}
	}
	woken := 0
	count := func() {
		for _, w := range all {
			select {
			case <-w.C():
				woken++
			default:
			}
		}
	}
	for _, x := range []struct {
		job    string
		change func(*berth.Job)
		want   int // times
	}{{"plain", nobody, 0}, {"joined", own, 2}} {
		woken = 0
		before := log.Tip().Index
		submits(t, log, strings.ReplaceAll(statetest.StreamText(x.job, 3, 1, ""), `"raw"`, `"other"`), x.change, count)
		t.Logf("%d who wait were woken %d times by %d commands of job %s", len(all), woken, log.Tip().Index-before, x.job)
		if woken != x.want*len(all) {
			t.Errorf("job %s wakes %d times, want %d", x.job, woken, x.want*len(all))
		}
	}
	for _, w := range all {
		w.Stop()
	}
}
