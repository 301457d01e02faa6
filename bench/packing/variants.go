package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"text/tabwriter"
)

// variants are the scores that "balanced" was chosen from. free is what is left
// of cpu and memory on a node after the placement, ask what it takes.
var variants = []struct {
	name  string
	score func(free, ask [2]float64) float64
}{
	{"nothing", func(f, _ [2]float64) float64 { return classic(f) }},
	{"-1.0 d", func(f, _ [2]float64) float64 { return classic(f) - difference(f) }},
	{"-2.0 d", func(f, _ [2]float64) float64 { return classic(f) - 2*difference(f) }},
	{"-2.0 d e^(-4 min f)", func(f, _ [2]float64) float64 {
		return classic(f) - 2*difference(f)*math.Exp(-4*min(f[0], f[1]))
	}},
	{"-4.0 growth of d/s", func(f, a [2]float64) float64 {
		return classic(f) - 4*(lopsided(f)-lopsided([2]float64{f[0] + a[0], f[1] + a[1]}))
	}},
	{"-1.0 d/s", func(f, _ [2]float64) float64 { return classic(f) - lopsided(f) }},
	{"-1.8 (d/s)^2", func(f, _ [2]float64) float64 { return classic(f) - 1.8*math.Pow(lopsided(f), 2) }},
	{"-2.2 (d/s)^3", func(f, _ [2]float64) float64 { return classic(f) - 2.2*math.Pow(lopsided(f), 3) }},
}

// classic scores like Nomad's binpack, from the free shares f of CPU and
// memory. 1 is full.
func classic(f [2]float64) float64 { return (20 - math.Pow(10, f[0]) - math.Pow(10, f[1])) / 18 }

// difference scores by how far the free shares are apart. 0 is even.
func difference(f [2]float64) float64 { return math.Abs(f[0] - f[1]) }

// lopsided is difference relative to what is free, so that it counts more on
// fuller nodes.
func lopsided(f [2]float64) float64 { return difference(f) / (f[0] + f[1] + 0.02) }

// compareVariants packs equal nodes by each of the scores alone.
func compareVariants(seeds uint64, nodes int) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprint(w, "| added to binpack \t")
	for _, m := range mixes {
		fmt.Fprintf(w, "| %.12s… \t", m.name)
	}
	fmt.Fprintln(w, "|")
	for _, v := range variants {
		fmt.Fprintf(w, "| %s \t", v.name)
		for _, m := range mixes {
			sum := 0.0
			for seed := range seeds {
				used, asked := packEqual(m, v.score, seed+1, nodes)
				sum += used / asked
			}
			fmt.Fprintf(w, "| %.3f \t", sum/float64(seeds))
		}
		fmt.Fprintln(w, "|")
	}
}

// packEqual returns how many nodes are used, and the smallest number that could
// do.
func packEqual(m mix, score func(free, ask [2]float64) float64, seed uint64, worth int) (used, asked float64) {
	r := rand.New(rand.NewPCG(seed, 17))
	var free [][2]float64
	var sum [2]float64
	for sum[0] < float64(worth) && sum[1] < float64(worth) {
		cpu, memory, count := m.draw(r)
		for range count {
			// An unused node is always an alternative, at index -1.
			best, at := score([2]float64{1 - cpu, 1 - memory}, [2]float64{cpu, memory}), -1
			for n, f := range free {
				if f[0] < cpu || f[1] < memory {
					continue
				}
				if s := score([2]float64{f[0] - cpu, f[1] - memory}, [2]float64{cpu, memory}); s > best || at < 0 && s == best {
					best, at = s, n
				}
			}
			if at < 0 {
				free, at = append(free, [2]float64{1, 1}), len(free)
			}
			free[at][0] -= cpu
			free[at][1] -= memory
			sum[0] += cpu
			sum[1] += memory
		}
	}
	return float64(len(free)), max(sum[0], sum[1])
}
