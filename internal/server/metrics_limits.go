package server

import (
	"berth/internal/limit"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	limitMost    = gauge("limit.allowed", "A limit in force, as docs/limits.md lists them.", "limit")
	limitPeak    = gauge("limit.peak", "The highest use of a limit since the scrape before the last.", "limit")
	limitRefused = gauge("limit.refused", "How often something was refused because of a limit since the process started.", "limit")
)

// limits collects how much is used of the limits of this process.
type limits struct{}

// Describe implements prometheus.Collector. It sends nothing, as metrics does.
func (limits) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector. A limit that nothing came near to since
// the process started is left out.
func (limits) Collect(ch chan<- prometheus.Metric) {
	for _, s := range limit.Samples() {
		if s.Most > 0 {
			ch <- prometheus.MustNewConstMetric(limitMost.desc, prometheus.GaugeValue, float64(s.Most), s.Name)
			ch <- prometheus.MustNewConstMetric(limitPeak.desc, prometheus.GaugeValue, float64(s.Peak), s.Name)
		}
		if s.Most > 0 || s.Refused > 0 {
			ch <- prometheus.MustNewConstMetric(limitRefused.desc, prometheus.CounterValue, float64(s.Refused), s.Name)
		}
	}
}
