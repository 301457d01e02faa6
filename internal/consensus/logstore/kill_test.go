package logstore

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// childEnv makes the test binary a writer in the folder it names.
const childEnv = "LOGSTORE_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		writeForEver(dir)
	}
	os.Exit(m.Run())
}

// writeForEver appends entries, says which are on disk, and now and then does
// what raft does: votes, drops the prefix after a snapshot, drops a suffix.
func writeForEver(dir string) {
	s, err := Open(dir, quiet())
	exit(err)
	r := rand.New(rand.NewPCG(uint64(os.Getpid()), 0))
	for {
		first, err1 := s.FirstIndex()
		last, err2 := s.LastIndex()
		exit(errors.Join(err1, err2))
		n := last + 1 + r.Uint64N(4)
		exit(s.StoreLogs(entries(last+1, n, 1, 1+int(n*7919%50_000))))
		exit(s.SetUint64([]byte("acknowledged"), n))
		fmt.Println("on disk", n)
		switch r.IntN(40) {
		case 0:
			exit(s.DeleteRange(first, first+(n-first)/2))
		case 1:
			// Said first: what is not yet deleted may still be there.
			fmt.Println("on disk", n-1)
			exit(s.DeleteRange(n, n))
		}
	}
}

func exit(err error) {
	if err != nil {
		fmt.Println("failed", err)
		os.Exit(1)
	}
}

// TestKillLosesNothingAcknowledged kills a writing process with SIGKILL at
// random moments, many times in one folder.
func TestKillLosesNothingAcknowledged(t *testing.T) {
	dir := t.TempDir()
	for round := range every(10, 100) {
		acknowledged := runAndKill(t, dir, time.Duration(rand.IntN(150))*time.Millisecond)
		s := open(t, dir)
		first, err1 := s.FirstIndex()
		last, err2 := s.LastIndex()
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if last < acknowledged {
			t.Fatalf("round %d: entry %d was acknowledged, the log ends with %d", round, acknowledged, last)
		}
		for i := first; i <= last && last > 0; i++ {
			var l raft.Log
			if err := s.GetLog(i, &l); err != nil || l.Index != i {
				t.Fatalf("round %d: entry %d of %d to %d: %v", round, i, first, last, err)
			}
		}
		s.Close()
	}
}

// runAndKill lets a child write for a while after its first word and returns
// the last entry that it said was on disk.
func runAndKill(t *testing.T, dir string, after time.Duration) (acknowledged uint64) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var kill *time.Timer
	for lines.Scan() {
		if _, err := fmt.Sscanf(lines.Text(), "on disk %d", &acknowledged); err != nil {
			t.Errorf("the child says %q", lines.Text())
		}
		if kill == nil {
			kill = time.AfterFunc(after, func() { cmd.Process.Kill() })
		}
	}
	err = cmd.Wait()
	if e, ok := errors.AsType[*exec.ExitError](err); !ok || e.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the child was to be killed, but: %v", err)
	}
	return acknowledged
}
