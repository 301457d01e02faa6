package agent

import (
	"log/slog"
	"slices"
	"testing"

	"berth/op"
)

// Addresses that a person gives take the place of those of the configuration,
// also when servers name others later.
func TestServersThatAPersonNames(t *testing.T) {
	c := NewCluster([]string{"10.0.0.1:4647"}, "global", nil, slog.New(slog.DiscardHandler))
	c.SetAddrs([]string{"10.0.0.2:4647"})
	if got := c.Addrs(); !slices.Equal(got, []string{"10.0.0.2:4647"}) {
		t.Errorf("the servers are %v", got)
	}
	c.learn([]op.ServerAddr{{RPCAdvertiseAddr: "10.0.0.3:4647"}})
	if got := c.Addrs(); slices.Contains(got, "10.0.0.1:4647") || !slices.Contains(got, "10.0.0.2:4647") || !slices.Contains(got, "10.0.0.3:4647") {
		t.Errorf("the servers are %v", got)
	}
}
