package server_test

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A server says how many workers it has and what they do, and how many nodes
// there are.
func TestWorkersAndNodesHaveMetrics(t *testing.T) {
	r := start(t, t.TempDir())
	r.node(1)
	code, _, text := r.call("GET", "/v1/metrics?format=prometheus", nil)
	if code != http.StatusOK {
		t.Fatalf("%d %s", code, text)
	}
	nodes, workers := 0, 0
	for _, m := range regexp.MustCompile(`(?m)^nomad_nomad_(nodes|worker_count){.*} (\d+)$`).FindAllStringSubmatch(text, -1) {
		n, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		if m[1] == "nodes" {
			nodes += n
		} else {
			workers += n
		}
	}
	if !regexp.MustCompile(`(?m)^nomad_nomad_plan_queue_depth(\{.*\})? 0$`).MatchString(text) {
		t.Error("it does not say that no plan waits")
	}
	want := len(r.server.SchedulerWorkers().Schedulers)
	if nodes != 1 || want == 0 || workers != want {
		t.Errorf("%d nodes and %d workers instead of 1 and %d:\n%s", nodes, workers, want, strings.Join(regexp.MustCompile(`(?m)^nomad_nomad_(nodes|worker).*$`).FindAllString(text, -1), "\n"))
	}
}
