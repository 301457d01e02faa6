package berth

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
)

// The types of scaling policy. The vertical ones are of a task.
const (
	ScalingHorizontal = "horizontal" // of a group: how many instances there are
	ScalingCPU        = "vertical_cpu"
	ScalingMemory     = "vertical_mem"
)

// The keys of a scaling policy's target.
const (
	TargetNamespace = "Namespace"
	TargetJob       = "Job"
	TargetGroup     = "Group"
	TargetTask      = "Task"
)

// ScalingEvent is one change of a group's count, or an autoscaler's message.
type ScalingEvent struct {
	Time          int64  // ns since 1970
	Count         *int64 // nil: only a message
	PreviousCount int64
	Message       string
	Error         bool
	Meta          map[string]any
	EvalID        EvalID // zero if nothing was changed
	CreateIndex   uint64
}

// Policies yields each scaling policy of the job, a group's own before those of
// its tasks.
func (j *Job) Policies(yield func(*TaskGroup, *ScalingPolicy) bool) {
	for _, g := range j.TaskGroups {
		if g.Scaling != nil && !yield(g, g.Scaling) {
			return
		}
		for _, t := range g.Tasks {
			for i := range t.ScalingPolicies {
				if !yield(g, &t.ScalingPolicies[i]) {
					return
				}
			}
		}
	}
}

// Scaled reports whether the job has a scaling policy.
func (j *Job) Scaled() bool {
	for range j.Policies {
		return true
	}
	return false
}

// Allows returns an error if a group may not have a count. The bounds of a
// disabled policy hold as well: disabling it only tells autoscalers to leave the
// group alone.
func (p *ScalingPolicy) Allows(group string, count int64) error {
	switch {
	case p == nil:
	case count < p.Min:
		return Errorf(Invalid, "Count: %d is below what the scaling policy of group %q allows, %d to %d", count, group, p.Min, p.Max)
	case count > p.Max:
		return Errorf(Invalid, "Count: %d is above what the scaling policy of group %q allows, %d to %d", count, group, p.Min, p.Max)
	}
	return nil
}

// Identify gives a policy its ID and target. The ID is derived from the job's
// incarnation and the policy's place, so it is equal in all versions of the job
// and differs in a later job of the same name.
func (p *ScalingPolicy) Identify(j *Job, g *TaskGroup, t *Task) {
	p.Namespace = j.Namespace
	p.Target = map[string]string{TargetNamespace: j.Namespace, TargetJob: string(j.ID), TargetGroup: g.Name}
	task := ""
	if t != nil {
		task = t.Name
		p.Target[TargetTask] = task
	}
	var uid [8]byte
	binary.BigEndian.PutUint64(uid[:], j.UID.Index)
	sum := sha256.Sum256([]byte(strings.Join([]string{string(uid[:]), j.Namespace, string(j.ID), g.Name, task, p.Type}, "\x00")))
	p.ID = EvalID([16]byte(sum[:16])).String()
}

// Plain returns the policy without what servers set.
func (p *ScalingPolicy) Plain() *ScalingPolicy {
	q := *p
	q.ID, q.Namespace, q.Target, q.CreateIndex, q.ModifyIndex = "", "", nil, 0, 0
	return &q
}

// EachPolicy lets change set the scaling policies of a job that is being made.
// Groups and tasks that have some are copied first, so that no other version
// of the job notices.
func (j *Job) EachPolicy(change func(*TaskGroup, *Task, *ScalingPolicy)) {
	if !j.Scaled() {
		return
	}
	j.TaskGroups = slices.Clone(j.TaskGroups)
	for i, old := range j.TaskGroups {
		g := *old
		if g.Scaling != nil {
			p := *g.Scaling
			change(&g, nil, &p)
			g.Scaling = &p
		}
		g.Tasks = slices.Clone(g.Tasks)
		for k, t := range g.Tasks {
			if len(t.ScalingPolicies) == 0 {
				continue
			}
			nt := *t
			nt.ScalingPolicies = slices.Clone(t.ScalingPolicies)
			for n := range nt.ScalingPolicies {
				change(&g, &nt, &nt.ScalingPolicies[n])
			}
			g.Tasks[k] = &nt
		}
		j.TaskGroups[i] = &g
	}
}
