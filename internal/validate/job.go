package validate

import "berth"

// WholeJob returns an error unless the job has every block that admission fills in.
// Readers rely on these, and a job can come from a log that a faulty build wrote.
func WholeJob(j *berth.Job) error {
	if (j.Type == berth.TypeStream) != (j.Stream != nil) {
		return berth.Errorf(berth.Invalid, "job %q: a job has the blocks of stream jobs if it is one, of type stream; this one is of type %s", berth.Clip(string(j.ID), 64), berth.Clip(j.Type, 64))
	}
	for _, g := range j.TaskGroups {
		if g == nil || g.RestartPolicy == nil || g.EphemeralDisk == nil || (g.Stream != nil) != (j.Stream != nil) {
			return berth.Errorf(berth.Invalid, "job %q: a group lacks a block", berth.Clip(string(j.ID), 64))
		}
		for _, t := range g.Tasks {
			if t == nil || t.Resources == nil || t.RestartPolicy == nil || t.LogConfig == nil {
				return berth.Errorf(berth.Invalid, "job %q: a task lacks a block", berth.Clip(string(j.ID), 64))
			}
		}
	}
	return nil
}
