//go:build faults

package scenarios

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
)

// alone adds a group that is joined with no other.
var alone = []string{`{"Name":"sink"`, `{"Name":"alone","Stream":{},"Tasks":[` + task + `]},{"Name":"sink"`}

// widen changes the width of the region.
func (c *cluster) widen(width int) {
	c.Helper()
	c.must(http.MethodPut, "/v1/stream/job/telemetry/region/score", fmt.Sprintf(`{"Width":%d}`, width))
}

// A region gets wider, and narrower.
func TestS22(t *testing.T) {
	long(t)
	c := newCluster(t, options{})
	first := c.register(alone...)
	c.settled(6, 1)
	before := c.pes("telemetry")
	c.widen(5)
	now := c.settled(8, 0)
	if c.recovered(now, first, 0); now.Generation != 1 {
		t.Errorf("%+v", now)
	}
	for name, p := range c.pes("telemetry") {
		switch old := before[name]; {
		case old == nil:
			if p.LaunchCount != 1 || p.ID != 6 && p.ID != 7 {
				t.Errorf("%+v", p)
			}
		case p.UID != old.UID || p.ID != old.ID:
			t.Errorf("%s is another one", name)
		case name == "telemetry.alone[0]":
			if p.LaunchCount != 1 || p.Allocation.ID != old.Allocation.ID {
				t.Errorf("%+v after %+v", p, old)
			}
		case p.LaunchCount != 2:
			t.Errorf("%+v", p)
		}
	}
	if phases := c.recorder.Phases(first); !slices.Equal(phases, []string{"plan 0", "complete 0", "plan 1", "complete 1"}) {
		t.Errorf("its phases were %q", phases)
	}
	c.widen(2)
	c.settled(5, 0)
	c.widen(3)
	c.settled(6, 0)
	if p := c.pes("telemetry")["telemetry.transform[2]"]; p.ID != 8 {
		t.Errorf("%+v", p)
	}
	c.remove("propagation=foreground")
	c.gone(first)

	c.register(`{"Placement":{"Pool"`, `{"LiveRewire":true,"Placement":{"Pool"`, `{"Placement":{"Isolated"`, `{"LiveRewire":true,"Placement":{"Isolated"`)
	c.settled(5, 1)
	before = c.pes("telemetry")
	c.widen(5)
	c.settled(7, 0)
	after := c.pes("telemetry")
	for _, name := range []string{"telemetry.source[0]", "telemetry.sink[0]"} {
		if before[name].Allocation.ID != after[name].Allocation.ID || after[name].LaunchCount != 1 {
			t.Errorf("%+v after %+v", after[name], before[name])
		}
	}
	c.until("the source is told of all five", func() string {
		f := c.file("telemetry.source[0]")
		if addrs := f.addrs("telemetry"); len(addrs) != 5 || slices.Contains(addrs, "") {
			return fmt.Sprint(addrs)
		}
		return ""
	})
}

// The leader dies in the middle of a change of width.
func TestS23(t *testing.T) {
	long(t)
	c := newCluster(t, options{})
	for n, how := range []string{"resume", "recreate"} {
		c.whole()
		first := c.register(`"Timeout":300000000000`, `"Timeout":300000000000,"InterruptedUpdate":"`+how+`"`)
		c.settled(5, 1)
		c.arm("launchPe", "after", 2, "exit")
		c.widen(5)
		c.died(int32(n + 1))
		if how == "recreate" {
			now := c.settled(7, 1)
			if c.recovered(now, first, 1); now.Generation != 0 {
				t.Errorf("%+v", now)
			}
			return
		}
		now := c.settled(7, 0)
		if c.recovered(now, first, 0); now.Generation != 1 {
			t.Errorf("%+v", now)
		}
		for _, p := range c.pes("telemetry") {
			want := uint64(2)
			if p.ID > 4 { // it came with the width
				want = 1
			}
			if p.LaunchCount != want {
				t.Errorf("%+v", p)
			}
		}
		c.remove("propagation=foreground")
		c.gone(first)
	}
}
