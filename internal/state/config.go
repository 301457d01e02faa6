package state

import (
	"berth"
)

// AutopilotConfig returns how the cluster looks after its own servers; of a
// configuration that never was set the indexes are 0.
func (s *Snapshot) AutopilotConfig() berth.AutopilotConfig {
	if s.autopilot == nil {
		return berth.DefaultAutopilotConfig
	}
	return *s.autopilot
}

// SetAutopilotConfig says how the cluster is to look after its own servers.
type SetAutopilotConfig struct {
	Config  berth.AutopilotConfig
	Enforce bool   // only if the configuration was last changed at Index
	Index   uint64 // 0: only if it never was set
}

// Apply implements Command.
func (c *SetAutopilotConfig) Apply(tx *Tx) error {
	conf := c.Config
	if err := conf.Validate(); err != nil {
		return err
	}
	old := tx.AutopilotConfig()
	if c.Enforce && c.Index != old.ModifyIndex {
		return berth.Errorf(berth.Conflict, "the autopilot configuration was last changed at index %d, not %d", old.ModifyIndex, c.Index)
	}
	conf.CreateIndex, conf.ModifyIndex = old.CreateIndex, tx.Index
	if conf.CreateIndex == 0 {
		conf.CreateIndex = tx.Index
	}
	tx.putAutopilotConfig(&conf)
	return nil
}

// putAutopilotConfig stores the configuration, of which there is one. Nobody
// waits for its change: who needs it asks now and then.
func (tx *Tx) putAutopilotConfig(c *berth.AutopilotConfig) {
	freeze(c)
	tx.autopilot = c
}

// CheckHash lets servers notice that their states differ, though all applied
// the same commands. It changes nothing but the index.
type CheckHash struct {
	ByLeader
	Of, Hash uint64
}

// Apply implements Command.
func (c *CheckHash) Apply(tx *Tx) error {
	tx.check = &Check{Index: tx.Index, Of: c.Of, Hash: c.Hash}
	return nil
}

// putSchedulerConfig stores the configuration, of which there is one.
func (tx *Tx) putSchedulerConfig(c *berth.SchedulerConfig) {
	freeze(c)
	tx.note(SchedulerConfigs, anyOrNil(tx.scheduler), c)
	tx.scheduler = c
}

// SetSchedulerConfig says how the cluster is to be scheduled.
type SetSchedulerConfig struct {
	Config  berth.SchedulerConfig
	Enforce bool   // only if the configuration was last changed at Index
	Index   uint64 // 0: only if it never was set
}

// Apply implements Command.
func (c *SetSchedulerConfig) Apply(tx *Tx) error {
	conf := c.Config
	if err := conf.Validate(); err != nil {
		return err
	}
	old := tx.SchedulerConfig()
	if c.Enforce && c.Index != old.ModifyIndex {
		return berth.Errorf(berth.Conflict, "the scheduler configuration was last changed at index %d, not %d", old.ModifyIndex, c.Index)
	}
	conf.CreateIndex, conf.ModifyIndex = old.CreateIndex, tx.Index
	if conf.CreateIndex == 0 {
		conf.CreateIndex = tx.Index
	}
	tx.putSchedulerConfig(&conf)
	return nil
}

// SetTrackedVersions says how many versions of each job are kept. The leader
// proposes it when its configuration has another number than the state: what
// servers forget must not depend on the file of each.
type SetTrackedVersions struct{ Number int }

// Apply implements Command.
func (c *SetTrackedVersions) Apply(tx *Tx) error {
	if c.Number < 1 || c.Number > MaxTrackedVersions {
		return berth.Errorf(berth.Invalid, "job_tracked_versions: %d is out of range; allowed are 1 to %d", c.Number, MaxTrackedVersions)
	}
	if kept, most := tx.TrackedVersions(); c.Number != kept {
		tx.limit = &versionLimit{Kept: c.Number, Most: max(most, c.Number)}
		freeze(tx.limit)
	}
	return nil
}
