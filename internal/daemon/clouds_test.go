package daemon

import (
	"maps"
	"strings"
	"testing"

	"berth/internal/agent/cloud"
	"berth/internal/config"
)

// The cloud of the machine is asked unless an option leaves it out; a block asks any.
func TestWhichCloudsAreAsked(t *testing.T) {
	block := cloud.Fingerprint{RetryAttempts: 5, ExitOnFailure: true}
	blocks := map[string]cloud.Fingerprint{"env_aws": block}
	for _, x := range []struct {
		client config.Client
		here   string
		want   map[string]cloud.Fingerprint
	}{
		{config.Client{}, "", nil},
		{config.Client{}, "env_gce", map[string]cloud.Fingerprint{"env_gce": cloud.Default}},
		{config.Client{NoClouds: []string{"env_gce"}}, "env_gce", nil},
		{config.Client{Fingerprints: blocks}, "", blocks},
		{config.Client{Fingerprints: blocks, NoClouds: []string{"env_aws"}}, "env_aws", blocks},
		{config.Client{Fingerprints: blocks}, "env_gce", map[string]cloud.Fingerprint{"env_aws": block, "env_gce": cloud.Default}},
	} {
		if got := clouds(&x.client, x.here); !maps.Equal(got, x.want) {
			t.Errorf("%+v on %q: %v, not %v", x.client, x.here, got, x.want)
		}
	}
}

// What ends the node is the error of the agent, whichever part of it ends first.
func TestTheErrorOfTheNodeIsTheAgents(t *testing.T) {
	t.Setenv("AWS_ENV_URL", "http://127.0.0.1:1/")
	for range 5 {
		d, _ := newAgent(t, `client {
  fingerprint "env_aws" {
    retry_attempts  = 0
    exit_on_failure = true
  }
}`)
		if err := d.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "the cloud does not answer") {
			t.Fatalf("the error is %v", err)
		}
	}
}
