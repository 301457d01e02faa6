// Package histories shows that no evaluation gets lost or stuck. Its tests put the
// real state, broker, workers, planner, collector and controllers of a leader on
// a log in memory, let random histories of jobs, deployments, drains, launches,
// nodes, agents, failing workers and ending terms go by in virtual time, and ask
// after every commit what must hold of any state. Then nothing happens any more,
// time goes on, and every evaluation must have ended, or wait for something that
// is really not there, as must every deployment and every drain.
//
// The short form is some histories; BERTH_LONG=1 makes it 10,000, of which
// BERTH_HISTORIES=1000-1999 is the part with these seeds. BERTH_SEED=17 lets one
// happen again until it fails. None goes on without end: the number of its
// commands and its time by the clock on the wall have limits.
//
// A history follows from its seed: what happens, and when. In which order
// goroutines run that have something to do at the same moment does not.
package histories
