// Command flaky finds tests that do not give the same result every time. It runs
// each item many times and prints how often it failed, in which tests, and what
// it left running. An item is a package, such as ./test/real, whose test binary
// is built once and run alone, or a target of the Makefile, such as unit.
//
//	go run ./test/flaky -n 20 -load 20 ./test/real ./internal/agent unit
//
// -load starts that many processes that do nothing but use the CPU: tests must
// also pass on a busy machine.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"
)

// burnVar makes this program a process that only uses the CPU.
const burnVar = "BERTH_FLAKY_BURN"

type options struct {
	n    int
	load int
	run  string
	race bool
	out  string
}

// main runs tests many times under load. It exits with 1 if a run failed.
func main() {
	if os.Getenv(burnVar) != "" {
		burn()
	}
	var o options
	flag.IntVar(&o.n, "n", 10, "how often each item is run")
	flag.IntVar(&o.load, "load", 0, "CPU burners that run beside it")
	flag.StringVar(&o.run, "run", "", "only the tests of a package that match this regular expression")
	flag.BoolVar(&o.race, "race", true, "use the race detector")
	flag.StringVar(&o.out, "out", "bin/flaky", "directory for test binaries and the output of failed runs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ok, err := play(ctx, o, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "flaky:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// burn uses one CPU until its parent ends.
func burn() {
	_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0)
	for n := 0; ; n++ {
	}
}

// play runs all items and reports whether nothing failed.
func play(ctx context.Context, o options, items []string) (ok bool, err error) {
	if o.out, err = filepath.Abs(o.out); err != nil {
		return false, err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return false, err
	}
	// Whatever outlives its parent becomes a child of this process and is found.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return false, err
	}
	var all []*item
	for _, name := range items {
		x := &item{name: name, failed: map[string]int{}}
		if strings.HasPrefix(name, ".") {
			if err := x.build(ctx, o); err != nil {
				return false, err
			}
		}
		all = append(all, x)
	}
	end, err := startLoad(o.load)
	if err != nil {
		return false, err
	}
	defer end()
	for n := 1; n <= o.n && ctx.Err() == nil; n++ {
		for _, x := range all {
			if ctx.Err() == nil {
				x.play(ctx, o, n)
			}
		}
	}
	return report(all), ctx.Err()
}

// startLoad starts n processes that each keep a CPU busy, until end is called.
func startLoad(n int) (end func(), err error) {
	var burners []*exec.Cmd
	end = func() {
		for _, b := range burners {
			_ = b.Process.Kill()
			_ = b.Wait()
		}
	}
	for range n {
		b := exec.Command("/proc/self/exe")
		b.Env = append(os.Environ(), burnVar+"=1")
		if err := b.Start(); err != nil {
			end()
			return nil, err
		}
		burners = append(burners, b)
	}
	burnerPIDs = map[int]bool{}
	for _, b := range burners {
		burnerPIDs[b.Process.Pid] = true
	}
	return end, nil
}

// burnerPIDs are the load's own processes, which are not leftovers of a test.
var burnerPIDs map[int]bool

// item is what is run many times.
type item struct {
	name     string
	dir, bin string // of a package
	runs     int
	bad      int
	failed   map[string]int // failures by test
	left     int            // processes that outlived their run
	slowest  time.Duration
}

// build builds the test binary of a package.
func (x *item) build(ctx context.Context, o options) error {
	dir, err := exec.CommandContext(ctx, "go", "list", "-tags", "faults", "-f", "{{.Dir}}", x.name).Output()
	if err != nil {
		return fmt.Errorf("package %s: %w", x.name, err)
	}
	x.dir = strings.TrimSpace(string(dir))
	x.bin = filepath.Join(o.out, strings.ReplaceAll(strings.Trim(x.name, "./"), "/", "-")+".test")
	args := []string{"test", "-c", "-tags", "faults", "-o", x.bin}
	if o.race {
		args = append(args, "-race")
	}
	out, err := exec.CommandContext(ctx, "go", append(args, x.name)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("build the tests of %s: %w\n%s", x.name, err, out)
	}
	return nil
}

