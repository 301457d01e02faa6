package server

import (
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"berth"
	"berth/internal/api"
	"berth/internal/limit"
	"berth/internal/state"
	"berth/internal/statsd"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
)

// metrics are the metrics of a server, collected on request. A metric that means
// the same as one of Nomad's has the same name, so that dashboards keep working.
type metrics struct {
	server      *Server
	registry    *prometheus.Registry // of this server alone, so that tests can run several
	shown       *statsd.Filter       // of the registry, as the configuration wants it
	intervals   *intervals           // nil in an agent that is not a server
	submissions *submissions         // the same
}

// newMetrics returns the metrics of a server. They read its state when they are
// asked for.
func newMetrics(s *Server) *metrics {
	m := processMetrics(s.config.Metrics)
	m.server, m.intervals, m.submissions = s, newIntervals(), newSubmissions()
	m.registry.MustRegister(m, m.intervals.histogram, m.submissions.histogram)
	if h := s.config.LocalHost; h != nil {
		m.addHost(h, s.config.Metrics)
	}
	return m
}

// MetricsFilter says which metrics there are.
type MetricsFilter struct {
	// Rules say how names begin of metrics that there are, as in "+nomad.raft", or
	// that there are not, as in "-nomad.state". The longest that fits decides.
	Rules []string
	Only  bool // there are no others

	Allocs bool // there are metrics of each task of the node
}

// goMetrics are those of the process. They are made once, since tests start many
// servers.
var goMetrics = sync.OnceValue(func() prometheus.Collector { return collectors.NewGoCollector() })

// processMetrics returns the metrics that every agent has: those of a Go process,
// and its limits.
func processMetrics(f MetricsFilter) *metrics {
	m := &metrics{registry: prometheus.NewRegistry()}
	m.shown = statsd.NewFilter(m.registry, MetricName, f.Rules, !f.Only)
	m.registry.MustRegister(goMetrics(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), limits{})
	return m
}

// ProcessMetrics returns the metrics of an agent that is not a server: those of
// its process, and those of the machine unless host is nil.
func ProcessMetrics(host HostSource, f MetricsFilter) api.MetricsSource {
	m := processMetrics(f)
	if host != nil {
		m.addHost(host, f)
	}
	return m
}

// Gatherer returns the registry of metrics that the functions of this package have
// returned, for anyone who sends them elsewhere. Metrics of all namespaces are there.
func Gatherer(of api.MetricsSource) prometheus.Gatherer { return of.(*metrics).shown }

// MetricName returns the dotted name of a metric, as it is in JSON, for the name
// that it has in Prometheus. Metrics of the process come from a library and have
// no dotted name of their own.
func MetricName(flat string) string {
	if name := jsonNames[flat]; name != "" {
		return name
	}
	return strings.ReplaceAll(flat, "_", ".")
}

// figure describes one of our metrics.
type figure struct {
	desc   *prometheus.Desc
	labels []string // their names, in the order of the values
}

// jsonNames maps the Prometheus name of a metric to its name in JSON. The
// mapping is needed because an underscore may stand for a dot or for itself.
var jsonNames = map[string]string{}

// gauge describes a metric under its dotted name, and records that name for
// JSON. It is for package variables only: the map has no lock.
func gauge(name, help string, labels ...string) figure {
	name = "nomad." + name
	flat := strings.ReplaceAll(name, ".", "_")
	jsonNames[flat] = name
	return figure{prometheus.NewDesc(flat, help, labels, nil), labels}
}

