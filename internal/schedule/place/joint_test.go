package place

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"berth"
	"berth/internal/state"
)

// wide is a pool whose algorithm lets instances of a batch job share a node, so
// that spread blocks alone decide.
var wide = &state.UpsertNodePools{Pools: []*berth.NodePool{{
	Name: "wide", SchedulerConfiguration: &berth.PoolSchedulerConfig{SchedulerAlgorithm: berth.AlgorithmBalanced},
}}}

// Two spread blocks come as near to their targets as any sharing out over the
// combinations of values could: all of them are tried.
func TestTwoBlocksMeetTheirTargetsTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := state.New()
		apply(t, s, wide)
		as, bs := rapid.IntRange(1, 3).Draw(t, "as"), rapid.IntRange(1, 3).Draw(t, "bs")
		var there [][2]int
		for a := range as {
			for b := range bs {
				if rapid.IntRange(0, 3).Draw(t, "exists") > 0 {
					there = append(there, [2]int{a, b})
				}
			}
		}
		for i, c := range there {
			apply(t, s, &state.RegisterNode{Now: 1, Node: &berth.Node{
				ID: berth.NodeID{byte(i), 1}, SecretID: "s", Name: fmt.Sprint("n", i), Status: berth.NodeReady, Datacenter: "dc1", NodePool: "wide",
				Meta:          map[string]string{"a": fmt.Sprint("a", c[0]), "b": fmt.Sprint("b", c[1])},
				NodeResources: &berth.NodeResources{Cpu: berth.NodeCpuResources{CpuShares: 1 << 30}, Memory: berth.NodeMemoryResources{MemoryMB: 1 << 30}},
				Drivers:       map[string]*berth.DriverInfo{"mock_driver": {Detected: true, Healthy: true}},
			}})
		}
		count := rapid.IntRange(1, 7).Draw(t, "count")
		percents := [2][]int{drawPercents(t, as), drawPercents(t, bs)}
		weights := [2]int{rapid.SampledFrom([]int{20, 50, 100}).Draw(t, "weight a"), rapid.SampledFrom([]int{50, 80}).Draw(t, "weight b")}
		job := jobWithSpreads(count, percents, weights)
		out := New(s.Snapshot(), job, nil, rapid.Uint64().Draw(t, "seed")).Group(0, make([]Instance, count))
		if len(there) == 0 {
			return
		}
		if out.Failed > 0 {
			t.Fatalf("%d without a place", out.Failed)
		}
		got := make([]int, len(there))
		for _, p := range out.Placed {
			got[p.NodeID[0]]++
		}
		worth := func(shared []int) (sum float64) {
			for block, n := range [2]int{as, bs} {
				sum += float64(weights[block]) * worthOf(block, n, count, percents[block], there, shared)
			}
			return sum
		}
		best, how := math.Inf(-1), []int(nil)
		ways(count, len(there), func(shared []int) {
			if w := worth(shared); w > best {
				best, how = w, slices.Clone(shared)
			}
		})
		if w := worth(got); w < best-1e-6 {
			t.Fatalf("combinations %v got %v, worth %.4f; %v is worth %.4f", there, got, w, how, best)
		}
	})
}

// drawPercents draws the targets of a block; none are equal parts.
func drawPercents(t *rapid.T, n int) []int {
	if rapid.Bool().Draw(t, "even") {
		return nil
	}
	out, left := make([]int, n), 10
	for i := range n - 1 {
		out[i] = rapid.IntRange(0, left).Draw(t, "part")
		left -= out[i]
	}
	out[n-1] = left
	for i := range out {
		out[i] *= 10
	}
	return out
}

// jobWithSpreads is a batch job whose group has a block for meta.a and one for
// meta.b.
func jobWithSpreads(count int, percents [2][]int, weights [2]int) *berth.Job {
	restart := &berth.RestartPolicy{}
	g := &berth.TaskGroup{
		Name: "g", Count: count, RestartPolicy: restart, EphemeralDisk: &berth.EphemeralDisk{},
		Tasks: []*berth.Task{{
			Name: "t", Driver: "mock_driver", RestartPolicy: restart, LogConfig: &berth.LogConfig{}, Resources: &berth.Resources{CPU: 1, MemoryMB: 1},
		}},
	}
	for b, name := range [2]string{"a", "b"} {
		x := berth.Spread{Attribute: "${meta." + name + "}", Weight: weights[b]}
		for v, percent := range percents[b] {
			x.SpreadTarget = append(x.SpreadTarget, berth.SpreadTarget{Value: fmt.Sprint(name, v), Percent: percent})
		}
		g.Spreads = append(g.Spreads, x)
	}
	return &berth.Job{
		ID: "web", Namespace: berth.DefaultNamespace, Type: berth.TypeBatch, Datacenters: []string{"*"}, NodePool: "wide", TaskGroups: []*berth.TaskGroup{g},
	}
}

// worthOf is the sum of a block's scores over all instances, in the order in
// which they come to a value. Values without nodes have no part unless they are
// targets.
func worthOf(block, values, count int, percents []int, there [][2]int, shared []int) (sum float64) {
	used, seen := make([]int, values), make([]bool, values)
	for i, c := range there {
		used[c[block]] += shared[i]
		seen[c[block]] = true
	}
	some := 0.0
	for _, ok := range seen {
		if ok {
			some++
		}
	}
	ideal, most := make([]float64, values), 0.0
	for v := range values {
		switch {
		case percents != nil:
			ideal[v] = float64(percents[v]) / 100 * float64(count)
		case seen[v]:
			ideal[v] = float64(count) / some
		}
		most = max(most, ideal[v])
	}
	for v := range values {
		for n := range used[v] {
			x := (ideal[v] - float64(n)) / most
			switch {
			case ideal[v] == 0:
				x = -1
			case x < 0:
				x /= 1 - x
			}
			sum += x
		}
	}
	return sum
}

// ways calls f with every way of sharing n out over that many combinations.
func ways(n, combos int, f func([]int)) {
	shared := make([]int, combos)
	var rest func(at, left int)
	rest = func(at, left int) {
		if at == combos-1 {
			shared[at] = left
			f(shared)
			return
		}
		for k := range left + 1 {
			shared[at] = k
			rest(at+1, left-k)
		}
	}
	rest(0, n)
}
