package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"berth"
	"berth/op"
	"berth/state"
	"berth/state/statetest"
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