var (
	stateIndex    = gauge("state.snapshotIndex", "Index of the newest committed state.")
	raftTerm      = gauge("raft.term", "Term of the raft log.")
	raftLast      = gauge("raft.lastIndex", "Last index of the raft log.")
	raftApplied   = gauge("raft.appliedIndex", "Last index of the raft log that is applied.")
	raftBytes     = gauge("raft.log.bytes_appended", "Bytes appended to the raft log since the server started.")
	raftDisk      = gauge("raft.log.bytes_on_disk", "Bytes of the raft log's files on disk.")
	isLeader      = gauge("raft.leader", "1 if this server leads.")
	rowCount      = gauge("state.rows", "Rows in a table of the state.", "table")
	brokerReady   = gauge("nomad.broker.total_ready", "Evaluations ready for a worker.")
	brokerPending = gauge("nomad.broker.total_pending", "Evaluations that wait for another evaluation of the same job.")
	brokerUnacked = gauge("nomad.broker.total_unacked", "Evaluations that a worker holds.")
	brokerWaiting = gauge("nomad.broker.total_waiting", "Evaluations that wait until a set time.")
	blockedTotal  = gauge("nomad.blocked_evals.total_blocked", "Evaluations that wait for capacity.")
	blockedQuota  = gauge("nomad.blocked_evals.total_quota_limit", "Evaluations that wait for room in a quota.")
	quarantined   = gauge("nomad.broker.total_quarantined", "Jobs that are tried later and later, because deciding them takes too much work.")
	nodesHeld     = gauge("heartbeat.held", "Nodes that missed their heartbeat and are not marked down, because many missed it at once.")
	nodeAlarms    = gauge("heartbeat.alarms", "How often in this term many nodes missed their heartbeat at once.")
	planCount     = gauge("nomad.plan.submitted", "Plans submitted during this term.")
	planQueue     = gauge("nomad.plan.queue_depth", "Plans that are not committed yet.")
	planRefused   = gauge("nomad.plan.node_rejected", "Placements refused during this term, by node and kind of reason.", "node_id", "reason")
	streamRefused = gauge("stream.refused", "Commands about stream jobs and deletions refused as outdated since the server started, by code.", "code")
	listEncoded   = gauge("list.encodings", "Lists that were encoded since the server started, each for everyone who asked the same.")
	listAnswers   = gauge("list.answers", "Answers that were given out of them.")
	listRows      = gauge("list.rows_encoded", "Rows of lists that were encoded since the server started.")
	listReused    = gauge("list.rows_reused", "Rows of lists taken over from the encoding before, since the server started.")
	listKept      = gauge("list.kept_bytes", "Memory of the lists that are kept for later requests.")
	workerCount   = gauge("nomad.worker.count", "Scheduling workers of this server, by what they do.", "status")
	nodeCount     = gauge("nomad.nodes", "Nodes, by status and eligibility.", "status", "eligibility")
	uptime        = gauge("uptime", "Seconds since the server started.")
)

// The allocations of a job's groups, by status.
var (
	jobQueued   = summary("queued")
	jobComplete = summary("complete")
	jobFailed   = summary("failed")
	jobRunning  = summary("running")
	jobStarting = summary("starting")
	jobLost     = summary("lost")
	jobUnknown  = summary("unknown")
)

// summary describes the count of allocations in one status.
func summary(status string) figure {
	return gauge("nomad.job_summary."+status, "Allocations of a job's group that are "+status+".", "job", "namespace", "task_group")
}

// Describe implements prometheus.Collector. It sends nothing, because the set of
// metrics depends on the state.
func (m *metrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	// The metrics are described nowhere, so each is sent with its description.
	put := func(f figure, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(f.desc, prometheus.GaugeValue, v, labels...)
	}
	s := m.server
	snap, raft := s.store.Snapshot(), s.consensus.Stats()
	put(stateIndex, float64(snap.Index))
	put(raftTerm, float64(raft.Term))
	put(raftLast, float64(raft.LastIndex))
	put(raftApplied, float64(raft.AppliedIndex))
	put(raftBytes, float64(raft.Appended))
	put(raftDisk, float64(raft.OnDisk))
	put(uptime, time.Since(s.started).Seconds())
	for _, t := range []state.Table{state.Namespaces, state.Nodes, state.Jobs, state.Evals, state.Allocs, state.Deployments} {
		put(rowCount, float64(snap.Count(t)), t.String())
	}
	count := func(f figure, n uint64) {
		ch <- prometheus.MustNewConstMetric(f.desc, prometheus.CounterValue, float64(n))
	}
	lists := s.api.ListStats()
	count(listEncoded, lists.Encodings)
	count(listAnswers, lists.Answers)
	count(listRows, lists.RowsEncoded)
	count(listReused, lists.RowsReused)
	put(listKept, float64(lists.Bytes))
	for code, n := range s.refused.Count() {
		ch <- prometheus.MustNewConstMetric(streamRefused.desc, prometheus.CounterValue, float64(n), string(code))
	}
	m.jobs(snap, put)
	m.streams(snap, put)
	m.workersAndNodes(snap, put)
	// All that follows is known to the leader alone.
	t := s.term.Load()
	if t == nil {
		put(isLeader, 0)
		return
	}
	put(isLeader, 1)
	b := t.broker.Stats()
	ready := 0
	for _, n := range b.Ready {
		ready += n
	}
	put(brokerReady, float64(ready))
	put(brokerPending, float64(b.Waiting))
	put(brokerUnacked, float64(b.Held))
	put(brokerWaiting, float64(b.Delayed))
	put(blockedTotal, float64(b.Blocked))
	put(blockedQuota, float64(b.QuotaLimited))
	put(quarantined, float64(b.Quarantined))
	m.replication(t.replica, put)
	held, alarms := t.heartbeat.Silent()
	put(nodesHeld, float64(held))
	put(nodeAlarms, float64(alarms))
	// Refused placements are told by node, which points at the one node that is
	// at fault.
	plans, refused := t.planner.Stats()
	put(planCount, float64(plans))
	put(planQueue, float64(t.planner.Queued()))
	for node, kinds := range refused {
		for kind, n := range kinds {
			put(planRefused, float64(n), node.String(), string(kind))
		}
	}
}

