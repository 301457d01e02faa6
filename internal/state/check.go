package state

// Check is a comparison of states between servers: the state at Index is to be
// hashed, and the state at Of, where an earlier check stood, had the hash Hash
// on the leader. Of 0 compares nothing.
type Check struct{ Index, Of, Hash uint64 }

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

// Check returns the last check among the commands that led to this state since
// the server loaded it, nil if there was none. It is no part of the state: it
// is neither saved nor hashed.
func (s *Snapshot) Check() *Check { return s.check }
