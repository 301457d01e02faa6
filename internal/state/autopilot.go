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
