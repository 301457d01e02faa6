// Command logstore compares storage engines for the Raft log and prints the
// tables of docs/decisions/0002-raft-log-engine.md.
//
//	go run . append     latency, CPU and bytes written of a durable append
//	go run . restart    opening a log of 10,000 and 100,000 entries
//	go run . space      disk used before and after the log is cut short
//	go run . faults     torn tails, flipped bits, a full disk, a failing sync
//
// Each measurement runs in a process of its own, so that CPU, memory and
// bytes are the engine's alone and a killed process is only a result.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

var (
	dirFlag  = flag.String("dir", os.TempDir(), "folder on the disk to measure")
	runsFlag = flag.Int("runs", 5, "runs of each measurement; medians are printed")
	onlyFlag = flag.String("engines", "", "engines to measure, with commas; default all")
	longFlag = flag.Bool("long", false, "faults: every byte and more bits, not a sample")
)

// main runs the measurement that the first argument names.
func main() {
	flag.Parse()
	jobs := map[string]func(){
		"append": appends, "restart": restarts, "space": spaces, "faults": faults,
		// Run in child processes:
		"child-append": childAppend, "child-open": childOpen, "child-space": childSpace,
		"child-fill": childFill, "child-check": childCheck, "child-full": childFull, "child-eio": childEIO,
	}
	job, ok := jobs[flag.Arg(0)]
	if !ok {
		fatalf("what? append, restart, space or faults; not %q", flag.Arg(0))
	}
	job()
}

// fatalf ends the process with code 3. The parent takes that as a refusal, and
// any other code as a crash.
func fatalf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(3)
}

// must ends the process if err is not nil.
func must(err error) {
	if err != nil {
		fatalf("%v", err)
	}
}

// chosen returns the engines to measure; the floor can only append.
func chosen(withFloor bool) (names []string) {
	for _, c := range candidates {
		if c.name == "floor" && !withFloor {
			continue
		}
		if *onlyFlag == "" || strings.Contains(","+*onlyFlag+",", ","+c.name+",") {
			names = append(names, c.name)
		}
	}
	return names
}

// tempDir makes an empty folder on the disk to measure.
func tempDir() string {
	dir, err := os.MkdirTemp(*dirFlag, "logstore")
	must(err)
	return dir
}

// child runs one measurement in a process of its own and reads its answer.
func child(out any, args ...string) error {
	exe, err := os.Executable()
	must(err)
	cmd := exec.Command(exe, args...)
	var errs strings.Builder
	cmd.Stderr = &errs
	b, err := cmd.Output()
	if err != nil {
		line, _, _ := strings.Cut(strings.TrimSpace(errs.String()), "\n")
		return fmt.Errorf("%w: %s", err, line)
	}
	return json.Unmarshal(b, out)
}

// answer hands the parent process what a child measured.
func answer(v any) { must(json.NewEncoder(os.Stdout).Encode(v)) }
