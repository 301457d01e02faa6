package task

import (
	"maps"

	"berth"
	"berth/op"
)

// ServiceNames is what ${…} can stand for in a service of a task, or of the
// group if t is nil: what it can in the task's environment, and the short names
// that services alone have.
func ServiceNames(a *op.Alloc, t *berth.Task, p *Place) *Names {
	of := t
	if of == nil {
		of = &berth.Task{Resources: &berth.Resources{}}
	}
	env := Environment(a, of, p)
	maps.Copy(env, map[string]string{
		"JOB": a.Job.Name, "TASKGROUP": a.TaskGroup, "TASK": of.Name, "BASE": a.Job.Name + "-" + a.TaskGroup + "-" + of.Name,
	})
	if t == nil {
		for _, k := range []string{"TASK", "NOMAD_TASK_NAME", "NOMAD_TASK_DIR", "NOMAD_SECRETS_DIR", "TMPDIR", "NOMAD_CPU_LIMIT", "NOMAD_MEMORY_LIMIT"} {
			delete(env, k)
		}
		env["BASE"] = a.Job.Name + "-" + a.TaskGroup
	}
	return &Names{Node: p.Node, Region: p.Region, Env: env}
}
