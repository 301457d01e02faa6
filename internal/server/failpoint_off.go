//go:build !faults

package server

import (
	"context"

	"berth/internal/state"
	"berth/op"
)

// Faults is empty: this build has no fault points.
type Faults struct{}

type faults struct{}

func newFaults(*Config) {}

func (faults) open(context.Context) (wait func()) { return func() {} }

func (s *Server) withFaults(_ context.Context, log state.Log) state.Log { return log }

func (c caller) submitWithFaults(ctx context.Context, in *op.SubmitPlan, out any) error {
	return c.Call(ctx, op.PlanSubmit.RPC, in, out)
}
