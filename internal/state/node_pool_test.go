package state_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"berth"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

func upsert(names ...string) *state.UpsertNodePools {
	c := &state.UpsertNodePools{}
	for _, n := range names {
		c.Pools = append(c.Pools, &berth.NodePool{Name: n})
	}
	return c
}

func inPool(pool string) func(*berth.Node) { return func(n *berth.Node) { n.NodePool = pool } }

func poolNames(s *state.Snapshot) (out []string) {
	for p := range s.NodePools() {
		out = append(out, p.Name)
	}
	return out
}

// refusedAs applies a command that must be refused, and must change nothing.
func refusedAs(t *testing.T, log *statetest.Log, c state.Command, kind berth.Kind, text string) {
	t.Helper()
	before := log.Tip().Hash()
	_, err := log.Propose(t.Context(), c)
	if berth.KindOf(err) != kind || !strings.Contains(err.Error(), text) {
		t.Errorf("%T: %v; wanted is %s, %q", c, err, kind, text)
	}
	if log.Tip().Hash() != before {
		t.Errorf("%T was refused and changed the state", c)
	}
}

// Pools are made, changed, and deleted when nothing uses them; two are always
// there.
func TestNodePools(t *testing.T) {
	store, log := statetest.New(t)
	if got := poolNames(store.Snapshot()); !slices.Equal(got, []string{"all", "default"}) || store.Snapshot().LastChange(state.NodePools) != 1 {
		t.Fatalf("an empty state has the pools %v", got)
	}
	log.Must(t, upsert("prod", "dev"))
	made := store.Snapshot().NodePool("dev")
	changed := upsert("dev")
	changed.Pools[0].Description = "For trying things."
	log.Must(t, changed)
	dev, snap := store.Snapshot().NodePool("dev"), store.Snapshot()
	if dev.CreateIndex != made.CreateIndex || dev.ModifyIndex != snap.Index || made.ModifyIndex == dev.ModifyIndex || made.Description != "" ||
		dev.Description != "For trying things." || snap.LastChange(state.NodePools) != snap.Index || changed.Pools[0].ModifyIndex != 0 {
		t.Errorf("%+v, before %+v", dev, made)
	}
	if got := poolNames(snap); !slices.Equal(got, []string{"all", "default", "dev", "prod"}) || snap.Count(state.NodePools) != 4 {
		t.Errorf("there are %v", got)
	}

	// All or nothing.
	refusedAs(t, log, upsert("new", "no name"), berth.Invalid, `"no name" is not a valid name`)
	refusedAs(t, log, upsert("default"), berth.Invalid, "built in")
	refusedAs(t, log, upsert(), berth.Invalid, "must name 1 to 1000, got 0")
	refusedAs(t, log, &state.UpsertNodePools{Pools: make([]*berth.NodePool, 2)}, berth.Invalid, "one of them is empty")
	refusedAs(t, log, &state.DeleteNodePools{Names: []string{"dev", "all"}}, berth.Invalid, "built in")
	refusedAs(t, log, &state.DeleteNodePools{Names: []string{"dev", "gone"}}, berth.NotFound, `"gone" not found`)
	refusedAs(t, log, &state.DeleteNodePools{}, berth.Invalid, "must name 1 to 1000, got 0")

	log.Must(t, &state.DeleteNodePools{Names: []string{"dev", "prod", "dev"}})
	if got := poolNames(store.Snapshot()); len(got) != 2 {
		t.Errorf("left are %v", got)
	}
}

// A node brings its pool along; a job must find its own there. What uses a
// pool keeps it.
func TestWhoUsesAPool(t *testing.T) {
	train := func() *berth.Job {
		return statetest.Job(t, `{"ID":"train","Type":"batch","NodePool":"gpu","TaskGroups":[{"Name":"g","Count":1}]}`)
	}
	store, log := statetest.New(t)
	refusedAs(t, log, statetest.Register(train(), 1), berth.Invalid, `job.node_pool: node pool "gpu" not found`)
	refusedAs(t, log, statetest.AddNode(1, 4000, 4000, inPool("all")), berth.Invalid, `"all" has the nodes of every pool`)
	refusedAs(t, log, statetest.AddNode(1, 4000, 4000, inPool("a/b")), berth.Invalid, `"a/b" is not a valid name`)

	log.Must(t, statetest.AddNode(1, 4000, 4000, inPool("gpu")), statetest.AddNode(2, 4000, 4000, inPool("")))
	snap := store.Snapshot()
	gpu, n1 := snap.NodePool("gpu"), snap.Node(statetest.ID[berth.Node](1))
	if gpu == nil || gpu.CreateIndex != n1.CreateIndex || gpu.ModifyIndex != n1.ModifyIndex {
		t.Fatalf("the node's pool is %+v", gpu)
	}
	if n2 := snap.Node(statetest.ID[berth.Node](2)); n2.NodePool != "default" {
		t.Errorf("a node that names no pool is in %q", n2.NodePool)
	}
	log.Must(t, statetest.Register(train(), 1))
	refusedAs(t, log, &state.DeleteNodePools{Names: []string{"gpu"}}, berth.Invalid,
		`node pool "gpu" cannot be deleted: it has 1 node (n1) and 1 unfinished job (train)`)

	// The node moves, and the job ends.
	log.Must(t, statetest.AddNode(1, 4000, 4000, inPool("default")))
	refusedAs(t, log, &state.DeleteNodePools{Names: []string{"gpu"}}, berth.Invalid, "it has 1 unfinished job (train)")
	log.Must(t, &state.StopJob{Key: train().Key(), Now: 2, Eval: state.EvalSeed{ID: statetest.ID[berth.Eval](2), TriggeredBy: berth.TriggerJobDeregister}})
	log.Must(t, &state.DeleteNodePools{Names: []string{"gpu"}})
	refusedAs(t, log, statetest.Register(train(), 3), berth.Invalid, "job.node_pool: node pool")

	many := []state.Command{upsert("big")}
	for i := 10; i < 17; i++ {
		many = append(many, statetest.AddNode(i, 4000, 4000, inPool("big")))
	}
	log.Must(t, many...)
	refusedAs(t, log, &state.DeleteNodePools{Names: []string{"big"}}, berth.Invalid, "it has 7 nodes (n10, n11, n12, n13, n14, …)")
}

