// Package rotate keeps the keyring going: it makes a published key the active
// one when its time has come, and encrypts variables again during a full
// rotation. How far that is follows from the state, so a
// new leader continues where the last one stopped.
package rotate

import (
	"cmp"
	"log/slog"
	"slices"
	"time"

	"berth"
	"berth/internal/keyring"
	"berth/internal/state"
)

// Controller moves the keyring on.
type Controller struct {
	ring *keyring.Ring
	log  *slog.Logger
}

// New returns the controller of a term.
func New(ring *keyring.Ring, log *slog.Logger) *Controller { return &Controller{ring, log} }

// Watched returns the keys whose change can give the controller something to
// do.
func Watched() []state.WatchKey {
	return []state.WatchKey{state.OnTable(state.RootKeys), state.OnTable(state.Variables)}
}

// The size of one batch of variables that are encrypted again.
const (
	batch      = 100     // variables
	batchBytes = 1 << 20 // of encrypted data
)

// retry is the wait after what cannot be done now: this server cannot unwrap a
// root key.
const retry = 10 * time.Second

// Step implements leader.Controller.
func (c *Controller) Step(snap *state.Snapshot, now time.Time) (do []state.Command, again time.Time) {
	step := &state.StepRootKeys{Now: now.UnixNano()}
	var rekeying []*berth.RootKey
	for k := range snap.RootKeys() {
		switch k.State {
		case berth.KeyRekeying:
			rekeying = append(rekeying, k)
		case berth.KeyPrepublished:
			// One at a time: the next step does the next.
			if due := time.Unix(0, k.PublishTime); !now.Before(due) {
				step.Activate = k.ID
			} else if again.IsZero() || due.Before(again) {
				again = due
			}
		}
	}
	for _, k := range rekeying {
		cmd, err := c.rekey(snap, k)
		switch {
		case err != nil:
			c.log.Error("variables cannot be encrypted with the new root key", "key", k.ID, "error", err)
			again = now.Add(retry)
		case cmd == nil:
			step.Rekeyed = append(step.Rekeyed, k.ID)
		case len(do) == 0: // one batch at a time
			do = append(do, cmd)
		}
	}
	if !step.Activate.IsZero() || len(step.Rekeyed) > 0 {
		do = append(do, step)
	}
	return do, again
}

// rekey returns the command that encrypts the next variables of a key with the
// active one, nil if there are none. Their order is that of their paths, so
// that progress can be seen.
func (c *Controller) rekey(snap *state.Snapshot, from *berth.RootKey) (state.Command, error) {
	vars := slices.Collect(snap.VariablesOf(from.ID))
	if len(vars) == 0 {
		return nil, nil
	}
	to := snap.ActiveKey()
	if to == nil {
		return nil, berth.Errorf(berth.Unavailable, "no root key is active")
	}
	before, err := c.ring.Open(from)
	if err != nil {
		return nil, err
	}
	after, err := c.ring.Open(to)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(vars, compare)
	cmd, size := &state.RekeyVariables{To: to.ID}, 0
	for _, v := range vars[:min(len(vars), batch)] {
		items, err := before.Open(v)
		if err != nil {
			return nil, err
		}
		data, err := after.Seal(v.Key(), items)
		if err != nil {
			return nil, err
		}
		cmd.Vars = append(cmd.Vars, state.Rekeyed{Namespace: v.Namespace, Path: v.Path, From: from.ID, ModifyIndex: v.ModifyIndex, Data: data})
		if size += len(data); size >= batchBytes {
			break
		}
	}
	return cmd, nil
}

// compare orders variables by namespace and path.
func compare(a, b *berth.SealedVariable) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Path, b.Path))
}
