package api_test

import (
	"net/http"
	"testing"

	"berth"
	"berth/internal/api"
	"berth/op"
)

// hanging is the leader of a lone server whose disk hangs.
type hanging struct{ leader }

var errDisk = &berth.Error{Kind: berth.Unavailable, Code: berth.CodeDiskSlow, Err: errOver}

func (h hanging) Leader() (api.Leader, error) { return h, nil }
func (hanging) Writable() error               { return errDisk }

// While the disk of the only server hangs, reads and refusals are answered as
// ever. A write is refused at once, with the reason, and nothing is proposed.
func TestWritesWhileTheDiskHangs(t *testing.T) {
	s, log := serve(t, func(c *api.Config) { c.Cluster = hanging{c.Cluster.(leader)} })
	log.Must(t, small(t, "web", 1))
	index := log.Tip().Index
	for _, x := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/v1/job/web", "", http.StatusOK},
		{"GET", "/v1/jobs", "", http.StatusOK},
		{"PUT", "/v1/job/web/plan", aJob, http.StatusOK},
		{"DELETE", "/v1/resource/j-0000000000000009-00", "", http.StatusNotFound},
		{"PUT", "/v1/jobs", aJob, http.StatusServiceUnavailable},
		{"DELETE", "/v1/job/web", "", http.StatusServiceUnavailable},
	} {
		w := ask(s, x.method, x.path, x.body)
		if w.Code != x.status {
			t.Errorf("%s %s: %d %s", x.method, x.path, w.Code, w.Body)
		}
		if code := w.Header().Get(op.HeaderCode); x.status == http.StatusServiceUnavailable && code != string(berth.CodeDiskSlow) {
			t.Errorf("%s %s: the code is %q", x.method, x.path, code)
		}
	}
	if log.Tip().Index != index {
		t.Error("something was proposed")
	}
}
