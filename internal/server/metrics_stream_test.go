package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// How far a stream job has come, and how often it began again, can be watched.
func TestStreamJobsHaveMetrics(t *testing.T) {
	r := start(t, t.TempDir())
	r.puppet(1)
	r.example("telemetry")
	r.submitted("telemetry", 0)
	code, _, text := r.call("GET", "/v1/metrics?format=prometheus", nil)
	if code != http.StatusOK {
		t.Fatalf("%d %s", code, text)
	}
	for metric, want := range map[string]string{
		`stream_job_phase{job="telemetry",namespace="default",phase="Submitted"}`:  "1",
		`stream_job_phase{job="telemetry",namespace="default",phase="Submission"}`: "0",
		`stream_job_recoveries{job="telemetry",namespace="default"}`:               "0",
		`stream_job_elements{job="telemetry",namespace="default",state="planned"}`: "5",
		`stream_job_elements{job="telemetry",namespace="default",state="created"}`: "5",
		`stream_job_elements{job="telemetry",namespace="default",state="ready"}`:   "0",
		`stream_job_launches{job="telemetry",namespace="default"}`:                 "5",
		`stream_job_generation{job="telemetry",namespace="default"}`:               "0",
	} {
		if line := fmt.Sprintf("\nnomad_%s %s\n", metric, want); !strings.Contains(text, line) {
			t.Errorf("the metrics lack %q", strings.TrimSpace(line))
		}
	}
}
