package server_test

import (
	"encoding/json"
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
	// How long it took until it was submitted is in both formats.
	r.until("the submission is measured", func() bool {
		_, _, text = r.call("GET", "/v1/metrics?format=prometheus", nil)
		return strings.Contains(text, "\nnomad_stream_job_submission_seconds_count 1\n")
	})
	_, _, text = r.call("GET", "/v1/metrics", nil)
	var out struct {
		Samples []struct {
			Name      string
			Count     int
			Sum, Mean float64
		}
	}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	for _, s := range out.Samples {
		if s.Name == "nomad.stream.job.submission" {
			if s.Count != 1 || s.Sum <= 0 || s.Mean != s.Sum {
				t.Errorf("%+v", s)
			}
			return
		}
	}
	t.Errorf("the samples lack it: %s", text)
}
