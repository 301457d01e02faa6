package alloc

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/agent/network"
	"berth/internal/agent/task"
	"berth/internal/saferoot"
	"berth/op"
)

// hanging is networks whose removal ends only with its context.
type hanging struct {
	Networks
	tries int
}

func (*hanging) Find(*network.Request) *network.Made { return nil }

func (h *hanging) Remove(ctx context.Context, _ string, _ network.Namespacer) error {
	h.tries++
	<-ctx.Done()
	return context.Cause(ctx)
}

// The end of an allocation is told although its network cannot be removed.
func TestARemovalThatHangsDoesNotKeepAnAllocation(t *testing.T) {
	dirs, err := saferoot.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dirs.Close()
	synctest.Test(t, func(t *testing.T) {
		app := &berth.Task{Name: "app", Driver: "none", Resources: &berth.Resources{}, RestartPolicy: &berth.RestartPolicy{}, LogConfig: &berth.LogConfig{}}
		a := &op.Alloc{TaskGroup: "g", Job: &berth.Job{Type: berth.TypeBatch, TaskGroups: []*berth.TaskGroup{{
			Name: "g", Networks: []berth.NetworkResource{{Mode: berth.NetworkBridge}}, Tasks: []*berth.Task{app},
		}}}}
		a.ID[0] = 1
		contacted := make(chan struct{})
		close(contacted)
		var mu sync.Mutex
		var last *op.AllocReport
		h, began := &hanging{}, time.Now()
		r := New(Config{
			Dirs: dirs, Place: func(dir string) *task.Place { return &task.Place{AllocDir: dir, Node: &berth.Node{}} }, Contacted: contacted, Networks: h,
			Save: func(string, []byte) error { return nil }, Chance: func() float64 { return 0 }, Log: slog.New(slog.DiscardHandler),
			Report: func(n *op.AllocReport) {
				mu.Lock()
				defer mu.Unlock()
				last = n
			},
		}, a)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, errors.New("the test is over"))
		defer cancel()
		if err := r.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if last == nil || !last.ClientStatus.Ended() || h.tries == 0 {
			t.Errorf("after %d tries to remove its network, it is told of as %+v", h.tries, last)
		}
		if d := time.Since(began); d != removalTime {
			t.Errorf("it took %v; want %v", d, removalTime)
		}
	})
}