// play runs the item once, and keeps the output if it failed.
func (x *item) play(ctx context.Context, o options, n int) {
	cmd := exec.CommandContext(ctx, "make", x.name)
	if x.bin != "" {
		cmd = exec.CommandContext(ctx, x.bin, "-test.run="+o.run, "-test.timeout=30m")
		cmd.Dir = x.dir
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	// A process that was left behind may hold the output open.
	cmd.WaitDelay = time.Minute
	began := time.Now()
	err := cmd.Run()
	took := time.Since(began)
	x.runs++
	x.slowest = max(x.slowest, took)
	result := "ok"
	if err != nil {
		x.bad++
		for _, test := range failures(out.Bytes()) {
			x.failed[test]++
		}
		log := filepath.Join(o.out, fmt.Sprintf("%s.%d.log", strings.ReplaceAll(strings.Trim(x.name, "./"), "/", "-"), n))
		result = fmt.Sprintf("%v, see %s", err, log)
		if err := os.WriteFile(log, out.Bytes(), 0o644); err != nil {
			result = err.Error()
		}
	}
	// Leftovers of one run must not disturb the next one.
	if left := endOrphans(); len(left) > 0 {
		x.left += len(left)
		result += "; left running: " + strings.Join(left, "; ")
	}
	fmt.Printf("%3d  %-32s %7.1fs  %s\n", n, x.name, took.Seconds(), result)
}

// failLine finds in the output of a test what failed: a test, a panic, or tests
// that ran into the time limit.
var failLine = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)|^panic: .*|^\t(Test\S+) \(\d`)

// failures names the tests that failed, without those that only contain one.
func failures(out []byte) (names []string) {
	for _, m := range failLine.FindAllSubmatch(out, -1) {
		name := string(m[1])
		switch {
		case len(m[2]) > 0:
			name = string(m[2]) + " (still running)"
		case name == "":
			name = string(m[0])
		}
		names = append(names, name)
	}
	return slices.DeleteFunc(names, func(name string) bool {
		return slices.ContainsFunc(names, func(other string) bool { return strings.HasPrefix(other, name+"/") })
	})
}

// endOrphans kills the processes that a run left behind and returns their command
// lines.
func endOrphans() (left []string) {
	for {
		kids := children()
		if len(kids) == 0 {
			return left
		}
		for _, pid := range kids {
			var status unix.WaitStatus
			if got, err := unix.Wait4(pid, &status, unix.WNOHANG, nil); err == nil && got == pid {
				continue // it had ended by itself
			}
			if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); len(line) > 0 { // empty: it is ending
				left = append(left, strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " ")))
				_ = unix.Kill(pid, unix.SIGKILL)
			}
			_, _ = unix.Wait4(pid, &status, 0, nil)
		}
	}
}

// children returns the processes whose parent is this one, without the burners.
func children() (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range all {
		stat, _ := os.ReadFile(name)
		_, after, ok := strings.Cut(string(stat), ") ")
		var state string
		var pid, parent int
		if n, _ := fmt.Sscan(after, &state, &parent); !ok || n != 2 || parent != os.Getpid() {
			continue
		}
		if n, _ := fmt.Sscan(string(stat), &pid); n == 1 && !burnerPIDs[pid] {
			pids = append(pids, pid)
		}
	}
	return pids
}

// report prints the table and reports whether nothing failed.
func report(all []*item) (ok bool) {
	ok = true
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nitem\truns\tfailed\tleft running\tslowest\ttests that failed")
	for _, x := range all {
		ok = ok && x.bad == 0 && x.left == 0
		var tests []string
		for name, n := range x.failed {
			tests = append(tests, fmt.Sprintf("%s %d×", name, n))
		}
		slices.Sort(tests)
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%.1fs\t%s\n", x.name, x.runs, x.bad, x.left, x.slowest.Seconds(), strings.Join(tests, ", "))
	}
	w.Flush()
	return ok
}
