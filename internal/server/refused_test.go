package server_test

import (
	"net/http"
	"strings"
	"testing"

	"berth"
	"berth/internal/state"
)

// What was decided too late about stream jobs is told with the metrics, in both
// formats, by its code.
func TestRefusalsAreShown(t *testing.T) {
	r := start(t, t.TempDir())
	r.up("web", 0)
	lead, err := r.server.Leader()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := lead.Propose(t.Context(), &state.LaunchPE{PE: berth.UID{Index: 1}}); berth.CodeOf(err) != berth.CodeOwnerMissing {
			t.Fatalf("refused as %v", err)
		}
	}
	var out struct {
		Counters []struct {
			Name   string
			Count  int
			Labels map[string]string
		}
	}
	r.good("GET", "/v1/metrics", &out)
	shown := 0
	for _, c := range out.Counters {
		if c.Name == "nomad.stream.refused" && c.Labels["code"] == string(berth.CodeOwnerMissing) {
			shown += c.Count
		}
	}
	if shown != 2 {
		t.Errorf("shown are %d; counters are %+v", shown, out.Counters)
	}
	if code, _, text := r.call("GET", "/v1/metrics?format=prometheus", nil); code != http.StatusOK || !strings.Contains(text, `nomad_stream_refused{code="owner-missing"} 2`) {
		t.Errorf("%d %s", code, text)
	}
}
