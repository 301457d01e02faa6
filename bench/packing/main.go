// Packing says how many nodes each algorithm needs (B17): it lets the placer
// place mixes of jobs on a row of nodes that does not end, and compares what it
// used with what any scheduler would have needed.
//
//	go run ./bench/packing
//
// The figure is the room of the nodes that were used over what was asked for,
// in the dimension that is scarcer: 1.00 would be nodes full to the brim. On
// equal nodes that is the number of nodes used over the lower bound.
//
// "sample of 2" and "sample of log2 n" are a scheduler that gives the score of
// binpack on a given number of nodes only, drawn from all that are in use and
// have room; it takes one more into use when these are too few.
package main

import (
	"flag"
	"fmt"
	"log"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"text/tabwriter"

	"berth"
	"berth/internal/schedule/place"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// main prints how well the algorithms pack mixes of jobs, as tables for the
// docs.
func main() {
	seeds := flag.Uint64("seeds", 2, "runs of each, with other jobs")
	nodes := flag.Int("nodes", 1000, "nodes' worth of jobs")
	scores := flag.Bool("variants", false, "compare the scores that balanced was chosen from")
	flag.Parse()
	log.SetFlags(0)
	if *scores {
		compareVariants(*seeds, *nodes)
		return
	}
	for _, typ := range []string{berth.TypeBatch, berth.TypeService} {
		for _, r := range rows {
			fmt.Printf("\n%s jobs, %s\n\n", typ, r.name)
			table(typ, r, *seeds, *nodes)
		}
	}
}

// row is an endless row of nodes whose sizes repeat.
type row struct {
	name  string
	sizes []berth.Ask
}

// rows are the sizes of nodes to pack on, in MHz and MiB.
var rows = []row{
	{"equal nodes", []berth.Ask{{CPU: 64_000, MemoryMB: 128_000}}},
	{"nodes of three kinds", []berth.Ask{{CPU: 64_000, MemoryMB: 128_000}, {CPU: 48_000, MemoryMB: 192_000}, {CPU: 96_000, MemoryMB: 96_000}}},
}

// mix draws what one instance asks for, in shares of a node of 64 GHz and
// 128,000 MiB, and how many instances a group has.
type mix struct {
	name string
	draw func(r *rand.Rand) (cpu, memory float64, count int)
}

// between returns a random number of at least low and less than high.
func between(r *rand.Rand, low, high float64) float64 { return low + r.Float64()*(high-low) }

// mixes draw jobs: the shares of a node that an instance takes of CPU and
// memory, and the count.
var mixes = []mix{
	{"uniform: as much cpu as memory, 1/64 to 1/8", func(r *rand.Rand) (float64, float64, int) {
		x := between(r, 1./64, 1./8)
		return x, x, 1 + r.IntN(20)
	}},
	{"mixed shapes: each 1/64 to 1/4", func(r *rand.Rand) (float64, float64, int) {
		return between(r, 1./64, 1./4), between(r, 1./64, 1./4), 1 + r.IntN(20)
	}},
	{"half cpu-heavy 4:1, half memory-heavy 1:4", func(r *rand.Rand) (float64, float64, int) {
		x := between(r, 1./64, 1./8)
		if r.IntN(2) == 0 {
			return 2 * x, x / 2, 1 + r.IntN(20)
		}
		return x / 2, 2 * x, 1 + r.IntN(20)
	}},
	{"long tail: log-normal around 1/50, up to 0.6", func(r *rand.Rand) (float64, float64, int) {
		f := func() float64 { return min(max(0.02*math.Exp(r.NormFloat64()), 0.004), 0.6) }
		return f(), f(), 1 + r.IntN(20)
	}},
	{"a tenth big, 0.3 to 0.6, the rest 1/64 to 1/8", func(r *rand.Rand) (float64, float64, int) {
		if r.IntN(10) == 0 {
			return between(r, .3, .6), between(r, .3, .6), 1 + r.IntN(5)
		}
		return between(r, 1./64, 1./8), between(r, 1./64, 1./8), 1 + r.IntN(20)
	}},
}

// group is a job's only group.
type group struct {
	ask   berth.Ask
	count int
}

// jobs draws groups until they ask for as much as the given number of nodes
// has.
func jobs(m mix, seed uint64, worth int) (out []group, sum berth.Ask) {
	r := rand.New(rand.NewPCG(seed, 17))
	for size := rows[0].sizes[0]; sum.CPU < int64(worth)*size.CPU && sum.MemoryMB < int64(worth)*size.MemoryMB; {
		cpu, memory, count := m.draw(r)
		g := group{berth.Ask{CPU: int64(cpu * float64(size.CPU)), MemoryMB: int64(memory * float64(size.MemoryMB))}, count}
		out = append(out, g)
		sum.CPU += g.ask.CPU * int64(count)
		sum.MemoryMB += g.ask.MemoryMB * int64(count)
	}
	return out, sum
}

// packer places groups on a row of nodes and returns the capacity of the nodes
// it used.
type packer func(typ string, r row, nodes int, groups []group, seed uint64) berth.Ask

// table prints one row for each mix: the capacity of the nodes used, divided by
// what the jobs asked for, in the dimension that is fuller. 1 is perfect. The
// figure is averaged over the seeds.
func table(typ string, r row, seeds uint64, nodes int) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprintln(w, "| mix \t| binpack \t| balanced \t| spread \t| sample of 2 \t| sample of log2 n \t|")
	fmt.Fprintln(w, "|---\t|---\t|---\t|---\t|---\t|---\t|")
	packers := []packer{placer(berth.AlgorithmBinpack), placer(berth.AlgorithmBalanced), placer(berth.AlgorithmSpread), sampler(false), sampler(true)}
	for _, m := range mixes {
		fmt.Fprintf(w, "| %s \t", m.name)
		for _, pack := range packers {
			sum := 0.0
			for seed := range seeds {
				groups, asked := jobs(m, seed+1, nodes)
				used := pack(typ, r, 2*nodes, groups, seed+1)
				sum += min(float64(used.CPU)/float64(asked.CPU), float64(used.MemoryMB)/float64(asked.MemoryMB))
			}
			fmt.Fprintf(w, "| %.3f \t", sum/float64(seeds))
		}
		fmt.Fprintln(w, "|")
	}
}

