package claims_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/invariant"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"
)

// history is a random history of a volume for one writer: allocations come and go,
// nodes are lost and come back, leaders are killed, calls fail before or after they
// have done something, and an operator gives claims up.
type history struct {
	*world
	r     *rand.Rand
	nodes int
	last  berth.AllocID // the allocation of the job's one instance that was placed last
	did   []string      // for messages
	fails float64       // the share of calls that fail, in each way
	luck  *rand.Rand    // of calls, under the provider's lock
}

// call is the provider's, and fails in either way.
func (h *history) call(ctx context.Context, node berth.NodeID, in *op.AgentCSI) (*op.CSIDone, error) {
	h.p.mu.Lock()
	before, after := h.luck.Float64() < h.fails, h.luck.Float64() < h.fails
	wait := time.Duration(h.luck.IntN(3000)) * time.Millisecond
	h.p.mu.Unlock()
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if n := h.store.Snapshot().Node(node); before || n == nil || n.Status != berth.NodeReady {
		return nil, berth.Errorf(berth.Unavailable, "it was killed before")
	}
	done, err := h.p.call(ctx, node, in)
	if after {
		return nil, berth.Errorf(berth.Unavailable, "it was killed after")
	}
	return done, err
}

// propose does what an operator, a node or the scheduler may do; that it is refused
// is no failure.
func (h *history) propose(what string, cmd state.Command) {
	_, err := h.log.Propose(context.Background(), cmd)
	if berth.KindOf(err) == "" && err != nil {
		h.t.Fatal(err)
	}
	h.did = append(h.did, fmt.Sprintf("%s: %v", what, err))
}

// live reports whether the last allocation has not ended.
func (h *history) live() bool {
	a := h.store.Snapshot().Alloc(h.last)
	return a != nil && !a.Ended()
}

// place replaces the last allocation on a node. One that has not ended is stopped,
// or lost with its node.
func (h *history) place(n int) {
	plan := &state.ApplyPlan{Eval: statetest.ID[berth.Eval](1), Now: time.Now().UnixNano()}
	if h.live() {
		status := berth.ClientStatus(0)
		if on := h.store.Snapshot().Node(h.store.Snapshot().Alloc(h.last).NodeID); on.Status == berth.NodeDown {
			status = berth.ClientLost
		}
		plan.Stop = []berth.AllocStop{{ID: h.last, Client: status}}
	}
	plan.Place = []berth.Placement{{NodeID: statetest.ID[berth.Node](n), Previous: h.last}}
	h.propose(fmt.Sprint("place on ", n), plan)
	for c := range h.store.Snapshot().CSIClaims() {
		if a := h.store.Snapshot().Alloc(c.AllocID); a != nil && a.CreateIndex == h.store.Snapshot().Index {
			h.last = a.ID
		}
	}
}

// ends ends the allocations that have a claim: all, or only those that were
// replaced.
func (h *history) ends(all bool) {
	for c := range h.store.Snapshot().CSIClaims() {
		if all || c.AllocID != h.last {
			h.propose("ends", &state.ReportAllocs{Node: c.NodeID, Updates: []state.AllocUpdate{{ID: c.AllocID, Client: berth.ClientComplete}}, Now: time.Now().UnixNano()})
		}
	}
}

// step is one random event.
func (h *history) step() {
	n := 1 + h.r.IntN(h.nodes)
	id, now := statetest.ID[berth.Node](n), time.Now().UnixNano()
	switch h.r.IntN(9) {
	case 0, 1:
		h.place(n)
	case 2:
		h.ends(h.r.IntN(2) == 0)
	case 3:
		h.propose(fmt.Sprint("lost ", n), &state.SetNodeStatus{ID: id, Status: berth.NodeDown, Now: now})
	case 4, 5:
		h.propose(fmt.Sprint("back ", n), &state.SetNodeStatus{ID: id, Status: berth.NodeReady, Now: now})
	case 6:
		h.leads()
		h.did = append(h.did, "next leader")
	case 7:
		h.propose(fmt.Sprint("give up ", n), &state.DetachCSIVolume{Namespace: "default", ID: "data", NodeID: id})
	}
	time.Sleep(time.Duration(h.r.IntN(20000)) * time.Millisecond)
}

// check checks what holds at every moment.
func (h *history) check() {
	h.t.Helper()
	h.p.mu.Lock()
	defer h.p.mu.Unlock()
	snap, published := h.store.Snapshot(), 0
	for c := range snap.CSIClaims() {
		if c.State != state.ClaimPublished {
			continue
		}
		if published++; h.p.on != c.ExternalNodeID {
			h.t.Fatalf("the claim of node %s is published and %q has the volume, after %q", c.ExternalNodeID, h.p.on, h.did)
		}
		if x := snap.ClaimWaitsFor(c); x != nil {
			h.t.Fatalf("published beside %+v, after %q", x, h.did)
		}
	}
	if bad := invariant.Check(snap); published > 1 || len(bad) > 0 {
		h.t.Fatalf("%d claims are published, %v, after %q", published, bad, h.did)
	}
}

// Whatever happens, never do two nodes have the volume, and in the end it is free.
func TestAnyHistoryOfAVolumeForOneWriter(t *testing.T) {
	for seed := range uint64(150) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.log.Must(t, node(3))
			h := &history{world: w, r: rand.New(rand.NewPCG(seed, 17)), luck: rand.New(rand.NewPCG(seed, 18)), nodes: 3, last: w.first(), fails: 0.3}
			w.calls = h.call
			h.leads()
			for range 60 {
				h.step()
				h.check()
			}
			h.p.mu.Lock()
			h.fails = 0
			h.p.mu.Unlock()
			for n := range h.nodes {
				h.propose("back", &state.SetNodeStatus{ID: statetest.ID[berth.Node](n + 1), Status: berth.NodeReady, Now: time.Now().UnixNano()})
			}
			h.ends(true)
			time.Sleep(10 * time.Minute)
			h.check()
			if left := h.states(); len(left) > 0 || h.p.on != "" {
				t.Errorf("seed %d: claims %q are left and %q has the volume, after %q", seed, left, h.p.on, h.did)
			}
			h.end()
		})
	}
}
