// Package evals shows that no evaluation gets lost or stuck. Its tests put the
// real state, broker, workers, planner and collector of a leader on a log in
// memory, let random histories of jobs, nodes, agents, failing workers and
// ending terms go by in virtual time, and ask after every commit what must
// hold of any state. Then nothing happens any more, time goes on, and every
// evaluation must have ended, or wait for something that is really not there.
//
// A history follows from its seed: what happens, and when. In which order
// goroutines run that have something to do at the same moment does not.
package evals
