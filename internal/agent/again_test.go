package agent

import (
	"testing"
	"time"

	"berth"
	"berth/op"
)

// What servers took is not told again, unless they say that they do not know;
// then also if it is taken a second time meanwhile.
func TestReportAgain(t *testing.T) {
	r := newReporter()
	report := func() *op.AllocReport {
		return &op.AllocReport{ID: berth.AllocID{1}, ClientStatus: berth.ClientRunning}
	}
	tells := func(want int) (batch []*op.AllocReport) {
		t.Helper()
		if batch, _ = r.next(time.Now()); len(batch) != want {
			t.Fatalf("%d reports are to be sent, want %d", len(batch), want)
		}
		return batch
	}
	r.put(report())
	r.accepted(tells(1))
	r.put(report())
	tells(0)
	r.again(report())
	underway := tells(1)
	r.again(report())
	r.accepted(underway)
	r.accepted(tells(1))
	tells(0)
}
