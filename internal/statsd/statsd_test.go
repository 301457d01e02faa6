package statsd

import (
	"bufio"
	"context"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// figures is a registry with one metric of each kind.
type figures struct {
	*prometheus.Registry
	gauge     *prometheus.GaugeVec
	counter   prometheus.Counter
	histogram prometheus.Histogram
}

func newFigures() *figures {
	f := &figures{
		prometheus.NewRegistry(), prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "nomad_a_b"}, []string{"job", "group"}),
		prometheus.NewCounter(prometheus.CounterOpts{Name: "nomad_c"}), prometheus.NewHistogram(prometheus.HistogramOpts{Name: "nomad_h"}),
	}
	f.MustRegister(f.gauge, f.counter, f.histogram)
	return f
}

func dotted(flat string) string { return strings.ReplaceAll(flat, "_", ".") }

// sink returns a sink to an address.
func (f *figures) sink(kind Kind, address string) *Sink {
	return &Sink{Kind: kind, Address: address, Interval: time.Hour, Gather: f, Name: dotted, Host: "n1.example", Tags: []string{"env:test"}, Log: slog.New(slog.DiscardHandler)}
}

// send sends once and returns what arrives at a UDP socket, sorted by line.
func sendAndRead(t *testing.T, s *Sink, at net.PacketConn) string {
	t.Helper()
	if err := s.Send(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 64<<10)
	n, _, err := at.ReadFrom(b)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(b[:n])), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func listenUDP(t *testing.T) net.PacketConn {
	t.Helper()
	at, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { at.Close() })
	return at
}

// What a StatsD server and one of Datadog get: gauges as they are, counters by
// how much they grew, histograms as count and mean; labels as parts of names or
// as tags, without what separates the parts of a line.
func TestLines(t *testing.T) {
	for kind, want := range map[Kind][2]string{
		Statsd: {
			"nomad.c:3|c\nnomad.h.count:2|c\nnomad.h:1500|ms\nnomad.n1_example.a.b.web_2.none:-1|g\nnomad.n1_example.a.b.web_2.none:0|g\nnomad.n1_example.a.b.web_x_y_z.g_1:2.5|g",
			"nomad.c:1|c\nnomad.n1_example.a.b.web_2.none:-1|g\nnomad.n1_example.a.b.web_2.none:0|g\nnomad.n1_example.a.b.web_x_y_z.g_1:2.5|g",
		},
		Datadog: {
			"nomad.a.b:-1|g|#env:test,host:n1.example,group:,job:web.2\nnomad.a.b:2.5|g|#env:test,host:n1.example,group:g.1,job:web_x_y_z\nnomad.c:3|c|#env:test,host:n1.example\nnomad.h.count:2|c|#env:test,host:n1.example\nnomad.h:1500|ms|#env:test,host:n1.example",
			"nomad.a.b:-1|g|#env:test,host:n1.example,group:,job:web.2\nnomad.a.b:2.5|g|#env:test,host:n1.example,group:g.1,job:web_x_y_z\nnomad.c:1|c|#env:test,host:n1.example",
		},
	} {
		at := listenUDP(t)
		f := newFigures()
		f.gauge.WithLabelValues("web x|y:z", "g.1").Set(2.5)
		f.gauge.WithLabelValues("web.2", "").Set(-1)
		f.counter.Add(3)
		f.histogram.Observe(1)
		f.histogram.Observe(2)
		s := f.sink(kind, at.LocalAddr().String())
		// Labels come in the order of their names.
		reorder := strings.NewReplacer("web_2.none", "none.web_2", "web_x_y_z.g_1", "g_1.web_x_y_z")
		for i, w := range want {
			w := strings.Split(reorder.Replace(w), "\n")
			slices.Sort(w)
			if got := sendAndRead(t, s, at); got != strings.Join(w, "\n") {
				t.Errorf("%s, %d:\n%s\nwant\n%s", kind, i, got, strings.Join(w, "\n"))
			}
			f.counter.Inc()
		}
	}
}

// A server of statsite that goes and comes again gets metrics again, and one
// that is absent makes Send fail at once and nothing else.
func TestStatsiteComesAgain(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := newFigures()
	f.counter.Inc()
	s := f.sink(Statsite, ln.Addr().String())
	defer s.hangUp()
	if err := s.Send(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(conn).ReadString('\n'); line != "nomad.c:1|c\n" {
		t.Fatal(line, err)
	}
	conn.Close()
	ln.Close()
	f.gauge.WithLabelValues("a", "b").Set(1)
	// The other side's end of the connection shows at the first or the second
	// write.
	for s.Send(t.Context()) == nil {
	}
	if err := s.Send(t.Context()); err == nil {
		t.Fatal("metrics are sent to nobody")
	}
	if ln, err = net.Listen("tcp", s.Address); err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if err := s.Send(t.Context()); err != nil {
		t.Fatal(err)
	}
	if conn, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if line, err := bufio.NewReader(conn).ReadString('\n'); !strings.HasSuffix(line, ".a.b.b.a:1|g\n") {
		t.Error(line, err)
	}
}

// Run sends at once and at each interval, until its context ends.
func TestRun(t *testing.T) {
	at := listenUDP(t)
	f := newFigures()
	f.gauge.WithLabelValues("a", "b").Set(1)
	s := f.sink(Statsd, at.LocalAddr().String())
	s.Interval = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { s.Run(ctx); close(ended) }()
	b := make([]byte, 2048)
	for range 3 {
		if n, _, err := at.ReadFrom(b); err != nil || !strings.HasPrefix(string(b[:n]), "nomad.n1_example.a.b") {
			t.Fatalf("%s %v", b[:n], err)
		}
	}
	cancel()
	<-ended
}

// Packets hold whole lines and are no longer than networks take.
func TestPack(t *testing.T) {
	var lines []string
	for i := range 500 {
		lines = append(lines, strings.Repeat("x", i%90+1)+":1|g")
	}
	lines = append(lines, strings.Repeat("y", 3000))
	var all string
	for _, p := range pack(lines) {
		if len(p) > maxPacket && !strings.HasPrefix(string(p), "yyy") {
			t.Errorf("a packet of %d bytes", len(p))
		}
		all += string(p)
	}
	if all != strings.Join(lines, "\n")+"\n" {
		t.Error("lines are lost or torn")
	}
}

// The longest prefix decides which metrics there are.
func TestFilter(t *testing.T) {
	f := newFigures()
	f.gauge.WithLabelValues("a", "b").Set(1)
	for _, x := range []struct {
		rules  []string
		others bool
		want   string
	}{
		{nil, true, "nomad.a.b nomad.c nomad.h"}, {nil, false, ""}, {[]string{"-nomad"}, true, ""}, {[]string{"-nomad", "+nomad.c"}, true, "nomad.c"},
		{[]string{"+nomad.c"}, false, "nomad.c"}, {[]string{"-nomad.a.b", "+nomad.a"}, true, "nomad.c nomad.h"}, {[]string{"+nomad.a.b", "-nomad.a"}, false, "nomad.a.b"},
	} {
		families, err := NewFilter(f, dotted, x.rules, x.others).Gather()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range families {
			got = append(got, dotted(m.GetName()))
		}
		if strings.Join(got, " ") != x.want {
			t.Errorf("%v, others %v: %v, want %s", x.rules, x.others, got, x.want)
		}
	}
}
