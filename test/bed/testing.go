package bed

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// suite is what the tests of a package share.
var suite struct {
	dir    string // with the binary and the beds
	binary string // that of agents
	beds   atomic.Int32
}

// Main is the body of TestMain in a package that runs the binary: it builds it,
// runs the tests, and fails if they left anything. With flags for go build, agents
// run a binary of their own that is built with them.
func Main(m *testing.M, flags ...string) (code int) {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var err error
	if suite.dir, err = os.MkdirTemp("", "bed-"); err != nil { // short, because paths of sockets are limited
		return fail(err)
	}
	defer os.RemoveAll(suite.dir)
	if suite.binary, err = Build(suite.dir); err != nil {
		return fail(err)
	}
	if len(flags) > 0 {
		agents := filepath.Join(suite.dir, "agents")
		if err := os.Mkdir(agents, 0o700); err != nil {
			return fail(err)
		}
		if suite.binary, err = Build(agents, flags...); err != nil {
			return fail(err)
		}
	}
	code = m.Run()
	all := New(suite.dir, suite.binary) // its mark is a prefix of all beds' marks
	if left := all.Processes(); len(left) > 0 {
		code = fail(fmt.Errorf("processes are left: %v", left))
	}
	if left := Cgroups(all.Mark); len(left) > 0 {
		code = fail(fmt.Errorf("cgroups are left: %v", left))
	}
	if err := all.Close(); err != nil {
		code = fail(err)
	}
	return code
}

// SuiteDir is the directory of the binary, "berth", which all tests of a package
// share.
func SuiteDir() string { return suite.dir }

// ForTest returns a bed for a test of a package that uses Main. It ends with the
// test, which fails if an agent crashed or saw a data race.
func ForTest(t testing.TB) *Bed {
	t.Helper()
	dir := filepath.Join(suite.dir, fmt.Sprint(suite.beds.Add(1)))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	b := New(dir, suite.binary)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(b.Tails())
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return b
}
