// Command traefik runs Traefik's Nomad provider and prints each configuration that
// it makes as a line of JSON. The proxy itself needs the libraries of all clouds.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/traefik/traefik/v3/pkg/config/dynamic"
	"github.com/traefik/traefik/v3/pkg/provider/nomad"
	"github.com/traefik/traefik/v3/pkg/safe"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var b nomad.ProviderBuilder
	b.SetDefaults()
	b.Endpoint.Address = os.Args[1]
	pool := safe.NewPool(context.Background())
	defer pool.Stop()
	made := make(chan dynamic.Message)
	for _, p := range b.BuildProviders() {
		if err := p.Init(); err != nil {
			return err
		}
		if err := p.Provide(made, pool); err != nil {
			return err
		}
	}
	out := json.NewEncoder(os.Stdout)
	for m := range made {
		if err := out.Encode(m.Configuration); err != nil {
			return err
		}
	}
	return nil
}
