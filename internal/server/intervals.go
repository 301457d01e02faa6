package server

import (
	"math"
	"sync"
	"time"

	"berth"
	"berth/internal/leader/broker"

	"github.com/prometheus/client_golang/prometheus"
)

// intervals measures how long evaluations spend in each stage, while this server
// leads. An evaluation is counted once, when it has ended.
type intervals struct {
	histogram *prometheus.HistogramVec

	mu  sync.Mutex
	sum [len(intervalNames)]sample // the same figures for JSON, by stage
}

// intervalNames are the stages of an evaluation, in order.
var intervalNames = [...]string{"created-enqueued", "enqueued-dequeued", "dequeued-planned", "planned-applied", "applied-acked"}

// The names under which both formats have them.
const (
	intervalMetric = "nomad_nomad_eval_interval_seconds" // in Prometheus, in seconds
	intervalJSON   = "nomad.nomad.eval.interval"         // in ms, like all JSON samples
)

// sample summarizes values without keeping them.
type sample struct {
	n                  int
	sum, squares       float64 // of the values, and of their squares
	smallest, greatest float64
}

// newIntervals returns empty intervals. The caller registers the histogram.
func newIntervals() *intervals {
	v := &intervals{histogram: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    intervalMetric,
		Help:    "Seconds that evaluations spent between two stages.",
		Buckets: prometheus.ExponentialBuckets(10e-6, 4, 12), // 10 µs to 42 s
	}, []string{"interval"})}
	for _, name := range intervalNames {
		v.histogram.WithLabelValues(name) // present from the start, so that rates can be computed
	}
	return v
}

// observe counts an evaluation that ended. Stages that it skipped do not count,
// nor does the time it had to wait for capacity or until it was due.
func (v *intervals) observe(e broker.Ended) {
	t := e.Timeline
	created, ready := e.CreateTime, t.Enqueued
	if e.TriggeredBy == berth.TriggerQueuedAllocs || e.TriggeredBy == berth.TriggerMaxPlanAttempts {
		created = 0 // it was created blocked
	}
	if ready > 0 {
		ready = max(ready, e.WaitUntil)
	}
	for i, part := range [len(intervalNames)][2]int64{{created, t.Enqueued}, {ready, t.Dequeued}, {t.Dequeued, t.Planned}, {t.Planned, t.Applied}, {t.Applied, e.Acked}} {
		if part[0] > 0 && part[1] > 0 {
			v.add(i, time.Duration(max(0, part[1]-part[0]))) // clocks of two servers may differ
		}
	}
}

// add counts one stay in the stage with that number in intervalNames.
func (v *intervals) add(i int, d time.Duration) {
	v.histogram.WithLabelValues(intervalNames[i]).Observe(d.Seconds())
	v.mu.Lock()
	defer v.mu.Unlock()
	v.sum[i].add(d)
}

// add counts a duration, in ms.
func (s *sample) add(d time.Duration) {
	ms := float64(d) / float64(time.Millisecond)
	if s.n == 0 || ms < s.smallest {
		s.smallest = ms
	}
	s.greatest = max(s.greatest, ms)
	s.n++
	s.sum += ms
	s.squares += ms * ms
}

// json returns the sample in the form of the JSON metrics.
func (s *sample) json(name string, labels map[string]string) jsonCounter {
	c := jsonCounter{Name: name, Count: s.n, Sum: s.sum, Min: s.smallest, Max: s.greatest, Labels: labels}
	if n := float64(s.n); n > 0 {
		c.Mean = s.sum / n
		c.Stddev = math.Sqrt(max(0, s.squares/n-c.Mean*c.Mean))
	}
	return c
}

// samples returns the intervals in the form of the JSON metrics.
func (v *intervals) samples() []jsonCounter {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := []jsonCounter{}
	for i := range v.sum {
		out = append(out, v.sum[i].json(intervalJSON, map[string]string{"interval": intervalNames[i]}))
	}
	return out
}
