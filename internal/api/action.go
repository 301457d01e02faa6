package api

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"berth"
	"berth/internal/state"
	"berth/op"
)

// actions registers the operations on actions: commands that tasks declare.
func (s *Server) actions() {
	read(s, op.JobActions, jobActions)
	x := addDuplex(s, op.DoAction, s.doAction)
	x.regional = true
}

// jobActions returns the actions of a job.
func jobActions(r *Read, in *op.JobRef) ([]op.JobAction, error) {
	j, _, err := r.job(in.JobID)
	if err != nil {
		return nil, err
	}
	r.At(j.ModifyIndex, state.OnJob(j.Key()))
	return op.ActionsOf(j), nil
}

// doAction runs an action beside a task of an allocation. The allocation's own
// version of the job says what the action is.
func (s *Server) doAction(ctx context.Context, who Caller, in *op.RunAction, from op.Incoming) error {
	// Whether the caller may comes first: others learn nothing.
	if err := s.admit(ctx, op.DoAction.Info, who, in.Opts()); err != nil {
		return err
	}
	if in.AllocID == "" {
		return berth.Errorf(berth.Invalid, "allocID: is missing: want the ID of an allocation of the job")
	}
	r := s.newRead(who, in.Opts())
	a, err := r.alloc(in.AllocID, op.DoAction.Need)
	if err != nil {
		return err
	}
	if a.Job.Key() != (berth.JobKey{Namespace: r.Space(), ID: berth.JobID(in.JobID)}) {
		return berth.Errorf(berth.Invalid, "allocID: allocation %s is of job %q, not of %q", a.ID.Short(), a.Job.ID, berth.Clip(in.JobID, 64))
	}
	if in.Group != "" && in.Group != a.Group.Name {
		return berth.Errorf(berth.Invalid, "group: allocation %s is of group %q, not of %q", a.ID.Short(), a.Group.Name, berth.Clip(in.Group, 64))
	}
	found, err := chooseAction(a, in.Task, in.Action)
	if err != nil {
		return err
	}
	words, err := json.Marshal(append([]string{found.Command}, found.Args...))
	if err != nil {
		return err
	}
	return s.openAgent(ctx, op.DoAction.Info, who, located{a.NodeID, a.Job.Namespace}, op.AgentExec.RPC, &op.ExecTask{
		AllocID: a.ID.String(), Task: found.TaskName, Command: string(words), TTY: in.TTY, Handshake: in.Handshake,
	}, from)
}

// chooseAction returns the action of that name of a task of the allocation; task
// is "" if only one has it.
func chooseAction(a *berth.Alloc, task, name string) (op.JobAction, error) {
	all := slices.DeleteFunc(op.ActionsOf(a.Job), func(x op.JobAction) bool {
		return x.TaskGroupName != a.Group.Name || task != "" && x.TaskName != task
	})
	var names, tasks []string
	for _, x := range all {
		if x.Name == name {
			tasks = append(tasks, x.TaskName)
		}
		names = append(names, x.Name)
	}
	switch {
	case task != "" && a.Group.Task(task) == nil:
		return op.JobAction{}, berth.Errorf(berth.NotFound, "task: allocation %s has no task %q", a.ID.Short(), berth.Clip(task, 64))
	case name == "":
		return op.JobAction{}, berth.Errorf(berth.Invalid, "action: is missing: want the name of an action")
	case len(names) == 0:
		return op.JobAction{}, berth.Errorf(berth.NotFound, "action: %q is not declared: the tasks of allocation %s have no actions", berth.Clip(name, 64), a.ID.Short())
	case len(tasks) == 0:
		return op.JobAction{}, berth.Errorf(berth.NotFound, "action: %q is not declared: want %s", berth.Clip(name, 64), berth.Clip(strings.Join(names, ", "), 256))
	case len(tasks) > 1:
		return op.JobAction{}, berth.Errorf(berth.Invalid, "task: is missing: several tasks have an action %q: want %s", berth.Clip(name, 64), strings.Join(tasks, ", "))
	}
	return all[slices.IndexFunc(all, func(x op.JobAction) bool { return x.Name == name })], nil
}
