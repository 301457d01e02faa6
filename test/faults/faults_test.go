package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/test/bed"
)

// testOptions are those of all tests; TestMain fills them.
var testOptions options

// testNet is the one network of this run.
var testNet *network

const binaryVar = "BERTH_FAULTS_BINARY"

func TestMain(m *testing.M) {
	if isInit() {
		os.Exit(beInit())
	}
	code, err := testMain(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func testMain(m *testing.M) (int, error) {
	if !inside() {
		dir, err := os.MkdirTemp("", "berth-faults-test-")
		if err != nil {
			return 1, err
		}
		defer os.RemoveAll(dir)
		binary := filepath.Join(dir, "berth")
		if err := bed.Program(binary, "berth/cmd/berth", "-tags", "faults"); err != nil {
			return 1, err
		}
		if err := os.Setenv(binaryVar, binary); err != nil {
			return 1, err
		}
		return enter(os.Args)
	}
	flag.Parse()
	o := &testOptions
	o.flags(flag.NewFlagSet("faults", flag.PanicOnError))
	o.berth, o.nodes, o.seed = os.Getenv(binaryVar), 20, 1
	var err error
	if o.dir, err = os.MkdirTemp("", "berth-faults-"); err != nil {
		return 1, err
	}
	defer os.RemoveAll(o.dir)
	o.out = filepath.Join(o.dir, "out")
	if testNet, err = newNetwork(); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// Where the program is started from, and with which of its paths by default,
// makes no difference to what runs in folders of its own.
func TestPathsOfARun(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	var o options
	f := flag.NewFlagSet("faults", flag.PanicOnError)
	o.flags(f)
	if err := f.Parse([]string{"-out", "here"}); err != nil {
		t.Fatal(err)
	}
	if err := o.absolute(); err != nil {
		t.Fatal(err)
	}
	if o.berth != filepath.Join(dir, "bin", "berth-faults") || o.out != filepath.Join(dir, "here") {
		t.Errorf("%s, %s", o.berth, o.out)
	}
}

// A short selection, once. make faults plays all of them, many times.
func TestFaults(t *testing.T) {
	for _, f := range []*Fault{killLeader, flap, harmedLog, installSnapshot, twiceAndLate} {
		t.Run(f.ID, func(t *testing.T) {
			o := testOptions
			o.rounds = 1
			rep := newReport(&o)
			playFault(t.Context(), &o, testNet, f, rep)
			s := rep.Faults[0]
			for _, r := range s.Results {
				for _, failure := range r.Failures {
					t.Error(failure)
				}
				for _, n := range r.Timeline {
					t.Logf("%8v %s", n.At.Round(1e6), n.Text)
				}
			}
			if s.Passed != 1 {
				logs, _ := filepath.Glob(filepath.Join(o.out, f.ID+"-1", "*.log"))
				for _, name := range logs {
					text, _ := os.ReadFile(name)
					t.Logf("%s:\n%s", filepath.Base(name), text[max(0, len(text)-4000):])
				}
			}
			if err := rep.write(o.dir); err != nil {
				t.Error(err)
			}
		})
	}
}

// Each defect that is planted in the real binary is found: those that take
// minutes in the long form alone, and by make faults.
func TestPlanted(t *testing.T) {
	for _, d := range defects {
		if d.long && os.Getenv("BERTH_LONG") == "" {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			found, err := d.find(t.Context(), &testOptions, testNet)
			if err != nil || !strings.HasPrefix(found, "found") {
				t.Fatal(found, err)
			}
			t.Log(found)
		})
	}
}
