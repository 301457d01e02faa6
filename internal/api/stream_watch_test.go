package api

import (
	"encoding/json"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"berth"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"
)

// asked is what a caller has of a read, and waits with.
type asked struct {
	text  string
	index uint64
	watch *state.Watch
}

// question is a read of streams.
type question func(*Read) (any, error)

func questionOf[In, Out any](f func(*Read, *In) (Out, error), in *In) question {
	return func(r *Read) (any, error) { return f(r, in) }
}

// aboutJobs are the reads that name a stream job, or none.
func aboutJobs() map[string]question {
	out := map[string]question{}
	for _, job := range []string{"flow0", "flow1"} {
		out["job "+job] = questionOf(readJob, &op.JobRef{JobID: job})
		out["standing of "+job] = questionOf(readStreamJob, &op.StreamJobRef{JobID: job})
		out["tree of "+job] = questionOf(readTree, &op.StreamJobRef{JobID: job})
		out["region of "+job] = questionOf(readRegion, &op.RegionRef{JobID: job, Region: "r"})
		out["elements of "+job] = questionOf(listPEs, &op.PEsQuery{Job: job})
		out["exports of "+job] = questionOf(listExports, &op.PEsQuery{Job: job})
		out["imports of "+job] = questionOf(listImports, &op.PEsQuery{Job: job})
		out["routes of "+job] = questionOf(listRoutes, &op.RoutesQuery{Job: job})
		out["resources of "+job] = questionOf(listResources, &op.ResourcesQuery{Job: job})
		for _, pe := range []string{".src[0]", ".work[1]"} {
			out["element "+job+pe] = questionOf(readPE, &op.PEQuery{PE: job + pe})
			out["file of "+job+pe] = questionOf(readConnectivity, &op.PEQuery{PE: job + pe})
		}
	}
	out["elements"] = questionOf(listPEs, &op.PEsQuery{})
	out["routes"] = questionOf(listRoutes, &op.RoutesQuery{})
	out["orphans"] = questionOf(listResources, &op.ResourcesQuery{Orphaned: true})
	return out
}

// aboutUIDs adds the reads that name what is there now by its UID; they are
// asked on when it is gone.
func aboutUIDs(all map[string]question, s *state.Snapshot) {
	for row := range s.StreamJobs() {
		uid := row.UID.Text('j')
		all["what "+uid+" owns"] = questionOf(listResources, &op.ResourcesQuery{Owner: uid, Recursive: true})
	}
	for o := range s.Resources() {
		if uid := textOf(o); o.Kind == berth.KindPE {
			all["element "+uid] = questionOf(readPE, &op.PEQuery{PE: uid})
			all["file of "+uid] = questionOf(readConnectivity, &op.PEQuery{PE: uid})
			all["what "+uid+" owns"] = questionOf(listResources, &op.ResourcesQuery{Owner: uid})
		}
	}
}

// Whoever waits for another answer about streams gets it: what changes an answer
// raises its index, which never falls, and wakes who waits with what was to be
// watched. It is checked of every read, over whatever can happen.
func TestReadsOfStreamsAreWatched(t *testing.T) {
	most := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		store, log := statetest.New(t, statetest.AddNode(1, 4000, 4000), statetest.AddNode(2, 4000, 4000), statetest.AddNode(3, 4000, 4000))
		server := New(Config{Store: store, Region: "global"})
		var draw statetest.Random
		have, all := map[string]*asked{}, aboutJobs()
		defer func() {
			for _, x := range have {
				x.watch.Stop()
			}
		}()
		for range rapid.IntRange(30, 90).Draw(rt, "commands") {
			c := drawn(rt, &draw, store.Snapshot())
			_, _ = log.Propose(rt.Context(), c) // what is refused changes nothing
			s := store.Snapshot()
			aboutUIDs(all, s)
			for name, f := range all {
				r := server.newRead(Caller{}, &op.Query{Namespace: berth.DefaultNamespace})
				r.Snapshot = s
				v, err := f(r)
				x := have[name]
				if x == nil && err != nil {
					continue // nobody waits for what is refused
				}
				text := fmt.Sprint(err)
				if err == nil {
					b, _ := json.Marshal(v)
					text = string(b)
				}
				if x != nil {
					woken := false
					select {
					case <-x.watch.C():
						woken = true
					default:
					}
					switch {
					case text != x.text && !woken:
						rt.Fatalf("%s: %T changed the answer, and woke nobody:\n%s\n%s", name, c, x.text, text)
					case text != x.text && err == nil && r.index <= x.index:
						rt.Fatalf("%s: %T changed the answer, and its index is %d after %d:\n%s\n%s", name, c, r.index, x.index, x.text, text)
					case err == nil && r.index < x.index:
						rt.Fatalf("%s: %T turned its index from %d to %d", name, c, x.index, r.index)
					case text == x.text && r.index == x.index && !woken:
						continue
					}
					x.watch.Stop()
					delete(have, name)
				}
				if err == nil {
					have[name] = &asked{text, r.index, store.Watch(r.keys...)}
					most[name[:4]]++
				}
			}
		}
	})
	for _, what := range []string{"job ", "stan", "tree", "regi", "elem", "file", "rout", "what"} {
		if most[what] == 0 {
			t.Errorf("no answer to %q was ever had: %v", what, most)
		}
	}
}
