//go:build !faults

package api

// failpoints serves nothing: this build has no fault points.
func (s *Server) failpoints() {}
