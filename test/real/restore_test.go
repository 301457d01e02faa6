//go:build faults

package real

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/internal/failpoint"
)

// keeper is a server, with the jobs that a snapshot of it has and one that came
// since.
type keeper struct {
	*agent
	file string // the snapshot
}

// registers registers a job of which nothing is placed.
func (a *agent) registers(id string) {
	a.w.t.Helper()
	a.good("job", "run", "-detach", a.w.file(id+".nomad", strings.ReplaceAll(web1, `job "web"`, `job "`+id+`"`)))
}

// old and new are the jobs of the two states: what there is, and what the
// snapshot has.
var (
	oldJobs = []string{"came", "stays"}
	newJobs = []string{"ended", "stays"}
)

// saves has a server save its state, which is another one afterwards.
func saves(a *agent) keeper {
	a.w.t.Helper()
	k := keeper{a, filepath.Join(a.w.Dir, "state.snap")}
	a.registers("stays")
	a.registers("ended")
	a.good("operator", "snapshot", "save", k.file)
	a.registers("came")
	a.good("job", "stop", "-purge", "-detach", "ended")
	return k
}

// jobs are those that a server knows.
func (a *agent) jobs() (ids []string) {
	a.w.t.Helper()
	var all []struct{ ID string }
	a.get("/v1/jobs", &all)
	for _, j := range all {
		ids = append(ids, j.ID)
	}
	slices.Sort(ids)
	return ids
}

// whole checks that a server that was started again has one of the two states,
// whole, goes on with it, and that nothing is left on disk of what was cut short.
func (k keeper) whole(want []string) {
	k.w.t.Helper()
	k.start()
	k.joined()
	if is := k.jobs(); !slices.Equal(is, want) {
		k.w.t.Errorf("it has the jobs %q, want %q", is, want)
	}
	after := filepath.Join(k.w.Dir, "after.snap")
	k.good("operator", "snapshot", "save", after)
	k.w.holds(k.good("operator", "snapshot", "inspect", "-check", after), "0 invariants violated")
	k.registers("next")
	_ = filepath.WalkDir(k.dataDir, func(path string, _ os.DirEntry, err error) error {
		if err != nil || strings.HasSuffix(path, ".tmp") {
			k.w.t.Errorf("left: %s, %v", path, err)
		}
		return nil
	})
}

// A server is killed while a snapshot is being sent to it: it has its state as it
// was.
func TestAnUploadIsCutShort(t *testing.T) {
	t.Parallel()
	k := saves(newWorld(t).agent("one", "server { enabled = true bootstrap_expect = 1 }"))
	text, err := os.ReadFile(k.file)
	if err != nil {
		t.Fatal(err)
	}
	to, err := net.Dial("tcp", strings.TrimPrefix(k.addr, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if _, err := fmt.Fprintf(to, "PUT /v1/operator/snapshot HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(text), text[:len(text)/2]); err != nil {
		t.Fatal(err)
	}
	if is := k.jobs(); !slices.Equal(is, oldJobs) { // it serves others meanwhile
		t.Errorf("it has the jobs %q", is)
	}
	k.Kill()
	k.whole(oldJobs)
}

// A server is killed in the middle of a restore: it has the one state or the
// other. From the moment that the snapshot is safe it is the new one.
func TestARestoreIsCutShort(t *testing.T) {
	t.Parallel()
	for point, want := range map[string][]string{
		"consensus/snapshot-begin": oldJobs, "consensus/snapshot-middle": oldJobs, "consensus/snapshot-rename": oldJobs, "consensus/snapshot-sealed": newJobs,
	} {
		t.Run(filepath.Base(point), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a := w.agent("one", "server { enabled = true bootstrap_expect = 1 }")
			k := saves(a)
			a.Kill()
			a.start(failpoint.Env + "=" + point + "=exit")
			a.joined()
			out := a.berth("operator", "snapshot", "restore", k.file)
			w.until("it has ended", func() string {
				if a.Running() {
					return "it runs"
				}
				return ""
			})
			if out.Code == 0 || a.ExitCode() != failpoint.ExitCode {
				t.Errorf("restored: %v; it ended with %d", out, a.ExitCode())
			}
			k.whole(want)
		})
	}
}
