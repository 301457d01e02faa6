package explain_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"berth"
	"berth/internal/schedule/explain"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// Another scheduler algorithm is named if and only if the job, registered on the
// same cluster with that algorithm, gets more instances placed; a plan says it
// before the job is registered, and its explanation afterwards.
func TestAnotherAlgorithmWouldPlaceMore(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	hints, silent := 0, 0
	for round := range 60 {
		var nodes []state.Command
		for n := range 2 + r.IntN(4) {
			nodes = append(nodes, statetest.AddNode(n+1, int64(500+100*r.IntN(20)), int64(500+100*r.IntN(20))))
		}
		job := func() *berth.Job {
			return statetest.Job(t, fmt.Sprintf(`{"ID":"web","TaskGroups":[
				{"Name":"a","Count":%d,"Resources":{"CPU":%d,"MemoryMB":%d}},
				{"Name":"b","Count":%d,"Resources":{"CPU":%d,"MemoryMB":%d}}]}`, 2+round%5, 100+round*37%600, 100+round*53%500, 2+round%4, 100+round*71%500, 100+round*29%600))
		}
		// placed is what an algorithm places, and what is explained then.
		placed := func(algorithm string) (n int, explained string) {
			conf := berth.DefaultSchedulerConfig
			conf.SchedulerAlgorithm = algorithm
			k := newCluster(t, append([]state.Command{&state.SetSchedulerConfig{Config: conf}}, append(nodes, statetest.Register(job(), 1))...)...)
			k.decide()
			for a := range k.snap().AllocsOf(key("web")) {
				if a.Live() {
					n++
				}
			}
			for _, g := range explain.Job(k.snap(), key("web"), nowhere, k.now).Groups {
				if g.Algorithm != nil {
					explained += g.Summary
				}
			}
			return n, explained
		}
		now, explained := placed(berth.AlgorithmBinpack)
		best := now
		for _, other := range []string{berth.AlgorithmBalanced, berth.AlgorithmSpread} {
			n, _ := placed(other)
			best = max(best, n)
		}
		k := newCluster(t, nodes...)
		d, err := explain.Plan(k.snap(), statetest.Register(job(), 1), k.now)
		if err != nil {
			t.Fatal(err)
		}
		if d.Algorithm == "" && explained == "" {
			silent++
			continue
		}
		hints++
		var algorithm, instead string
		var more int
		if _, err := fmt.Sscanf(d.Algorithm, "the scheduler algorithm %s would place %d more than %s", &algorithm, &more, &instead); err != nil {
			t.Fatalf("round %d: the plan says %q, the explanation %q: %v", round, d.Algorithm, explained, err)
		}
		if n, _ := placed(algorithm); n != now+more || best < n {
			t.Errorf("round %d: %q, but %s places %d, and binpack %d", round, d.Algorithm, algorithm, n, now)
		}
		if !strings.Contains(explained, "the scheduler algorithm "+algorithm+" would place ") {
			t.Errorf("round %d: the plan says %q, and the explanation %q", round, d.Algorithm, explained)
		}
	}
	if hints == 0 || silent == 0 {
		t.Errorf("%d clusters had a hint, %d had none", hints, silent)
	}
}
