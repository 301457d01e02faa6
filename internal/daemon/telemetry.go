package daemon

import (
	"context"
	"os"

	"berth/internal/config"
	"berth/internal/server"
	"berth/internal/statsd"
	"berth/internal/traces"

	"golang.org/x/sync/errgroup"
)

// metricsFilter returns which metrics a configuration wants.
func metricsFilter(t *config.Telemetry) server.MetricsFilter {
	return server.MetricsFilter{Rules: t.PrefixFilter, Only: !t.FilterDefault, Allocs: t.PublishAllocs}
}

// newTraces returns what sends traces, nil if the configuration wants none.
func (d *Daemon) newTraces() (*traces.Exporter, error) {
	c := &d.conf.Telemetry.Traces
	if c.Address == "" {
		return nil, nil
	}
	return traces.New(traces.Config{
		Address: c.Address, Headers: c.Headers, CAFile: c.CAFile, Sample: c.Sample, Log: d.log,
		Resource: map[string]string{"service.name": "berth", "service.version": d.conf.Version, "service.instance.id": d.conf.Name, "berth.region": d.conf.Region},
	})
}

// runSinks adds to g what sends metrics and traces to the servers of the
// configuration.
func (d *Daemon) runSinks(ctx context.Context, g *errgroup.Group) {
	if d.traces != nil {
		g.Go(func() error { d.traces.Run(ctx); return nil })
	}
	t := &d.conf.Telemetry
	host := ""
	if !t.DisableHostname {
		if host, _ = os.Hostname(); host == "" || t.UseNodeName {
			host = d.conf.Name
		}
	}
	for kind, address := range map[statsd.Kind]string{statsd.Statsd: t.Statsd, statsd.Statsite: t.Statsite, statsd.Datadog: t.Datadog} {
		if address == "" {
			continue
		}
		s := &statsd.Sink{
			Kind: kind, Address: address, Interval: t.CollectionInterval, Gather: server.Gatherer(d.metrics), Name: server.MetricName,
			Host: host, Tags: t.DatadogTags, Log: d.log,
		}
		g.Go(func() error { s.Run(ctx); return nil })
	}
}
