package server_test

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"berth"
	"berth/op"
)

// BenchmarkHeartbeat is a heartbeat without news in a cluster of three servers,
// at the leader and at a follower, one at a time and many at once. cpu-µs/op is
// the processor time of everything: the agents, the wire and all three servers.
// docs/heartbeats.md says what follows for the rate.
func BenchmarkHeartbeat(b *testing.B) {
	c := &several{t: b, pool: &pool{}, workers: -1}
	c.start(3)
	for _, x := range []struct {
		name string
		at   int
	}{{"leader", c.leader()}, {"follower", c.follower()}} {
		var nodes []*node
		for n := range 64 {
			nodes = append(nodes, c.list[x.at].node(1+n+100*x.at))
		}
		beat := func(n *node) {
			n.call("Node.UpdateStatus", &op.BeatNode{NodeID: n.ID, SecretID: n.SecretID, Status: berth.NodeReady}, &op.NodeAnswer{})
		}
		measure := func(b *testing.B, run func()) {
			var before, after syscall.Rusage
			syscall.Getrusage(syscall.RUSAGE_SELF, &before)
			run()
			syscall.Getrusage(syscall.RUSAGE_SELF, &after)
			spent := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
			b.ReportMetric(float64(spent.Microseconds())/float64(b.N), "cpu-µs/op")
		}
		b.Run(x.name, func(b *testing.B) {
			measure(b, func() {
				for b.Loop() {
					beat(nodes[0])
				}
			})
		})
		b.Run(x.name+"/agents=64", func(b *testing.B) {
			var next atomic.Int64
			b.SetParallelism(64 / runtime.GOMAXPROCS(0))
			measure(b, func() {
				b.RunParallel(func(p *testing.PB) {
					n := nodes[next.Add(1)%64]
					for p.Next() {
						beat(n)
					}
				})
			})
		})
	}
}