// placer is Berth itself: jobs are registered, placed and committed.
func placer(algorithm string) packer {
	return func(typ string, r row, nodes int, groups []group, seed uint64) (used berth.Ask) {
		tx := state.Begin(state.New().Snapshot())
		do := func(c state.Command) {
			if res := tx.Apply(c); res.Err != nil {
				log.Fatal(res.Err)
			}
		}
		do(&state.SetSchedulerConfig{Config: berth.SchedulerConfig{SchedulerAlgorithm: algorithm}})
		for n := range nodes {
			size := r.sizes[n%len(r.sizes)]
			do(statetest.AddNode(n+1, size.CPU, size.MemoryMB, func(x *berth.Node) { x.NodeResources.Disk.DiskMB = 1 << 40 }))
		}
		for i, g := range groups {
			j := job(typ, i, g)
			do(statetest.Register(j, i+1))
			instances := make([]place.Instance, g.count)
			for k := range instances {
				instances[k].Index = uint32(k)
			}
			snap := tx.Seal()
			out := place.New(snap, snap.Job(j.Key()), nil, seed*1_000_003+uint64(i)).Group(0, instances)
			if out.Failed > 0 {
				log.Fatalf("%s: the row of nodes is too short", algorithm)
			}
			tx = state.Begin(snap)
			do(&state.ApplyPlan{Eval: statetest.ID[berth.Eval](i + 1), Place: out.Placed, Now: 1, End: &state.EvalEnd{Status: berth.EvalComplete}})
		}
		for _, run := range tx.Seal().UsageColumns() {
			for i := range run {
				if run[i].Allocs > 0 {
					used = used.Add(run[i].Capacity)
				}
			}
		}
		return used
	}
}

// job returns the job of group g, with a task that has g's ask.
func job(typ string, i int, g group) *berth.Job {
	restart := &berth.RestartPolicy{}
	return &berth.Job{
		ID: berth.JobID(fmt.Sprint("job", i)), Namespace: berth.DefaultNamespace, Region: berth.DefaultRegion, Type: typ, Priority: 50,
		Datacenters: []string{"*"}, NodePool: berth.DefaultNodePool,
		TaskGroups: []*berth.TaskGroup{{
			Name: "g", Count: g.count, RestartPolicy: restart, EphemeralDisk: &berth.EphemeralDisk{SizeMB: 10},
			Tasks: []*berth.Task{{
				Name: "task", Driver: "mock_driver", RestartPolicy: restart, LogConfig: &berth.LogConfig{},
				Resources: &berth.Resources{CPU: int(g.ask.CPU), MemoryMB: int(g.ask.MemoryMB)},
			}},
		}},
	}
}

// sampler is a scheduler that looks at few nodes: two, or the logarithm of
// their number.
func sampler(logarithm bool) packer {
	return func(_ string, r row, nodes int, groups []group, seed uint64) (used berth.Ask) {
		chance := rand.New(rand.NewPCG(seed, 34))
		room, taken := make([]berth.Ask, nodes), make([]berth.Ask, nodes)
		for n := range room {
			room[n] = r.sizes[n%len(r.sizes)]
		}
		begun, most := 0, 2
		if logarithm {
			most = bits.Len(uint(nodes))
		}
		for _, g := range groups {
			siblings := make([]int, nodes)
			for range g.count {
				best, score, looked := -1, math.Inf(-1), 0
				// Nodes in use are drawn at random; unused ones follow in
				// order.
				order := chance.Perm(begun)
				for n := begun; n < nodes; n++ {
					order = append(order, n)
				}
				for _, n := range order {
					free := room[n].Sub(taken[n]).Sub(g.ask)
					if free.CPU < 0 || free.MemoryMB < 0 {
						continue
					}
					// This is Nomad's binpack score with its penalty for
					// instances of the same group.
					s := (20 - math.Pow(10, float64(free.CPU)/float64(room[n].CPU)) - math.Pow(10, float64(free.MemoryMB)/float64(room[n].MemoryMB))) / 18
					if siblings[n] > 0 {
						s = (s - float64(siblings[n]+1)/float64(g.count)) / 2
					}
					if s > score {
						best, score = n, s
					}
					if looked++; looked == most {
						break
					}
				}
				if best < 0 {
					log.Fatal("sample: the row of nodes is too short")
				}
				taken[best] = taken[best].Add(g.ask)
				siblings[best]++
				begun = max(begun, best+1)
			}
		}
		for n := range room {
			if taken[n].CPU > 0 {
				used = used.Add(room[n])
			}
		}
		return used
	}
}
