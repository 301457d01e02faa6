package state

import (
	"berth"
)

// SchedulerConfig returns how operators want the cluster scheduled; of one
// that never was set the indexes are 0. It must not be changed.
func (s *Snapshot) SchedulerConfig() *berth.SchedulerConfig {
	if s.scheduler == nil {
		return &berth.DefaultSchedulerConfig
	}
	return s.scheduler
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
