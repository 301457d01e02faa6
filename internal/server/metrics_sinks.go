package server

import (
	"berth/internal/agent/ship"
)

// sinkSource tells how the log sinks of a node are.
type sinkSource interface {
	SinkCounts() map[string]*ship.Counts
}

// Metrics of log sinks. Nomad has none.
var (
	sinkLines   = hostGauge("log_sink.lines", "Lines that the sink has taken.", "sink")
	sinkFailed  = hostGauge("log_sink.failed", "Attempts to send lines that failed. The lines are sent again.", "sink")
	sinkRefused = hostGauge("log_sink.refused", "Lines that the sink refused for good.", "sink")
	sinkLost    = hostGauge("log_sink.lost_files", "Files of tasks that were rotated away before the sink took them.", "sink")
	sinkWaiting = hostGauge("log_sink.waiting", "Lines in memory that wait for the sink.", "sink")
)

// sinks reports the metrics of log sinks.
func sinks(source any, put func(f figure, v float64, labels ...string)) {
	s, ok := source.(sinkSource)
	if !ok {
		return
	}
	for name, c := range s.SinkCounts() {
		put(sinkLines, float64(c.Lines.Load()), name)
		put(sinkFailed, float64(c.Failed.Load()), name)
		put(sinkRefused, float64(c.Refused.Load()), name)
		put(sinkLost, float64(c.Lost.Load()), name)
		put(sinkWaiting, float64(c.Waiting.Load()), name)
	}
}
