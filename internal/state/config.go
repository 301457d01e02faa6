package state

import (
	"berth"
	"berth/internal/validate"
)

// AutopilotConfig returns the autopilot configuration. Its indexes are 0 if it
// was never set.
func (s *Snapshot) AutopilotConfig() berth.AutopilotConfig {
	if s.autopilot == nil {
		return berth.DefaultAutopilotConfig
	}
	return *s.autopilot
}

// SetAutopilotConfig changes the autopilot configuration.
type SetAutopilotConfig struct {
	Config  berth.AutopilotConfig
	Enforce bool   // only if the configuration was last changed at Index
	Index   uint64 // 0: only if it was never set
}

// Apply implements Command.
func (c *SetAutopilotConfig) Apply(tx *Tx) error {
	conf := c.Config
	if err := validate.AutopilotConfig(&conf); err != nil {
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

// putAutopilotConfig stores the only autopilot configuration. Nobody watches
// it: its users read it periodically.
func (tx *Tx) putAutopilotConfig(c *berth.AutopilotConfig) {
	freeze(c)
	tx.autopilot = c
}

// CheckHash lets servers detect that their states differ although all applied
// the same commands. It changes nothing but the index.
type CheckHash struct {
	ByLeader
	Of, Hash uint64 // the index of a state, and the hash of that state on the leader
}

// Apply implements Command.
func (c *CheckHash) Apply(tx *Tx) error {
	tx.check = &Check{Index: tx.Index, Of: c.Of, Hash: c.Hash}
	return nil
}

// putSchedulerConfig stores the only scheduler configuration.
func (tx *Tx) putSchedulerConfig(c *berth.SchedulerConfig) {
	freeze(c)
	tx.note(SchedulerConfigs, anyOrNil(tx.scheduler), c)
	tx.scheduler = c
}

// SetSchedulerConfig changes the scheduler configuration.
type SetSchedulerConfig struct {
	Config  berth.SchedulerConfig
	Enforce bool   // only if the configuration was last changed at Index
	Index   uint64 // 0: only if it was never set
}

// Apply implements Command.
func (c *SetSchedulerConfig) Apply(tx *Tx) error {
	conf := c.Config
	if err := validate.SchedulerConfig(&conf); err != nil {
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

// SetTrackedVersions sets how many versions of each job are kept. The leader
// proposes it when its configuration differs from the state: what servers
// delete must not depend on each server's configuration file.
type SetTrackedVersions struct{ Number int }

// Apply implements Command.
func (c *SetTrackedVersions) Apply(tx *Tx) error {
	if c.Number < 1 || c.Number > MaxTrackedVersions {
		return berth.Errorf(berth.Invalid, "job_tracked_versions: must be 1 to %d, got %d", MaxTrackedVersions, c.Number)
	}
	if kept, most := tx.TrackedVersions(); c.Number != kept {
		tx.limit = &versionLimit{Kept: c.Number, Most: max(most, c.Number)}
		freeze(tx.limit)
	}
	return nil
}
