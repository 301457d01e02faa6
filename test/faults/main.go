// Command faults breaks a cluster and judges what it did meanwhile. Three
// servers and three agents are real processes of the real binary, each in a
// network of its own; nodes that are simulated stand beside them. While people
// register, update, stop, dispatch and read through all servers, one fault
// after another begins and ends. Then everything must be well again: what was
// acknowledged is there, what was answered was true (package porcupine), all
// servers have the same state, and nothing of it breaks an invariant.
//
// docs/faults.md says what each fault is and how to add one.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// options are the flags of a run.
type options struct {
	rounds  int
	faults  string // IDs, separated by commas; "" is all
	seed    uint64
	out     string // directory of the report and of the files of failed rounds
	berth   string // the program under test
	nodes   int    // simulated ones
	planted string // names of defects to plant, or "all"
	dir     string // for everything else; removed at the end
}

// flags declares the flags that set o.
func (o *options) flags(f *flag.FlagSet) {
	f.IntVar(&o.rounds, "rounds", 1, "rounds of each fault")
	f.StringVar(&o.faults, "fault", "", "faults to run, as F-01,F-08; by default all")
	f.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "where chance begins")
	f.StringVar(&o.out, "out", "faults.out", "folder for report.html and report.json, and for the logs of rounds that fail")
	f.StringVar(&o.berth, "berth", "bin/berth-faults", "the program under test, built with -tags faults")
	f.IntVar(&o.nodes, "nodes", 50, "simulated nodes beside the real ones; F-28 has ten times as many")
	f.StringVar(&o.planted, "planted", "", "plant defects and have the checks find them: all, or "+strings.Join(defectNames(), ","))
}

// main runs the faults, or the init of the namespaces if started as that.
func main() {
	if isInit() {
		os.Exit(beInit())
	}
	var o options
	o.flags(flag.CommandLine)
	list := flag.Bool("list", false, "list the faults and end")
	flag.Parse()
	if *list {
		for _, f := range faults {
			fmt.Printf("%s  %-8s %s\n", f.ID, f.Kind, f.Name)
		}
		return
	}
	code, err := start(&o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		code = 1
	}
	os.Exit(code)
}

// absolute makes the paths absolute, because each process of a run has a
// working directory of its own.
func (o *options) absolute() error {
	for _, p := range []*string{&o.berth, &o.out} {
		abs, err := filepath.Abs(*p)
		if err != nil {
			return err
		}
		*p = abs
	}
	return nil
}

// start runs the program in namespaces or, if it is inside already, does the
// run.
func start(o *options) (int, error) {
	if err := o.absolute(); err != nil {
		return 1, err
	}
	if !inside() {
		if _, err := exec.LookPath(o.berth); err != nil {
			return 1, fmt.Errorf("-berth: %w; make build makes it", err)
		}
		return enter(os.Args)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return run(ctx, o)
}

// run plays what the options ask for and returns the exit code.
func run(ctx context.Context, o *options) (int, error) {
	chosen, err := choose(o.faults)
	if err != nil {
		return 1, err
	}
	if o.dir, err = os.MkdirTemp("", "berth-faults-"); err != nil {
		return 1, err
	}
	defer os.RemoveAll(o.dir)
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return 1, err
	}
	net, err := newNetwork()
	if err != nil {
		return 1, err
	}
	if o.planted != "" {
		return findDefects(ctx, o, net)
	}
	// The report is written after each fault, so that an interrupted run leaves
	// one.
	rep := newReport(o)
	for _, f := range chosen {
		playFault(ctx, o, net, f, rep)
		if err := rep.write(o.out); err != nil {
			return 1, err
		}
		if ctx.Err() != nil {
			return 1, ctx.Err()
		}
	}
	fmt.Printf("the report is %s\n", filepath.Join(o.out, "report.html"))
	if !rep.Passed {
		return 1, nil
	}
	return 0, nil
}

// choose returns the faults with these IDs.
func choose(ids string) (out []*Fault, err error) {
	if ids == "" {
		return faults, nil
	}
	for id := range strings.SplitSeq(ids, ",") {
		found := false
		for _, f := range faults {
			if strings.EqualFold(f.ID, strings.TrimSpace(id)) {
				out, found = append(out, f), true
			}
		}
		if !found {
			return nil, fmt.Errorf("-fault: there is no fault %q; -list shows which there are", id)
		}
	}
	return out, nil
}

// playFault plays all rounds of a fault. Rounds share a cluster as long as they
// pass.
func playFault(ctx context.Context, o *options, net *network, f *Fault, rep *report) {
	var c *cluster
	for n := 1; n <= o.rounds && ctx.Err() == nil; n++ {
		// A cluster that failed a round is not used again: its state is in
		// doubt.
		if c == nil {
			var err error
			if c, err = newCluster(ctx, o, net, f.Setup); err != nil {
				rep.add(&result{Fault: f.ID, Round: n, Failures: []string{fmt.Sprintf("no cluster: %v", err)}})
				return
			}
		}
		r := newRound(c, f, n, o)
		res := r.play(ctx)
		if len(res.Failures) > 0 {
			c.keep(filepath.Join(o.out, fmt.Sprintf("%s-%d", f.ID, n)), r)
		}
		// A cluster that passed must also end cleanly.
		if len(res.Failures) > 0 || n == o.rounds {
			if err := c.close(ctx, len(res.Failures) == 0); err != nil {
				res.fail("the end: %v", err)
			}
			c = nil
		}
		rep.add(res)
		fmt.Println(res)
	}
	if c != nil {
		_ = c.close(ctx, false)
	}
}