// What a pool says of scheduling goes before what the cluster says; all else
// is the cluster's.
func TestSchedulingOfAPool(t *testing.T) {
	yes, no := true, false
	store, log := statetest.New(t)
	with := func(name string, c *berth.PoolSchedulerConfig) {
		log.Must(t, &state.UpsertNodePools{Pools: []*berth.NodePool{{Name: name, SchedulerConfiguration: c}}})
	}
	with("plain", nil)
	with("empty", &berth.PoolSchedulerConfig{})
	with("spread", &berth.PoolSchedulerConfig{SchedulerAlgorithm: berth.AlgorithmSpread})
	with("over", &berth.PoolSchedulerConfig{MemoryOversubscriptionEnabled: &yes})
	with("under", &berth.PoolSchedulerConfig{SchedulerAlgorithm: berth.AlgorithmBinpack, MemoryOversubscriptionEnabled: &no})
	look := func() (out string) {
		for _, name := range []string{"plain", "empty", "spread", "over", "under", "all", "nowhere"} {
			c := store.Snapshot().SchedulerConfigFor(name)
			out += fmt.Sprintln(name, c.SchedulerAlgorithm, c.MemoryOversubscriptionEnabled, c.MaxStartsPerNode, c.PreemptionConfig.SystemSchedulerEnabled)
		}
		return out
	}
	want := "plain binpack false 0 true\nempty binpack false 0 true\nspread spread false 0 true\nover binpack true 0 true\n" +
		"under binpack false 0 true\nall binpack false 0 true\nnowhere binpack false 0 true\n"
	if got := look(); got != want {
		t.Errorf("by default it is\n%s", got)
	}
	log.Must(t, &state.SetSchedulerConfig{Config: berth.SchedulerConfig{
		SchedulerAlgorithm: berth.AlgorithmBalanced, MemoryOversubscriptionEnabled: true, MaxStartsPerNode: 5,
	}})
	want = "plain balanced true 5 false\nempty balanced true 5 false\nspread spread true 5 false\nover balanced true 5 false\n" +
		"under binpack false 5 false\nall balanced true 5 false\nnowhere balanced true 5 false\n"
	if got := look(); got != want {
		t.Errorf("with the cluster's it is\n%s", got)
	}
	if *store.Snapshot().SchedulerConfig() != store.Snapshot().SchedulerConfigFor("plain") {
		t.Error("what a pool does not say is not the cluster's")
	}
}

// A pool is woken for by name, and its table by any.
func TestNodePoolsAreWatched(t *testing.T) {
	store, log := statetest.New(t, upsert("dev", "prod"))
	one, table := store.Watch(state.OnNodePool("dev")), store.Watch(state.OnTable(state.NodePools))
	defer one.Stop()
	defer table.Stop()
	woken := func(w *state.Watch) bool {
		select {
		case <-w.C():
			return true
		default:
			return false
		}
	}
	log.Must(t, upsert("prod"))
	if woken(one) || !woken(table) {
		t.Error("another pool changed")
	}
	log.Must(t, &state.DeleteNodePools{Names: []string{"dev"}})
	if !woken(one) || !woken(table) {
		t.Error("the pool was deleted")
	}
}

