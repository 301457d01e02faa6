package agent

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/driver/mock"
)

// ailing is a driver whose health is set by a test.
type ailing struct {
	driver.Driver
	ill atomic.Bool
}

func (d *ailing) Fingerprint(ctx context.Context) berth.DriverInfo {
	info := d.Driver.Fingerprint(ctx)
	if d.ill.Load() {
		info.Healthy, info.HealthDescription = false, "its engine does not answer"
	}
	return info
}

// Servers learn of a driver's health with the time since when it is so, and the node
// has an event of each change: one, also if servers did not take it at first.
func TestTheHealthOfDriversIsTold(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		w.cluster = newCluster()
		a, err := New(Config{Servers: w.cluster, DataDir: w.dir, MockDriver: true, LoopbackOnly: true, CgroupParent: "-", GC: GC{Disk: 100, Inodes: 100}, Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		d := &ailing{Driver: mock.New(true)}
		a.drivers["mock_driver"] = d
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		told := func() (berth.DriverInfo, []*berth.NodeEvent) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return *w.node.Drivers["mock_driver"], w.ofNodes
		}
		pause(time.Minute)
		was, events := told()
		if !was.Healthy || was.UpdateTime.IsZero() || time.Since(was.UpdateTime) < 50*time.Second || len(events) != 0 {
			t.Errorf("at first: %+v, %d events", was, len(events))
		}
		d.ill.Store(true)
		w.mu.Lock()
		refused := false
		w.fail = func(call string) error {
			if call == "events" && !refused {
				refused = true
				return berth.Errorf(berth.Unavailable, "not now")
			}
			return nil
		}
		w.mu.Unlock()
		pause(time.Minute)
		is, _ := told()
		if is.Healthy || !is.UpdateTime.After(was.UpdateTime) {
			t.Errorf("ill: %+v", is)
		}
		d.ill.Store(false)
		pause(time.Minute)
		if is, events = told(); !is.Healthy || len(events) != 2 {
			t.Fatalf("well again: %+v, %d events", is, len(events))
		}
		for i, want := range []string{"Driver is not healthy: its engine does not answer", "Driver is healthy"} {
			if e := events[i]; e.Message != want || e.Subsystem != berth.NodeEventDriver || e.Details["driver"] != "mock_driver" || e.Timestamp.IsZero() {
				t.Errorf("event %d: %+v, want %q", i, e, want)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
