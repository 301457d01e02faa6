package diff

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth"
)

// Blocks of stream jobs stand beside those of their job, group or task, and are
// called as in a job file.
func TestStreamBlocks(t *testing.T) {
	job := func(s *berth.StreamSpec, g *berth.StreamGroup, c *berth.TaskConnectivity) *berth.Job {
		task := &berth.Task{Name: "t", Connectivity: c}
		return &berth.Job{ID: "j", Stream: s, TaskGroups: []*berth.TaskGroup{{Name: "g", Stream: g, Tasks: []*berth.Task{task}}}}
	}
	two := 2
	old := job(&berth.StreamSpec{
		HostPools: []berth.HostPoolSpec{{Name: "p", Tags: []string{"a"}}}, Regions: []berth.RegionSpec{{Name: "r", Groups: []string{"g"}, Width: 3}},
		Streams: []berth.StreamEdge{{Name: "s", From: "g.o", To: []string{"g.i"}}},
		Exports: []berth.ExportSpec{{Name: "e", From: "g.o", Properties: map[string]any{"n": int64(1), "list": []any{"eu"}}}},
	}, &berth.StreamGroup{Outputs: []berth.StreamOutput{{Name: "o"}}, Policy: berth.PEPolicy{RestartFailed: true}}, nil)
	new := job(&berth.StreamSpec{
		HostPools: []berth.HostPoolSpec{{Name: "p", Tags: []string{"a", "b"}}}, Regions: []berth.RegionSpec{{Name: "r", Groups: []string{"g"}, Width: 5}},
		Streams:    []berth.StreamEdge{{Name: "s", From: "g.o", To: []string{"g.i"}, Distribution: "hash"}},
		Exports:    []berth.ExportSpec{{Name: "e", From: "g.o", Properties: map[string]any{"n": int64(2), "list": []any{"eu", "us"}}}},
		Imports:    []berth.ImportSpec{{Name: "i", Into: "g.i", StreamID: "x"}},
		Submission: berth.SubmissionPolicy{MaxRetries: 1},
	}, &berth.StreamGroup{
		Outputs: []berth.StreamOutput{{Name: "o"}}, Inputs: []berth.StreamInput{{Name: "i", Port: "i"}}, LiveRewire: true,
		Placement: berth.PEPlacement{PoolHost: &two},
	}, &berth.TaskConnectivity{ChangeMode: "restart"})
	want := []string{
		`Export.AllowFilter "false"`, `Export.From "g.o"`, `Export.Name "e"`, `Export.Properties.list[0] "eu"`, `Export.Properties.list[1] "us"`, `Export.Properties.n "2"`,
		`HostPool.Name "p"`, `HostPool.Size "0"`, `HostPool.Tags.Tags "a"`, `HostPool.Tags.Tags "b"`,
		`Import.Into "g.i"`, `Import.Name "i"`, `Import.StreamID "x"`,
		`ParallelRegion.Name "r"`, `ParallelRegion.Width "5"`,
		`Stream.Distribution "hash"`, `Stream.From "g.o"`, `Stream.Name "s"`,
		`Submission.MaxRetries "1"`, `Submission.Timeout "0"`,
		`g.LiveRewire "true"`, `g.Input.Name "i"`, `g.Input.Port "i"`,
		`g.PE.DeleteFailed "false"`, `g.PE.RestartCompleted "false"`, `g.PE.RestartDeleted "false"`, `g.PE.RestartFailed "false"`,
		`g.Placement.Isolated "false"`, `g.Placement.PoolHost "2"`,
		`g.t.Connectivity.ChangeMode "restart"`,
	}
	if diff := cmp.Diff(want, paths(Jobs(old, new))); diff != "" {
		t.Error(diff)
	}
	if d := Jobs(new, new); d.Type != None {
		t.Errorf("it differs from itself: %v", paths(d))
	}
}
