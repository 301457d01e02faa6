package agent

import (
	"errors"

	"berth/internal/agent/local"
	"berth/internal/claim"
)

// Folders are the directories of an agent while they are held: no other agent
// uses them. It would take the allocations of this one for what is left of
// some that are gone, and end them.
type Folders struct{ claims []*claim.Claim }

// Hold holds the state directory and that of the allocations, and makes them
// if need be. The error is a *claim.HeldError if another agent still uses one
// after the wait.
func Hold(stateDir, allocDir string, wait claim.Wait) (*Folders, error) {
	state, err := local.Hold(stateDir, wait)
	if err != nil {
		return nil, err
	}
	f := &Folders{claims: []*claim.Claim{state}}
	// Tasks of other users pass through it to their own directories.
	if err := claim.MakeDir(allocDir, 0o711); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	allocs, err := claim.TakeDir(allocDir, wait)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	f.claims = append(f.claims, allocs)
	return f, nil
}

// Close lets others use the directories. Closing them again does nothing.
func (f *Folders) Close() error {
	var errs []error
	for _, c := range f.claims {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
