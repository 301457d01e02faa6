//go:build !faults

package server

import (
	"context"

	"berth/internal/state"
	"berth/op"
)

// Faults is empty: this build has no fault points.
type Faults struct{}

// faults is empty, like Faults.
type faults struct{}

// newFaults does nothing in this build.
func newFaults(*Config) {}

// open prepares nothing; wait returns at once.
func (faults) open(context.Context) (wait func()) { return func() {} }

// withFaults returns the log as it is.
func (s *Server) withFaults(_ context.Context, log state.Log) state.Log { return log }

// submitWithFaults submits a plan to the leader without further ado.
func (c caller) submitWithFaults(ctx context.Context, in *op.SubmitPlan, out any) error {
	return c.Call(ctx, op.PlanSubmit.RPC, in, out)
}
