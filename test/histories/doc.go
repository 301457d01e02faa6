// Package histories checks that no evaluation gets lost or stuck. Its tests run
// the real state, broker, workers, planner, collector and controllers of a leader
// on a log in memory. Random histories of jobs, deployments, drains, launches,
// nodes, agents, failing workers and ending terms happen in virtual time, and the
// invariants of the state are checked after every commit. Then nothing more
// happens, time goes on, and every evaluation, deployment and drain must have
// ended or wait for something that is really missing.
//
// By default only a few histories run. BERTH_LONG=1 runs 10,000, of which
// BERTH_HISTORIES=1000-1999 selects the part with these seeds. BERTH_SEED=17
// repeats one until it fails. The number of commands of each is limited, and so
// is the time that it may take.
//
// What can be replayed: a seed determines which events a history has and at
// which virtual time each happens. It does not determine the order of
// goroutines that become runnable at the same moment. So a seed that failed
// once may pass the next time, which is why BERTH_SEED repeats it.
package histories
