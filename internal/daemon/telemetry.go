package daemon

import (
	"context"
	"os"

	"berth/internal/config"
	"berth/internal/server"
	"berth/internal/statsd"

	"golang.org/x/sync/errgroup"
)

// metricsFilter returns which metrics a configuration wants.
func metricsFilter(t *config.Telemetry) server.MetricsFilter {
	return server.MetricsFilter{Rules: t.PrefixFilter, Only: !t.FilterDefault, Allocs: t.PublishAllocs}
}

// runSinks adds to g what sends metrics to the servers of the configuration.
func (d *Daemon) runSinks(ctx context.Context, g *errgroup.Group) {
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
