package hostile

import (
	"fmt"
	"os"
	"testing"
	"time"

	"berth/test/bed"
)

// long is how long a run takes in all; 0 is the short form.
var long time.Duration

func TestMain(m *testing.M) {
	if s := os.Getenv("BERTH_HOSTILE"); s != "" {
		var err error
		if long, err = time.ParseDuration(s); err != nil {
			fmt.Fprintln(os.Stderr, "BERTH_HOSTILE:", err)
			os.Exit(2)
		}
	}
	// Memory and waits are those of the program that people run, so there is no
	// race detector in it.
	os.Exit(bed.Main(m))
}

// A server alone.
func TestOneServer(t *testing.T) { attackAll(t, 1) }

// Three servers, each of them attacked.
func TestThreeServers(t *testing.T) { attackAll(t, 3) }

// attackAll plays every attack, one after the other, then waits until the servers
// have given back what the attacks took.
func attackAll(t *testing.T, servers int) {
	c := newCluster(t, servers)
	each := 3 * time.Second
	if long > 0 {
		each = long / time.Duration(2*len(attacks)) // there are two clusters
	}
	before := c.worked(t)
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) { c.play(t, a, each) })
	}
	c.settles(t, before)
}
