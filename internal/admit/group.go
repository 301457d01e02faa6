package admit

import (
	"fmt"

	"berth"
	"berth/internal/decode"
)

// group decodes a group over its defaults, which depend on the job's type and
// policies. A count that is left out is the scaling block's minimum, else 1.
// The job's own fields must be complete.
func (d *decoder) group(j *berth.Job, tree decode.Tree, at string) *berth.TaskGroup {
	like := j.Type // whose defaults it has
	if once, _ := decode.Lookup(tree, "Once").(string); once != "" && j.Type == berth.TypeService {
		like = berth.TypeBatch
	}
	restart := defaultRestart(like)
	g := &berth.TaskGroup{
		Count:            1,
		RestartPolicy:    &restart,
		ReschedulePolicy: j.Reschedule,
		EphemeralDisk:    &berth.EphemeralDisk{SizeMB: 300},
		Update:           j.Update,
		Migrate:          j.Migrate,
	}
	if g.ReschedulePolicy == nil {
		g.ReschedulePolicy = defaultReschedule(like)
	}
	// Without a count, the minimum of the scaling block is the default.
	if s, ok := decode.Lookup(tree, "Scaling").(decode.Tree); ok && decode.Lookup(tree, "Count") == nil {
		if n, ok := d.Integer(decode.Lookup(s, "Min")); ok {
			g.Count = int(n)
		}
	}
	if j.Type == berth.TypeStream {
		d.streamGroup(j, g, tree, at)
	} else {
		d.Fill(g, tree, at, "Tasks")
	}
	if g.Once != "" && decode.Lookup(tree, "Update") == nil {
		g.Update = nil // no deployment follows what runs to its end
	}
	// Fill in what the scaling block leaves out.
	if g.Scaling != nil {
		p := g.Scaling.Plain()
		if !writes(tree, "Scaling", "Min") {
			p.Min = int64(g.Count)
		}
		orDefault(&p.Type, berth.ScalingHorizontal)
		g.Scaling = p
	}
	for i := range g.Networks {
		sortPorts(&g.Networks[i])
	}
	g.Meta = normalMap(g.Meta)
	d.Objects(decode.Lookup(tree, "Tasks"), at+".task", func(src decode.Tree, at string) {
		g.Tasks = append(g.Tasks, d.task(g, src, at))
	})
	completeServices(j, g, nil, g.Services)
	for _, t := range g.Tasks {
		completeServices(j, g, t, t.Services)
	}
	return g
}

// group checks a group. Blocks inherited from the job are the same pointers and
// have been checked there; the same holds for tasks and their group.
func (c *checker) group(at string, j *berth.Job, g *berth.TaskGroup) {
	c.name(at+".name", g.Name, nil)
	c.between(at+".count", int64(g.Count), 0, berth.MaxCount)
	c.strings(at+".meta", g.Meta)
	c.conditions(at, g.Constraints, g.Affinities)
	c.spreads(at, g.Spreads)
	c.restart(at+".restart", g.RestartPolicy)
	// A policy that the group shares with the job was checked there; a
	// second report would name the wrong block.
	if g.ReschedulePolicy != nil && g.ReschedulePolicy != j.Reschedule {
		c.reschedule(at+".reschedule", g.ReschedulePolicy)
	}
	if g.EphemeralDisk != nil {
		c.between(at+".ephemeral_disk.size", int64(g.EphemeralDisk.SizeMB), minDiskMB, maxDiskMB)
	}
	c.duration(at+".shutdown_delay", g.ShutdownDelay, 0)
	c.maxRun(at+".max_run_duration", j, g.MaxRunDuration)
	c.disconnect(at, j, g)
	if g.Update != j.Update {
		c.update(at+".update", j, g.Update)
	}
	if g.Migrate != j.Migrate {
		c.migrate(at+".migrate", j, g.Migrate)
	}
	c.networks(at, g)
	c.volumes(at, j, g)
	c.scaling(at+".scaling", j, g)
	c.order(at, j, g)
	c.rolling(at, j, g)
	c.groupServices(at, g)
	c.unsupportedGroup(at, g)

	switch n := len(g.Tasks); {
	case n == 0:
		c.addf(at+".task", "a group needs at least one task")
	case !c.atMost(at+".task", tasksLimit, n, "tasks"):
		return
	}
	c.duplicates(at+".task", len(g.Tasks), func(i int) string { return g.Tasks[i].Name })
	leaders := 0
	for _, t := range g.Tasks {
		tat := fmt.Sprintf("%s.task[%s]", at, berth.Clip(t.Name, 64))
		c.dispatchPayload(tat+".dispatch_payload", j, t.DispatchPayload)
		c.task(tat, g, t)
		c.schedule(tat+".schedule", j, t)
		c.logs(tat+".logs", g, t.LogConfig)
		c.killTimeout(tat+".kill_timeout", j, g, t)
		if t.Leader {
			leaders++
		}
	}
	if leaders > 1 {
		c.addf(at+".task", "at most one task can be the leader, got %d", leaders)
	}
}

// logs checks how much a task may log. Each task is compared with the disk by
// itself, as in Nomad: only few tasks of a group fill their logs.
func (c *checker) logs(at string, g *berth.TaskGroup, l *berth.LogConfig) {
	known := len(c.problems)
	c.between(at+".max_files", int64(l.MaxFiles), 1, 10_000)
	c.between(at+".max_file_size", int64(l.MaxFileSizeMB), 1, maxMemoryMB)
	disk := g.EphemeralDisk
	// A size that is wrong by itself says nothing about the others.
	if l.Disabled || len(c.problems) > known || disk == nil || disk.SizeMB < minDiskMB {
		return
	}
	if size := int64(l.MaxFiles) * int64(l.MaxFileSizeMB); size >= int64(disk.SizeMB) {
		c.addf(at, "max_files × max_file_size must be below the group's ephemeral_disk.size, %d MiB, got %d MiB", disk.SizeMB, size)
	}
}

// killTimeout refuses a task that may take longer to stop than its group's
// deployment may take to make progress: the deployment would fail while it
// waits.
func (c *checker) killTimeout(at string, j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
	if j.Type != berth.TypeService || g.Update == nil || g.Update.ProgressDeadline <= 0 {
		return
	}
	if t.KillTimeout > g.Update.ProgressDeadline {
		c.addf(at, "must be at most the group's update.progress_deadline, %v, got %v", g.Update.ProgressDeadline, t.KillTimeout)
	}
}