// maxJobSeries is how many jobs have metrics of their own. Further jobs are left
// out.
const maxJobSeries = 1000

var seriesLimit = limit.Declare(limit.Info{
	Name: "job_metric_series", Of: "Jobs with metrics of their own", Unit: limit.Count, Default: maxJobSeries, Beyond: "the other jobs have none",
})

// jobs puts the counts of the first maxJobSeries jobs, group by group.
func (m *metrics) jobs(snap *state.Snapshot, put func(figure, float64, ...string)) {
	seriesLimit.Use(int64(min(snap.Count(state.Jobs), maxJobSeries)), maxJobSeries)
	n := 0
	for j := range snap.Jobs(berth.AllNamespaces, "") {
		if n++; n > maxJobSeries {
			seriesLimit.Refuse("jobs", snap.Count(state.Jobs))
			return
		}
		for _, g := range snap.Summary(j.Key()).Groups {
			for _, c := range []struct {
				f figure
				n int
			}{{jobQueued, g.Queued}, {jobComplete, g.Complete}, {jobFailed, g.Failed}, {jobRunning, g.Running}, {jobStarting, g.Starting}, {jobLost, g.Lost}, {jobUnknown, g.Unknown}} {
				put(c.f, float64(c.n), string(j.ID), j.Namespace, g.Group)
			}
		}
	}
}

// ServePrometheus implements api.MetricsSource.
func (m *metrics) ServePrometheus(w http.ResponseWriter, r *http.Request, visible func(namespace string) bool) {
	promhttp.HandlerFor(shown{m.shown, visible}, promhttp.HandlerOpts{}).ServeHTTP(w, r)
}

// shown gathers metrics without those of namespaces that must not be seen.
type shown struct {
	prometheus.Gatherer
	visible func(namespace string) bool
}

// Gather implements prometheus.Gatherer.
func (s shown) Gather() ([]*dto.MetricFamily, error) {
	// What a failed collector could not give must not hide the rest, so there may
	// be both families and an error.
	families, err := s.Gatherer.Gather()
	return slices.DeleteFunc(families, func(f *dto.MetricFamily) bool {
		f.Metric = slices.DeleteFunc(f.Metric, func(x *dto.Metric) bool {
			return slices.ContainsFunc(x.GetLabel(), func(l *dto.LabelPair) bool {
				return l.GetName() == "namespace" && !s.visible(l.GetValue())
			})
		})
		return len(f.Metric) == 0
	}), err
}

// jsonMetrics is the form that Nomad's clients read.
type jsonMetrics struct {
	Timestamp string // of the answer, in UTC
	Gauges    []jsonGauge
	Points    []jsonGauge // none
	Counters  []jsonCounter
	Samples   []jsonCounter // none
}

// jsonGauge is one value at the time of the request.
type jsonGauge struct {
	Name   string
	Value  float64
	Labels map[string]string
}

// jsonCounter is a counter, or a summary of samples, since the process started.
type jsonCounter struct {
	Name                              string
	Count                             int
	Rate, Sum, Min, Max, Mean, Stddev float64
	Labels                            map[string]string
}

// ServeJSON implements api.MetricsSource.
func (m *metrics) ServeJSON(visible func(namespace string) bool) any {
	out := jsonMetrics{
		Timestamp: time.Now().UTC().Format("2006-01-02 15:04:05 +0000 UTC"),
		Gauges:    []jsonGauge{}, Points: []jsonGauge{}, Counters: []jsonCounter{}, Samples: []jsonCounter{},
	}
	// A failed collector must not hide the others: Gather returns both.
	families, _ := shown{m.shown, visible}.Gather()
	for _, f := range families {
		name := MetricName(f.GetName())
		for _, x := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range x.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			switch f.GetType() {
			case dto.MetricType_GAUGE:
				out.Gauges = append(out.Gauges, jsonGauge{name, x.GetGauge().GetValue(), labels})
			case dto.MetricType_COUNTER:
				v := x.GetCounter().GetValue()
				out.Counters = append(out.Counters, jsonCounter{Name: name, Count: int(v), Sum: v, Labels: labels})
			}
		}
	}
	if m.intervals != nil && m.shown.Keeps(intervalJSON) {
		out.Samples = m.intervals.samples()
	}
	if m.submissions != nil && m.shown.Keeps(submissionJSON) {
		out.Samples = append(out.Samples, m.submissions.sample())
	}
	// Nomad has this one under a name of its own, which dashboards ask for.
	const allocated = "nomad.runtime.alloc_bytes"
	if m.shown.Keeps(allocated) {
		var mem runtime.MemStats
		runtime.ReadMemStats(&mem)
		out.Gauges = append(out.Gauges, jsonGauge{allocated, float64(mem.Alloc), map[string]string{}})
	}
	return out
}
