package api

import (
	"cmp"
	"maps"
	"strconv"

	"berth"
	"berth/internal/decode"
)

// JobLimits are what this server takes of jobs, as its configuration says. The zero
// value stands for Nomad's defaults.
type JobLimits struct {
	DefaultPriority int  // of a job that has none; 0: berth.DefaultPriority
	MaxPriority     int  // of jobs and of their evaluations; 0: berth.MaxPriority
	MaxCount        int  // of all groups of a job together; 0: defaultMaxCount
	MaxSource       int  // bytes of a source that is kept; 0: 1 MiB
	NoSource        bool // keep no sources
}

// defaultMaxCount is how many instances a job may have.
const defaultMaxCount = 50_000

// withPriority returns a job that has a priority.
func (l *JobLimits) withPriority(tree decode.RawTree) decode.RawTree {
	name := spelling(tree, "Priority")
	if tree[name] != nil || l.DefaultPriority == 0 || l.DefaultPriority == berth.DefaultPriority {
		return tree
	}
	tree = maps.Clone(tree)
	tree[name] = decode.Number(strconv.Itoa(l.DefaultPriority))
	return tree
}

// priority returns what is wrong with the priority of a job or of an evaluation;
// 0 means that of its job.
func (l *JobLimits) priority(name string, n int) error {
	if most := cmp.Or(l.MaxPriority, berth.MaxPriority); n != 0 && (n < berth.MinPriority || n > most) {
		return berth.Errorf(berth.Invalid, "%s: must be from %d to %d, got %d", name, berth.MinPriority, most, n)
	}
	return nil
}

// check refuses a job whose priority is too high or that has too many instances.
func (l *JobLimits) check(j *berth.Job) error {
	if err := l.priority("job.priority", j.Priority); err != nil {
		return err
	}
	count, most := 0, cmp.Or(l.MaxCount, defaultMaxCount)
	for _, g := range j.TaskGroups {
		if count += g.Count; count > most {
			return berth.Errorf(berth.Invalid, "job.group[%s].count: total count was greater than configured job_max_count: %d > %d", g.Name, count, most)
		}
	}
	return nil
}

// source returns the source of a job to keep with it, nil if it is missing or if
// it is too large. Losing it does not fail the registration.
func (l *JobLimits) source(sub *berth.JobSubmission) *berth.JobSubmission {
	if sub == nil || sub.Source == "" || l.NoSource || len(sub.Source)+len(sub.Variables) > cmp.Or(l.MaxSource, maxSource) {
		return nil
	}
	return sub
}
