// Package statsd sends metrics to servers that listen for StatsD: plain StatsD
// over UDP, statsite over TCP, and DogStatsD over UDP with tags. It reads a
// registry at each interval and sends what it finds. A server that is slow or
// absent costs the metrics of that interval and nothing else: no caller ever
// waits for it.
package statsd

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Kind is how a server takes metrics.
type Kind string

// The kinds of servers.
const (
	Statsd   Kind = "statsd"   // UDP; the values of labels are parts of names
	Statsite Kind = "statsite" // the same over TCP
	Datadog  Kind = "datadog"  // UDP; labels are tags
)

// Sink is one server that gets metrics.
type Sink struct {
	Kind     Kind
	Address  string // host:port
	Interval time.Duration
	Gather   prometheus.Gatherer
	Name     func(flat string) string // the dotted name of a metric of Gather
	Host     string                   // part of the names of gauges, or the tag host; "" is left out
	Tags     []string                 // of all metrics; for Datadog only
	Log      *slog.Logger

	last   map[string]float64 // of counters, by what identifies them
	failed bool               // the last interval failed, which has been logged
	conn   net.Conn
}

const (
	// maxPacket is the size of a UDP packet that no common network splits.
	maxPacket = 1400
	// patience bounds what one interval may take to connect and to send.
	patience = 5 * time.Second
)

// Run sends metrics until ctx ends.
func (s *Sink) Run(ctx context.Context) {
	tick := time.NewTicker(s.Interval)
	defer tick.Stop()
	defer s.hangUp()
	for {
		if err := s.Send(ctx); err != nil && ctx.Err() == nil {
			if !s.failed {
				s.Log.Warn("metrics cannot be sent; further attempts are made and not logged", "to", string(s.Kind), "address", s.Address, "error", err)
			}
			s.failed = true
		} else if err == nil && s.failed {
			s.failed = false
			s.Log.Info("metrics are sent again", "to", string(s.Kind), "address", s.Address)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// hangUp closes the connection.
func (s *Sink) hangUp() {
	if s.conn != nil {
		_ = s.conn.Close() // what was not sent is lost either way
		s.conn = nil
	}
}

// Send sends the metrics as they are now. It is for one goroutine.
func (s *Sink) Send(ctx context.Context) error {
	families, err := s.Gather.Gather()
	if err != nil && len(families) == 0 {
		return err
	}
	if s.conn == nil {
		network := "udp"
		if s.Kind == Statsite {
			network = "tcp"
		}
		dialer := net.Dialer{Timeout: patience}
		if s.conn, err = dialer.DialContext(ctx, network, s.Address); err != nil {
			s.conn = nil
			return err
		}
	}
	if err := s.conn.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	for _, packet := range pack(s.lines(families)) {
		if _, err := s.conn.Write(packet); err != nil {
			s.hangUp()
			return err
		}
	}
	return nil
}

// lines returns the lines for the metrics. Counters are sent by how much they
// grew since the lines before; what did not grow is left out.
func (s *Sink) lines(families []*dto.MetricFamily) (out []string) {
	if s.last == nil {
		s.last = map[string]float64{}
	}
	seen := map[string]float64{}
	for _, f := range families {
		name := s.Name(f.GetName())
		for _, m := range f.GetMetric() {
			labels := m.GetLabel()
			grown := func(suffix string, total float64) (by float64) {
				key := name + suffix
				for _, l := range labels {
					key += "\xff" + l.GetName() + "\xff" + l.GetValue()
				}
				seen[key] = total
				before, known := s.last[key]
				if !known || total < before {
					return total // since the process started
				}
				return total - before
			}
			switch f.GetType() {
			case dto.MetricType_GAUGE:
				out = s.line(out, name, labels, m.GetGauge().GetValue(), "g")
			case dto.MetricType_COUNTER:
				if by := grown("", m.GetCounter().GetValue()); by > 0 {
					out = s.line(out, name, labels, by, "c")
				}
			case dto.MetricType_HISTOGRAM, dto.MetricType_SUMMARY:
				count, sum := float64(m.GetHistogram().GetSampleCount()), m.GetHistogram().GetSampleSum()
				if f.GetType() == dto.MetricType_SUMMARY {
					count, sum = float64(m.GetSummary().GetSampleCount()), m.GetSummary().GetSampleSum()
				}
				n, all := grown(".count", count), grown(".sum", sum)
				if n > 0 {
					// Durations are seconds in Prometheus, and milliseconds here.
					out = s.line(out, name+".count", labels, n, "c")
					out = s.line(out, name, labels, all/n*1000, "ms")
				}
			}
		}
	}
	s.last = seen
	return out
}

// line appends one line, unless its value is not a number.
func (s *Sink) line(out []string, name string, labels []*dto.LabelPair, value float64, kind string) []string {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return out
	}
	number := strconv.FormatFloat(value, 'f', -1, 64)
	if s.Kind == Datadog {
		tags := slices.Clone(s.Tags)
		if s.Host != "" {
			tags = append(tags, "host:"+word(s.Host))
		}
		for _, l := range labels {
			tags = append(tags, word(l.GetName())+":"+word(l.GetValue()))
		}
		line := word(name) + ":" + number + "|" + kind
		if len(tags) > 0 {
			line += "|#" + strings.Join(tags, ",")
		}
		return append(out, line)
	}
	if first, rest, ok := strings.Cut(name, "."); s.Host != "" && kind == "g" && ok {
		name = first + "." + strings.ReplaceAll(s.Host, ".", "_") + "." + rest
	}
	for _, l := range labels {
		name += "." + strings.ReplaceAll(cmp.Or(l.GetValue(), "none"), ".", "_")
	}
	// A gauge that is negative would be taken for a change of it.
	if kind == "g" && value < 0 {
		out = append(out, word(name)+":0|g")
	}
	return append(out, word(name)+":"+number+"|"+kind)
}

// word replaces what separates the parts of a line.
func word(s string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || strings.ContainsRune(":|@#,", r) {
			return '_'
		}
		return r
	}, s)
}

