package alloc

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/admit"
	"berth/internal/agent/driver"
	"berth/internal/agent/driver/mock"
	"berth/internal/agent/task"
	"berth/internal/saferoot"
	"berth/op"
)

// An allocation that is told to end, and then to hurry, waits quietly for its task.
func TestASecondOrderToHurryIsTakenOnce(t *testing.T) {
	job, err := admit.ParseJob([]byte(`{"ID":"job","TaskGroups":[{"Name":"g","Tasks":[
		{"Name":"app","Driver":"mock_driver","KillTimeout":"10m","Config":{"run_for":"100h","kill_after":"5m"}}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for what, hurry := range map[string]func(*Runner){
		"stop": func(r *Runner) { r.Stop("told so again", true) },
		"fail": func(r *Runner) { r.Fail("its disk is full"); r.Fail("its disk is full") },
	} {
		dirs, err := saferoot.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer dirs.Close()
		synctest.Test(t, func(t *testing.T) {
			var saves atomic.Int32
			a := &op.Alloc{Job: job, JobID: job.ID, TaskGroup: "g", Name: "job.g[0]", AllocatedResources: &op.AllocatedResources{}}
			a.ID[0] = 1
			r := New(Config{
				Dirs: dirs, Drivers: map[string]driver.Driver{"mock_driver": mock.New(true)}, Log: slog.New(slog.DiscardHandler),
				Place:  func(dir string) *task.Place { return &task.Place{AllocDir: dir, Node: &berth.Node{}} },
				Report: func(*op.AllocReport) {}, Chance: func() float64 { return 0 },
				Save: func(string, []byte) error {
					if saves.Add(1) > 100 {
						time.Sleep(time.Second) // else the time of the test stands still
					}
					return nil
				},
			}, a)
			done := make(chan error)
			go func() { done <- r.Run(context.Background()) }()
			time.Sleep(time.Minute)
			if s := r.states()["app"]; s.State != berth.TaskRunning {
				t.Errorf("%s: before: %+v", what, s)
			}
			before := saves.Load()
			r.Stop("told so", false)
			time.Sleep(time.Minute)
			hurry(r)
			time.Sleep(time.Minute)
			if n := saves.Load() - before; n > 3 || r.Ended() {
				t.Errorf("%s: while the task ends, its state was recorded %d times; it has ended: %v", what, n, r.Ended())
			}
			if err := <-done; err != nil || !r.Ended() {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
}
