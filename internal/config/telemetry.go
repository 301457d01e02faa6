package config

import (
	"net"
	"slices"
	"strconv"
	"strings"
)

// telemetry checks where metrics and traces are sent, and completes addresses.
func (d *decoder) telemetry() {
	t := &d.to.Telemetry
	for _, x := range []struct {
		key  string
		addr *string
	}{{"statsd_address", &t.Statsd}, {"statsite_address", &t.Statsite}, {"datadog_address", &t.Datadog}} {
		if *x.addr == "" {
			continue
		}
		host, port, ok := hostPort(*x.addr, 8125)
		if !ok || host == "" {
			d.fail("telemetry."+x.key, "%.60q is not an address such as 127.0.0.1:8125", *x.addr)
			continue
		}
		*x.addr = net.JoinHostPort(host, strconv.Itoa(port))
	}
	for _, tag := range t.DatadogTags {
		if tag == "" || len(tag) > 200 || strings.ContainsAny(tag, "|,#\n\r ") {
			d.fail("telemetry.datadog_tags", "%.60q is not a tag: want up to 200 characters such as \"env:test\", without spaces, commas, | and #", tag)
		}
	}
	if len(t.DatadogTags) > 0 && t.Datadog == "" {
		d.fail("telemetry.datadog_tags", "needs telemetry.datadog_address")
	}
	for _, p := range t.PrefixFilter {
		if len(p) < 2 || !slices.Contains([]byte("+-"), p[0]) {
			d.fail("telemetry.prefix_filter", "%.60q must begin with + or - and a prefix of names, such as \"-nomad.raft\"", p)
		}
	}
}
