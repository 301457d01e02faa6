package events

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"berth"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// What a commit of one report about 50 allocations costs whoever commits, with
// nobody following the store, with a buffer, and with readers who filter all
// of it and want none.
func BenchmarkCommit(b *testing.B) {
	b.Run("no buffer", func(b *testing.B) { benchCommit(b, -1) })
	for _, readers := range []int{0, 1, 100} {
		b.Run(fmt.Sprint(readers, " readers"), func(b *testing.B) { benchCommit(b, readers) })
	}
}

func benchCommit(b *testing.B, readers int) {
	job := statetest.Job(&testing.T{}, `{"ID":"web","TaskGroups":[{"Name":"g","Count":50,"Resources":{"CPU":1,"MemoryMB":10}}]}`)
	store := state.New()
	base := state.Begin(store.Snapshot())
	base.Apply(statetest.AddNode(1, 1<<20, 1<<20))
	base.Apply(statetest.Register(job, 1))
	plan := &state.ApplyPlan{Eval: statetest.ID[berth.Eval](1)}
	for i := range 50 {
		plan.Place = append(plan.Place, berth.Placement{NodeID: statetest.ID[berth.Node](1), Index: uint32(i)})
	}
	base.Apply(plan)
	c := &state.ReportAllocs{Node: statetest.ID[berth.Node](1)}
	for a := range base.Allocs() {
		c.Updates = append(c.Updates, state.AllocUpdate{ID: a.ID, Client: berth.ClientRunning})
	}
	store.Publish(base.End())
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	if readers >= 0 {
		buffer := New(store, Limits{})
		all.Go(func() { buffer.Run(ctx) })
		filter, _ := ParseFilter([]string{"Allocation:none", "Job:other"}, "*")
		for range readers {
			r, err := buffer.From(0)
			if err != nil {
				b.Fatal(err)
			}
			all.Go(func() {
				for {
					sets, err := r.Next(ctx)
					if _, gap := err.(*Gap); gap {
						r, err = buffer.From(0)
					}
					if err != nil {
						return
					}
					for _, s := range sets {
						for i := range s.Events {
							filter.Matches(&s.Events[i])
						}
					}
				}
			})
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		own := *c
		tx := state.Begin(store.Snapshot())
		if r := tx.Apply(&own); r.Err != nil {
			b.Fatal(r.Err)
		}
		batch := tx.End()
		if len(batch.Changes) < 50 {
			b.Fatalf("%d changes", len(batch.Changes))
		}
		store.Publish(batch)
	}
}

// BenchmarkFollow is what the buffer's own goroutine does for one event.
func BenchmarkFollow(b *testing.B) {
	store, commit := busy(b)
	buffer := New(store, Limits{})
	commit()
	c := store.Commit()
	b.ReportAllocs()
	for b.Loop() {
		buffer.follow(c)
	}
}
