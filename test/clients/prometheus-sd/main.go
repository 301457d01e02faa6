// Command prometheus-sd runs Prometheus' discovery of Nomad's services and prints
// each list of targets as a line of JSON. Debian's Prometheus is built without it.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/nomad"
	"github.com/prometheus/prometheus/discovery/targetgroup"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	c := nomad.DefaultSDConfig
	c.Server, c.RefreshInterval = os.Args[1], model.Duration(time.Second)
	reg := prometheus.NewRegistry()
	metrics := c.NewDiscovererMetrics(reg, discovery.NewRefreshMetrics(reg))
	d, err := c.NewDiscoverer(discovery.DiscovererOptions{Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)), Metrics: metrics, SetName: "services"})
	if err != nil {
		return err
	}
	found := make(chan []*targetgroup.Group)
	go d.Run(context.Background(), found)
	out := json.NewEncoder(os.Stdout)
	for groups := range found {
		for _, g := range groups {
			if err := out.Encode(g.Targets); err != nil {
				return err
			}
		}
	}
	return nil
}
