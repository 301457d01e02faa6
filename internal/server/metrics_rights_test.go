package server_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
)

// Metrics name the jobs and namespaces that the caller may read, in both formats,
// and show everybody what is of no namespace.
func TestMetricsNameWhatTheCallerMayRead(t *testing.T) {
	r, root := guarded(t)
	for _, ns := range []string{"team-a", "team-b"} {
		if _, err := r.api.Namespaces().Register(&nomad.Namespace{Name: ns}, nil); err != nil {
			t.Fatal(err)
		}
		j := nomad.NewServiceJob("job-of-"+ns, "job-of-"+ns, "global", 50)
		j.AddTaskGroup(nomad.NewTaskGroup("g", 1).AddTask(nomad.NewTask("t", "raw_exec").SetConfig("command", "/bin/true")))
		if _, _, err := r.api.Jobs().Register(j, &nomad.WriteOptions{Namespace: ns}); err != nil {
			t.Fatal(err)
		}
	}
	a := r.token("a", `namespace "team-a" { policy = "read" }`, time.Hour).SecretID
	for _, path := range []string{"/v1/metrics", "/v1/metrics?format=prometheus"} {
		for token, want := range map[string][2]bool{root: {true, true}, a: {true, false}, "": {}, "unknown": {}} {
			req, err := http.NewRequest("GET", r.api.Address()+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("X-Nomad-Token", token)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != 200 {
				t.Fatal(resp.Status, err)
			}
			text := string(body)
			if got := [2]bool{strings.Contains(text, "team-a"), strings.Contains(text, "team-b")}; got != want {
				t.Errorf("%s with the token %q shows team-a, team-b: %v, want %v", path, token, got, want)
			}
			if !strings.Contains(text, "snapshotIndex") {
				t.Errorf("%s with the token %q shows nothing of the server", path, token)
			}
		}
	}
}
