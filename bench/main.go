// Command bench measures a whole server under load: one process is the server,
// with its log on disk, one is thousands of agents that speak the real protocol
// but run nothing, and this one is the users, who come over HTTP. Each workload
// prints what it reached, and beside it what it cost: processor seconds,
// memory, bytes of log. The workloads are those of the project's performance
// goals, B1 and so on.
//
//	go run ./bench -runs 3 b1 b3 b4 b12
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
)

// workloads are what can be measured, by name.
var workloads = map[string]struct {
	about string
	run   func(context.Context, *bed) (*result, error)
	nodes int
}{
	"b1":  {"2,000 nodes, 100 batch jobs of 100, from first request to all running", b1, 2000},
	"b3":  {"2,000 nodes, 10,000 jobs of 1, 32 in flight", b3, 2000},
	"b4":  {"2,000 nodes, one job of 1 after another", b4, 2000},
	"b12": {"bytes of heap, log and snapshot for each allocation that runs", b12, 5000},
}

// main runs workloads, each several times. The arguments serve and nodes are
// for the processes that it starts itself.
func main() {
	// The same binary is the server and the nodes, each in its own process, so
	// that their costs can be told apart.
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "serve":
			exit(serve(os.Args[2:]))
		case "nodes":
			exit(simulate(os.Args[2:]))
		}
	}
	runs := flag.Int("runs", 3, "how often each workload is run")
	scale := flag.Float64("scale", 1, "size of the workloads, 1 is as they are named")
	tokens := flag.Int("tokens", 0, "each run is followed by one with access control, in which requests take turns with this number of tokens")
	flag.Parse()
	names := flag.Args()
	if len(names) == 0 {
		names = []string{"b1", "b3", "b4", "b12"}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	for _, name := range names {
		w, ok := workloads[strings.ToLower(name)]
		if !ok {
			exit(fmt.Errorf("no workload %q", name))
		}
		fmt.Printf("%s: %s\n", name, w.about)
		kinds := []int{0}
		if *tokens > 0 {
			kinds = append(kinds, *tokens)
		}
		all := make([][]*result, len(kinds))
		for range *runs {
			for i, n := range kinds {
				r, err := once(ctx, w.run, w.nodes, *scale, n)
				if err != nil {
					exit(fmt.Errorf("%s: %w", name, err))
				}
				fmt.Printf("  %s%s\n", r, kindOf(n))
				all[i] = append(all[i], r)
			}
		}
		for i, n := range kinds {
			fmt.Printf("  median: %s%s\n", median(all[i]), kindOf(n))
		}
		fmt.Println()
	}
}

// kindOf says after a result that access control was on.
func kindOf(tokens int) string {
	if tokens == 0 {
		return ""
	}
	return fmt.Sprintf(" · with %d tokens", tokens)
}

// once runs a workload on a new bed.
func once(ctx context.Context, run func(context.Context, *bed) (*result, error), nodes int, scale float64, tokens int) (*result, error) {
	b, err := newBed(ctx, nodes, scale, tokens)
	if err != nil {
		return nil, err
	}
	defer b.close()
	// With BENCH_PROFILE the first seconds are profiled, however long it takes.
	profiled := make(chan error, 1)
	go func() { profiled <- b.profile("profile?seconds=3") }()
	r, err := run(ctx, b)
	return r, errors.Join(err, <-profiled)
}

// exit ends the process, with 1 and a message if err is not nil.
func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// figure is one measured number.
type figure struct {
	name  string
	value float64
	unit  string
}

// result is the figures of one run, in the order they are shown.
type result struct{ figures []figure }

// add adds a figure. The unit begins with its own space.
func (r *result) add(name string, value float64, unit string) {
	r.figures = append(r.figures, figure{name, value, unit})
}

// String returns the figures on one line, small ones with two decimals.
func (r *result) String() string {
	var parts []string
	for _, f := range r.figures {
		format := "%s %.0f%s"
		if f.value < 100 {
			format = "%s %.2f%s"
		}
		parts = append(parts, fmt.Sprintf(format, f.name, f.value, f.unit))
	}
	return strings.Join(parts, " · ")
}

// median takes each figure's median over runs.
func median(all []*result) *result {
	out := &result{}
	for i, f := range all[0].figures {
		var values []float64
		for _, r := range all {
			values = append(values, r.figures[i].value)
		}
		slices.Sort(values)
		out.add(f.name, values[len(values)/2], f.unit)
	}
	return out
}