// pack puts lines into packets, in order. A line that is longer than a packet has
// one of its own.
func pack(lines []string) (out [][]byte) {
	var b []byte
	for _, l := range lines {
		if len(b) > 0 && len(b)+len(l)+1 > maxPacket {
			out, b = append(out, b), nil
		}
		b = append(append(b, l...), '\n')
	}
	if len(b) > 0 {
		out = append(out, b)
	}
	return out
}

// Filter is a registry without the metrics that prefixes of their dotted names
// leave out.
type Filter struct {
	from     prometheus.Gatherer
	name     func(flat string) string
	prefixes []string        // the longest first
	keep     map[string]bool // whether metrics that begin so are there
	others   bool            // whether the others are
}

// NewFilter returns a filter for rules such as "+nomad.raft" and "-nomad.state".
// others: there are also metrics that no rule names.
func NewFilter(from prometheus.Gatherer, name func(flat string) string, rules []string, others bool) *Filter {
	f := &Filter{from: from, name: name, keep: map[string]bool{}, others: others}
	for _, r := range rules {
		if len(r) > 1 {
			f.keep[r[1:]] = r[0] == '+'
		}
	}
	f.prefixes = slices.SortedFunc(maps.Keys(f.keep), func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return f
}

// Keeps reports whether there is a metric with a dotted name: the longest prefix
// decides.
func (f *Filter) Keeps(name string) bool {
	for _, p := range f.prefixes {
		if strings.HasPrefix(name, p) {
			return f.keep[p]
		}
	}
	return f.others
}

// Gather implements prometheus.Gatherer.
func (f *Filter) Gather() ([]*dto.MetricFamily, error) {
	families, err := f.from.Gather()
	if len(f.prefixes) == 0 && f.others {
		return families, err
	}
	return slices.DeleteFunc(families, func(m *dto.MetricFamily) bool { return !f.Keeps(f.name(m.GetName())) }), err
}
