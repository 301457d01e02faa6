package server

import (
	"berth/internal/state"
)

// workersAndNodes puts how many workers this server has, and how many nodes the
// cluster.
func (m *metrics) workersAndNodes(snap *state.Snapshot, put func(figure, float64, ...string)) {
	workers := map[string]int{}
	for _, w := range m.server.workers.Workers() {
		workers[w.Doing]++
	}
	for status, n := range workers {
		put(workerCount, float64(n), status)
	}
	nodes := map[[2]string]int{}
	for n := range snap.Nodes() {
		nodes[[2]string{n.Status, n.SchedulingEligibility}]++
	}
	for k, n := range nodes {
		put(nodeCount, float64(n), k[0], k[1])
	}
}
