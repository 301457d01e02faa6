package submit_test

import (
	"testing"

	"berth"
)

// A job is planned, and made kind by kind; its processing elements are launched
// one after another, those with most conditions first.
func TestPlainSubmission(t *testing.T) {
	w := newWorld(t, 4, ssd)
	k := w.register(telemetry())
	w.settle()
	w.want("done", w.history(), `
PlanSubmission
ensure Config 5
ensure Endpoint 5
ensure HostPool 1
ensure Export 4
ensure ParallelRegion 1
ensure ProcessingElement 5
launch telemetry.sink[0] submission
launch telemetry.source[0] submission
launch telemetry.transform[0] submission
launch telemetry.transform[1] submission
launch telemetry.transform[2] submission
CompleteSubmission
`)
	if row := w.row(k); row.Phase != berth.PhaseSubmitted || row.StreamID != 1 || row.Recovery.Count != 0 {
		t.Errorf("%+v", row)
	}
	t.Log(w.pes(k))
}
