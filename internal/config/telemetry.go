package config

import (
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"berth"
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
	d.traces()
}

// traces checks the traces block.
func (d *decoder) traces() {
	t := &d.to.Telemetry.Traces
	if t.Sample <= 0 || t.Sample > 1 {
		d.fail("telemetry.traces.sample", "must be above 0 and at most 1, got %v", t.Sample)
	}
	if t.Address == "" {
		if len(t.Headers) > 0 || t.CAFile != "" {
			d.fail("telemetry.traces", "address is missing: set the URL of a collector, such as http://127.0.0.1:4318")
		}
		return
	}
	u, err := url.Parse(t.Address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		shown := withoutUser(t.Address)
		if err != nil && !strings.Contains(t.Address, "@") {
			shown = t.Address
		}
		d.fail("telemetry.traces.address", "must be a URL of a collector, such as http://127.0.0.1:4318, got %.100q", shown)
		return
	}
	for name, value := range t.Headers {
		if !headerName(name) || strings.ContainsAny(value, "\r\n\x00") {
			d.fail("telemetry.traces.headers", "%.64q is not a header of one line", berth.Clip(name, 64))
		}
	}
	if t.CAFile != "" {
		if _, err := os.Stat(t.CAFile); err != nil {
			d.fail("telemetry.traces.ca_file", "%.200q: %s", t.CAFile, cause(err))
		}
	}
}

// withoutUser returns an address without the password that it may have.
func withoutUser(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Redacted()
}
