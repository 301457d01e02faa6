package server

import (
	"context"
	"os"

	"berth"
	"berth/internal/failpoint"
)

// fail does what a failpoint says.
func (s *Server) fail(action string) {
	switch action {
	case failpoint.StepDown:
		go func() { // who is at the point waits until the term ends
			if err := s.consensus.Transfer(context.Background(), ""); err != nil {
				s.config.Logger.Warn("a failpoint could not hand over leadership", "error", err)
			}
		}()
	case failpoint.Exit:
		if s.config.Exit == nil {
			os.Exit(failpoint.ExitCode)
		}
		s.config.Exit()
	}
}

// ArmFailpoint implements api.Operator.
func (s *Server) ArmFailpoint(p failpoint.Point) ([]failpoint.Point, error) {
	set := s.config.Failpoints
	if set == nil {
		return nil, berth.Errorf(berth.Denied, "failpoints are off: this server's configuration does not say server.failpoints = true")
	}
	if err := set.Arm(p); err != nil {
		return nil, berth.Errorf(berth.Invalid, "%v", err)
	}
	return append([]failpoint.Point{}, set.Points()...), nil
}
