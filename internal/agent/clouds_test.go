package agent

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"berth/internal/agent/cloud"
	"berth/internal/eventually"
)

// The node is told at once, and again with what the cloud says. An agent that may
// not run without the cloud tells nothing before, and ends if there is no answer.
func TestClouds(t *testing.T) {
	answers := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-answers:
			io.WriteString(w, r.URL.Path)
		case <-r.Context().Done():
		}
	}))
	defer s.Close()
	t.Setenv("DO_ENV_URL", s.URL)
	start := func(f cloud.Fingerprint) (w *world, cancel func(), done chan error) {
		w = newWorld(t)
		w.cluster = newCluster()
		a, err := New(Config{
			Servers: w.cluster, DataDir: w.dir, MockDriver: true, LoopbackOnly: true, CgroupParent: "-", GC: GC{Disk: 100, Inodes: 100}, Log: quiet,
			Clouds: map[string]cloud.Fingerprint{"env_digitalocean": f},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done = make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		return w, cancel, done
	}
	told := func(w *world) (n int, region string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.node != nil {
			region = w.node.Attributes["platform.digitalocean.region"]
		}
		return w.registry, region
	}
	// The first agent waits for nothing, the second for the cloud.
	free, endFree, freeDone := start(cloud.Fingerprint{RetryAttempts: -1, RetryInterval: time.Millisecond})
	eventually.True(t, "the node is told without the cloud", func() bool { n, _ := told(free); return n == 1 })
	bound, endBound, boundDone := start(cloud.Fingerprint{ExitOnFailure: true, RetryAttempts: 1000, RetryInterval: time.Millisecond})
	if n, region := told(bound); n != 0 || region != "" {
		t.Errorf("told %d times before the cloud has answered, %q", n, region)
	}
	close(answers)
	for _, w := range []*world{free, bound} {
		eventually.True(t, "the node is told with the cloud's region", func() bool { _, region := told(w); return region == "/region" })
	}
	endFree()
	endBound()
	for _, done := range []chan error{freeDone, boundDone} {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	s.Close()
	w, end, done := start(cloud.Fingerprint{ExitOnFailure: true, RetryAttempts: 2, RetryInterval: time.Millisecond})
	defer end()
	err := <-done
	if n, _ := told(w); n != 0 || err == nil || !strings.Contains(err.Error(), "client.fingerprint.env_digitalocean: the cloud does not answer, and exit_on_failure is true") {
		t.Errorf("told %d times, and ended with %v", n, err)
	}
}
