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
	ages Ages
	look time.Time // when to look for keys to remove
}

// Ages says when keys are replaced and removed without being asked. Zero is never.
type Ages struct {
	Rotate   time.Duration // the age at which the active key is replaced
	Remove   time.Duration // how long a key must have been out of use
	Interval time.Duration // between two looks for keys to remove
}

// New returns the controller of a term.
func New(ring *keyring.Ring, ages Ages, log *slog.Logger) *Controller {
	return &Controller{ring: ring, log: log, ages: ages}
}

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
	if len(do) == 0 {
		var next time.Time
		if do, next = c.age(snap, now); again.IsZero() || !next.IsZero() && next.Before(again) {
			again = next
		}
	}
	return do, again
}

// age replaces the active key when it is old, and removes keys that are out of use
// for long: that encrypt nothing, and have signed for nothing that runs.
func (c *Controller) age(snap *state.Snapshot, now time.Time) (do []state.Command, again time.Time) {
	if k := snap.ActiveKey(); k != nil && c.ages.Rotate > 0 && c.ring != nil {
		again = time.Unix(0, k.CreateTime).Add(c.ages.Rotate)
		if !now.Before(again) {
			again = now.Add(retry)
			next, err := c.ring.Make(slices.Collect(snap.RootKeys()))
			if err != nil {
				c.log.Error("the root key is old, and another one cannot be made", "key", k.ID, "error", err)
				return nil, again
			}
			next.CreateTime = now.UnixNano()
			c.log.Info("the root key is replaced because it is old", "key", k.ID, "by", next.ID)
			return []state.Command{&state.AddRootKey{Key: next}}, again
		}
	}
	if c.ages.Remove <= 0 || c.ages.Interval <= 0 {
		return nil, again
	}
	if now.Before(c.look) {
		return nil, earlier(again, c.look)
	}
	c.look = now.Add(c.ages.Interval)
	for k := range snap.RootKeys() {
		if k.State == berth.KeyInactive && k.RetireTime > 0 && !now.Before(time.Unix(0, k.RetireTime).Add(c.ages.Remove)) && snap.OutOfUse(k) {
			do = append(do, &state.RemoveRootKey{ID: k.ID})
		}
	}
	return do, earlier(again, c.look)
}

// earlier returns the earlier of two times; the zero time is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
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
