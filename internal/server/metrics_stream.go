package server

import (
	"sync"
	"time"

	"berth"
	"berth/internal/state"

	"github.com/prometheus/client_golang/prometheus"
)

// The metrics of stream jobs.
var (
	streamPhase      = gauge("stream.job.phase", "1 for the phase that a stream job is in, 0 for the others.", "job", "namespace", "phase")
	streamGeneration = gauge("stream.job.generation", "Generation of a stream job.", "job", "namespace")
	streamRecoveries = gauge("stream.job.recoveries", "How often a stream job was created again because its submission was interrupted or took too long.", "job", "namespace")
	streamRetries    = gauge("stream.job.retries", "How many of the recoveries of a stream job were timeouts.", "job", "namespace")
	streamElements   = gauge("stream.job.elements", "Processing elements of a stream job: planned, created, running, and ready, which run with all connections.", "job", "namespace", "state")
	streamLaunches   = gauge("stream.job.launches", "Launches of the processing elements that a stream job has.", "job", "namespace")
)

// The names under which both formats have the time that first submissions took.
const (
	submissionMetric = "nomad_stream_job_submission_seconds"
	submissionJSON   = "nomad.stream.job.submission" // in ms
)

// submissions measures how long stream jobs take from their registration until
// they are submitted for the first time, while this server leads.
type submissions struct {
	histogram prometheus.Histogram

	mu  sync.Mutex
	sum sample // the same for JSON
}

// newSubmissions returns a measure that has seen nothing. The caller registers
// the histogram.
func newSubmissions() *submissions {
	return &submissions{histogram: prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: submissionMetric, Help: "Seconds from the registration of stream jobs until they were submitted.",
		Buckets: prometheus.ExponentialBuckets(0.05, 2, 14), // 50 ms to 7 min
	})}
}

// observe counts a job that was submitted.
func (v *submissions) observe(d time.Duration) {
	v.histogram.Observe(d.Seconds())
	v.mu.Lock()
	defer v.mu.Unlock()
	v.sum.add(d)
}

// sample returns what was measured in the form of the JSON metrics.
func (v *submissions) sample() jsonCounter {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.sum.json(submissionJSON, map[string]string{})
}

// streamPhases are all phases of a stream job.
var streamPhases = []string{berth.PhaseSubmission, berth.PhaseSubmitted, berth.PhaseFailed, berth.PhaseStopped}

// streams puts the metrics of the first maxJobSeries stream jobs.
func (m *metrics) streams(snap *state.Snapshot, put func(figure, float64, ...string)) {
	n := 0
	for row := range snap.StreamJobs() {
		j := snap.Job(row.Key)
		if j == nil || j.UID != row.UID { // only its objects are left
			continue
		}
		if n++; n > maxJobSeries {
			return
		}
		id, space := string(row.Key.ID), row.Key.Namespace
		for _, phase := range streamPhases {
			v := 0.0
			if row.Phase == phase {
				v = 1
			}
			put(streamPhase, v, id, space, phase)
		}
		put(streamGeneration, float64(row.Generation), id, space)
		put(streamRecoveries, float64(row.Recovery.Count), id, space)
		put(streamRetries, float64(row.Retries), id, space)
		e := countElements(snap, row)
		put(streamElements, float64(e.planned), id, space, "planned")
		put(streamElements, float64(e.created), id, space, "created")
		put(streamElements, float64(e.running), id, space, "running")
		put(streamElements, float64(e.ready), id, space, "ready")
		put(streamLaunches, float64(e.launches), id, space)
	}
}

// elementCounts counts the processing elements of a stream job.
type elementCounts struct {
	planned, created, running, ready int
	launches                         uint64
}

// countElements goes through the processing elements and allocations of a job.
func countElements(snap *state.Snapshot, row *berth.StreamJob) (c elementCounts) {
	if row.Plan != nil {
		c.planned = len(row.Plan.Of(berth.KindPE))
	}
	running := map[berth.PERef]bool{}
	for a := range snap.AllocsOf(row.Key) {
		if ref := a.Rest().PE; ref != nil && a.Live() && a.Client == berth.ClientRunning {
			running[*ref] = true
		}
	}
	for pe := range snap.ResourcesOf(row.UID, berth.KindPE) {
		c.created++
		c.launches += pe.PE.Launch
		if running[berth.PERef{UID: pe.UID, Launch: pe.PE.Launch}] {
			c.running++
			if pe.PE.Connectivity == berth.ConnectivityFull {
				c.ready++
			}
		}
	}
	return c
}