// Pools are saved and loaded. A snapshot of the version before them has those
// that are built in and those that its nodes and jobs name.
func TestPoolsInSnapshots(t *testing.T) {
	over := true
	dev := upsert("dev", "gpu")
	dev.Pools[0].Meta = map[string]string{"env": "dev"}
	dev.Pools[0].SchedulerConfiguration = &berth.PoolSchedulerConfig{SchedulerAlgorithm: berth.AlgorithmSpread, MemoryOversubscriptionEnabled: &over}
	store, _ := statetest.New(t, dev, statetest.AddNode(1, 4000, 4000, inPool("prod")),
		statetest.Register(statetest.Job(t, `{"ID":"train","NodePool":"gpu","TaskGroups":[{"Name":"g","Count":1}]}`), 1))
	snap := store.Snapshot()
	saved, recs := records(t, snap)
	again, err := state.Load(bytes.NewReader(saved))
	if err != nil {
		t.Fatal(err)
	}
	if again.Hash() != snap.Hash() || again.LastChange(state.NodePools) != snap.LastChange(state.NodePools) {
		t.Errorf("loaded it is another state\n%s", diff(again, snap))
	}

	old, err := state.Load(bytes.NewReader(before(t, recs, 1, 19, 15)))
	if err != nil {
		t.Fatal(err)
	}
	if got := poolNames(old); !slices.Equal(got, []string{"all", "default", "gpu", "prod"}) {
		t.Errorf("an old snapshot has the pools %v", got)
	}
	var resaved bytes.Buffer
	if err := old.Save(&resaved); err != nil {
		t.Fatal(err)
	}
	if third, err := state.Load(&resaved); err != nil || third.Hash() != old.Hash() {
		t.Errorf("what an old snapshot became is not the same when it is saved and loaded: %v", err)
	}
}

// before makes records what they were in an older version: with that many tables
// less in the head, and without the kinds of record that there were not.
func before(t *testing.T, recs []byte, version, tables int, kinds ...byte) []byte {
	var out []byte
	for rest := recs; len(rest) > 0; {
		kind := rest[0]
		size, n := binary.Uvarint(rest[1:])
		body := rest[1+n : 1+n+int(size)]
		rest = rest[1+n+int(size):]
		switch {
		case kind == 1:
			for range tables {
				end := len(body) - 1
				for body[end-1]&0x80 != 0 {
					end--
				}
				body = body[:end]
			}
		case slices.Contains(kinds, kind):
			continue
		}
		out = append(append(out, kind), binary.AppendUvarint(nil, uint64(len(body)))...)
		out = append(out, body...)
	}
	sum := binary.AppendUvarint(nil, uint64(crc32.Checksum(out, crc32.MakeTable(crc32.Castagnoli))))
	out = append(append(out, 13, byte(len(sum))), sum...)
	return zip.EncodeAll(out, fmt.Appendf(nil, "berth snapshot %d\n", version))
}

// A node takes no more work, and takes it again, which raises evaluations for
// the jobs that it concerns.
func TestEligibilityOfNodes(t *testing.T) {
	store, log, _ := placed(t)
	n1 := statetest.ID[berth.Node](1)
	set := func(to string) *state.SetNodeEligibility {
		return &state.SetNodeEligibility{ID: n1, Eligibility: to, Seed: [16]byte{7}, Now: 5e9}
	}
	before := store.Snapshot()
	off := set(berth.NodeIneligible)
	log.Must(t, off)
	n := store.Snapshot().Node(n1)
	if n.Ready() || n.Status != berth.NodeReady || n.ModifyIndex != store.Snapshot().Index || len(off.Evals) > 0 {
		t.Errorf("%+v, and evaluations %v", n, off.Evals)
	}
	if e := n.Events[len(n.Events)-1]; e.Message != "Node marked as ineligible for scheduling" || e.CreateIndex != n.ModifyIndex {
		t.Errorf("its last event is %+v", e)
	}
	for a := range before.AllocsOn(n1) {
		if now := store.Snapshot().Alloc(a.ID); now != a {
			t.Errorf("allocation %s changed", a.ID)
		}
	}

	// What is so already stays so.
	log.Must(t, set(berth.NodeIneligible))
	if store.Snapshot().Node(n1) != n {
		t.Error("the node changed")
	}
	// Nor does registering again make it take work.
	log.Must(t, statetest.AddNode(1, 4000, 4000))
	if store.Snapshot().Node(n1).SchedulingEligibility != berth.NodeIneligible {
		t.Error("a node that registers again takes work")
	}
	on := set(berth.NodeEligible)
	log.Must(t, on)
	if n := store.Snapshot().Node(n1); !n.Ready() || len(on.Evals) != 1 {
		t.Fatalf("%+v, and evaluations %v", n, on.Evals)
	}
	e := store.Snapshot().Eval(on.Evals[0])
	if e.TriggeredBy != berth.TriggerNodeUpdate || e.NodeID != n1 || e.JobID != "sum" || e.NodeModifyIndex != e.CreateIndex {
		t.Errorf("it raised %+v", e)
	}
	refusedAs(t, log, set("maybe"), berth.Invalid, `unknown eligibility "maybe": want eligible or ineligible`)
	refusedAs(t, log, &state.SetNodeEligibility{ID: berth.NodeID{9}, Eligibility: berth.NodeEligible}, berth.NotFound, "node not found")
}
