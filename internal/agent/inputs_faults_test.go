//go:build faults

package agent

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"berth/internal/agent/fetch"
	"berth/internal/agent/isolate/isolatetest"
	"berth/internal/agent/render"
	"berth/internal/failpoint"
)

// appArchive is an archive of one large file.
func appArchive(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	text := strings.Repeat("line of the app\n", 10000)
	err := w.WriteHeader(&tar.Header{Name: "app", Mode: 0o644, Size: int64(len(text))})
	_, werr := w.Write([]byte(text))
	if err := errors.Join(err, werr, w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// The agent, or the process that fetches or renders for it, is killed at each step
// while the inputs of a task are made. The task then runs once, with each input whole
// and once, and no process and no file of the work is left.
func TestKilledAsInputsAreMade(t *testing.T) {
	t.Parallel() // it waits more than it works
	whole := appArchive(t)
	const half = "half a download"
	for _, c := range []struct{ who, at string }{
		{"agent", "fetch/begun"}, {"agent", half}, {"agent", "fetch/fetched"}, {"agent", "fetch/placed"}, {"agent", "template/rendered"}, {"agent", "template/written"},
		{"helper", half},
	} {
		t.Run(c.who+" "+strings.ReplaceAll(c.at, "/", " "), func(t *testing.T) {
			var hold atomic.Bool
			hold.Store(c.at == half)
			asked, gone := make(chan struct{}, 10), make(chan struct{}, 10)
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", fmt.Sprint(len(whole)))
				if !hold.CompareAndSwap(true, false) {
					_, _ = w.Write(whole)
					return
				}
				_, _ = w.Write(whole[:len(whole)/2])
				w.(http.Flusher).Flush()
				asked <- struct{}{}
				<-r.Context().Done() // it ends with who asked
				gone <- struct{}{}
			}))
			defer s.Close()
			m := newMachine(t)
			first := m.agent() // makes the node's identity
			until(t, "the node is ready", m.isReady)
			first.kill()
			env := []string{}
			if c.at != half {
				env = append(env, failpoint.Env+"="+c.at+"=exit")
			}
			id := m.place(newAlloc(t, "batch", shTask("main", `set -e; echo $$ >> local/pids; test $(wc -l < local/app/app) = 10000; test "$(cat local/t)" = "of main"; ls -A local local/app > local/list`,
				`,"RestartPolicy":{"Attempts":2,"Interval":"1h","Delay":"1s","Mode":"fail"},"Artifacts":[{"GetterSource":"`+s.URL+`/app.tgz","RelativeDest":"local/app"}],"Templates":[{"EmbeddedTmpl":"of {{ env \"NOMAD_TASK_NAME\" }}\n","DestPath":"local/t"}]`)))
			a := m.agent(env...)
			switch {
			case c.at != half:
				<-a.done
				if code := a.cmd.ProcessState.ExitCode(); code != failpoint.ExitCode {
					t.Fatalf("exit code %d\n%s", code, tail(a.log.String(), 1000))
				}
			case c.who == "agent":
				<-asked
				a.kill()
				until(t, "the fetcher has ended with the agent", func() bool { return len(gone) == 1 })
			default:
				<-asked
				var pids []int
				until(t, "it is there", func() bool { pids = isolatetest.Helpers(t, fetch.Word, render.Word); return len(pids) == 1 })
				if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
			until(t, "no helper is left", func() bool { return len(isolatetest.Helpers(t, fetch.Word, render.Word)) == 0 })
			if c.who == "agent" {
				a = m.agent()
			}
			m.untilStatus(id, "complete")
			if n := m.pids(id, "main"); len(n) != 1 {
				t.Errorf("the task has run %d times: %s", len(n), m.events(id, "main"))
			}
			dir := filepath.Join(m.dir, "alloc", id)
			list, err := os.ReadFile(filepath.Join(dir, "main/local/list"))
			if got := strings.Join(strings.Fields(string(list)), " "); err != nil || got != "local: app list pids t local/app: app" {
				t.Errorf("it saw %q, %v", got, err)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, ".fetch/*")); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			a.kill()
		})
	}
}
