package submit

import "berth/internal/state"

// Miss has the controller take all that happened until a state for looked at.
func (c *Controller) Miss(snap *state.Snapshot) { c.index = snap.Index }
