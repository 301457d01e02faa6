//go:build faults

package fetch

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"berth/internal/agent/isolate/isolatetest"
	"berth/internal/eventually"
	"berth/internal/failpoint"
	"berth/internal/saferoot"
)

// The process that fetches is killed at each step, also in the middle of a download.
// That is an error after which another try may go well, nothing is placed and nothing
// is left. The next try places it, once.
func TestTheFetcherIsKilledAtEachStep(t *testing.T) {
	whole := tarGz(t, entry{name: "app", text: strings.Repeat("app\n", 100000)}, entry{name: "lib/x", text: "x"})
	for _, step := range []string{"half", "fetch/downloaded", "fetch/unpacked"} {
		t.Run(strings.TrimPrefix(step, "fetch/"), func(t *testing.T) {
			if step != "half" {
				t.Setenv(failpoint.Env, step+"=hang")
			}
			asked := make(chan struct{}, 10)
			first := true
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if step == "half" && first {
					first = false
					w.Header().Set("Content-Length", fmt.Sprint(len(whole)))
					_, _ = w.Write(whole[:len(whole)/2])
					w.(http.Flusher).Flush()
					asked <- struct{}{}
					<-r.Context().Done()
					return
				}
				_, _ = w.Write(whole)
				asked <- struct{}{}
			}))
			defer s.Close()
			r := newRig(t, Config{Env: []string{failpoint.Env}})
			ended := make(chan error, 1)
			go func() { ended <- r.get(t, Artifact{Source: s.URL + "/app.tgz"}, "task/local") }()
			<-asked
			if step != "half" { // it hangs where it should
				name := map[string]string{"fetch/downloaded": rawName, "fetch/unpacked": treeName + "/lib/x"}[step]
				eventually.True(t, name+" is there", func() bool {
					there, _ := filepath.Glob(r.root.Path() + "/.fetch/*/" + name)
					st, err := os.Stat(append(there, "/nowhere")[0])
					return err == nil && st.Size() >= int64(map[string]int{rawName: len(whole)}[name])
				})
			}
			var pids []int
			eventually.True(t, "it runs", func() bool { pids = isolatetest.Helpers(t, Word); return len(pids) == 1 })
			if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; err == nil || errors.Is(err, ErrBad) || !strings.Contains(err.Error(), "it was killed") {
				t.Errorf("killed, it says %v", err)
			}
			if got := r.tree(t); got != "" {
				t.Errorf("placed: %.100s", got)
			}
			nothingIsLeft(t, r.root)
			t.Setenv(failpoint.Env, "")
			if err := r.get(t, Artifact{Source: s.URL + "/app.tgz"}, "task/local"); err != nil {
				t.Fatal(err)
			}
			if got := r.tree(t); strings.Count(got, "\n") != 100000+1 || !strings.HasSuffix(got, "local/lib/x -rw-r--r-- x") {
				t.Errorf("it became %.100s", got)
			}
			nothingIsLeft(t, r.root)
		})
	}
}

// nothingIsLeft fails the test if a process or a file of a fetch is left.
func nothingIsLeft(t *testing.T, root *saferoot.Root) {
	t.Helper()
	eventually.True(t, "no process is left", func() bool { return len(isolatetest.Helpers(t, Word)) == 0 })
	if left, err := root.ReadDir(workDir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
