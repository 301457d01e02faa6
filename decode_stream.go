package berth

import (
	"reflect"
	"time"
)

// What stream jobs do when they do not say otherwise.
const (
	DefaultSubmissionTimeout = 5 * time.Minute
	DefaultSubmissionRetries = 3
)

func defaultStream() StreamSpec {
	return StreamSpec{
		Application: StreamApplication{Scope: DefaultScope},
		Submission: SubmissionPolicy{
			Timeout: DefaultSubmissionTimeout, OnTimeout: OnTimeoutRecover, MaxRetries: DefaultSubmissionRetries,
			Recovery: InterruptRecreate, InterruptedUpdate: InterruptResume,
		},
	}
}

func defaultStreamGroup() StreamGroup {
	return StreamGroup{Policy: PEPolicy{RestartFailed: true, RestartDeleted: true, DeleteFailed: true}}
}

// complete mends what an empty text stands for.
func (s *StreamSpec) complete(job JobID) {
	orDefault(&s.Application.Name, string(job))
	orDefault(&s.Application.Scope, DefaultScope)
	orDefault(&s.Submission.OnTimeout, OnTimeoutRecover)
	orDefault(&s.Submission.Recovery, InterruptRecreate)
	orDefault(&s.Submission.InterruptedUpdate, InterruptResume)
	for i := range s.HostPools {
		orDefault(&s.HostPools[i].Mode, PoolShared)
	}
	for i := range s.Streams {
		orDefault(&s.Streams[i].Distribution, DistributionBroadcast)
	}
	for i := range s.Exports {
		orDefault(&s.Exports[i].Congestion, CongestionWait)
	}
	for i := range s.Imports {
		orDefault(&s.Imports[i].Scope, DefaultScope)
	}
}

// streamGroup reads a group of a stream job. How many instances it has follows
// from its parallel region, so a job file does not say it; what a server shows of
// a job does, and may be sent again.
func (d *decoder) streamGroup(j *Job, g *TaskGroup, tree Tree, at string) {
	s := defaultStreamGroup()
	g.Stream = &s
	name, _ := lookup(tree, "Name").(string)
	if r := j.Stream.Region(name); r != nil {
		g.Count = r.width()
	}
	if !d.loose {
		d.structure(reflect.ValueOf(g).Elem(), tree, at, "Tasks")
		return
	}
	if count := lookup(tree, "Count"); count != nil {
		d.problems.Addf(at+".count", "%s is not for jobs of type stream: the width of a parallel_region says how many", describe(count))
	}
	d.structure(reflect.ValueOf(g).Elem(), tree, at, "Tasks", "Count")
}
