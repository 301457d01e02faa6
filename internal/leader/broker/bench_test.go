package broker_test

import (
	"fmt"
	"testing"
	"time"

	"berth"
	"berth/internal/leader/broker"
	"berth/internal/state/statetest"
)

// What an evaluation costs on its way through a queue in which others wait.
func BenchmarkQueue(b *testing.B) {
	for _, others := range []int{0, 1000, 100_000} {
		b.Run(fmt.Sprint("waiting=", others), func(b *testing.B) {
			q, now, n := broker.NewQueue(broker.DefaultLimits), time.Unix(1000, 0), 0
			add := func() {
				n++
				q.Add(&berth.Eval{
					ID: statetest.ID[berth.Eval](n), JobID: berth.JobID(fmt.Sprint("job", n)), Type: berth.TypeService,
					Priority: n % 100, CreateIndex: uint64(n), Status: berth.EvalPending,
				}, now)
			}
			for range others {
				add()
			}
			b.ReportAllocs()
			for b.Loop() {
				add()
				d := q.Next(someTypes, 1, now)[0]
				if err := q.Ack(d.Eval.ID, d.Token); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
