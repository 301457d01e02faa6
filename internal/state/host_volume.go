package state

import (
	"cmp"
	"crypto/sha256"
	"iter"
	"maps"
	"slices"
	"strings"

	"berth"
	"berth/internal/cow"
	"berth/internal/state/codec"
	"berth/internal/validate"
)

// Dynamic host volumes are directories of nodes. A volume is ready while its node
// offers it; the node says so when it registers. A claim ties an instance of a
// group to the volume that it used first, for volume blocks with sticky.

// volumesSince is the log version that brought volumes, and volumes their
// feature.
const (
	volumesSince = 6
	volumes      = "dynamic host volumes"
)

// hostVolumeTable holds the dynamic host volumes by ID, and the claims on them.
type hostVolumeTable struct {
	keyed[berth.HostVolume]
	byNode cow.Tree[uint64] // first half of the node's ID
	claims keyed[berth.HostVolumeClaim]
}

// HostVolume returns the host volume with an ID, or nil.
func (s *Snapshot) HostVolume(id string) *berth.HostVolume { return s.hostVolumes.get(id) }

// HostVolumes returns all host volumes in order of ID.
func (s *Snapshot) HostVolumes() iter.Seq[*berth.HostVolume] { return s.hostVolumes.all() }

// HostVolumesOn returns the host volumes of a node, in no particular order.
func (s *Snapshot) HostVolumesOn(id berth.NodeID) iter.Seq[*berth.HostVolume] {
	return func(yield func(*berth.HostVolume) bool) {
		t := &s.hostVolumes
		for slot := range t.byNode.Of(halfOf(id)) {
			if v := t.vec.Get(slot); v.NodeID == id && !yield(v) {
				return
			}
		}
	}
}

// HostVolumeClaims returns all claims on host volumes, by namespace, job, group
// and instance.
func (s *Snapshot) HostVolumeClaims() iter.Seq[*berth.HostVolumeClaim] {
	return s.hostVolumes.claims.all()
}

// HostVolumeClaim returns the claim of an instance on a volume of a name, or nil.
func (s *Snapshot) HostVolumeClaim(k berth.JobKey, group, instance, volume string) *berth.HostVolumeClaim {
	return s.hostVolumes.claims.get(claimKey(k, group, volume, instance))
}

// claimKey is the key of a claim.
func claimKey(k berth.JobKey, group, volume, instance string) string {
	return claimPrefix(k) + group + "\x00" + volume + "\x00" + instance
}

// claimPrefix begins the keys of a job's claims.
func claimPrefix(k berth.JobKey) string { return jobKey(k) + "\x00" }

// UsersOfHostVolume returns the allocations that have not ended and use a host
// volume.
func (s *Snapshot) UsersOfHostVolume(v *berth.HostVolume) (out []*berth.Alloc) {
	for a := range s.AllocsOn(v.NodeID) {
		if !a.Ended() && a.Job.Namespace == v.Namespace && usesHostVolume(a, v.Name) {
			out = append(out, a)
		}
	}
	return out
}

// usesHostVolume reports whether an allocation uses the host volume of a name.
func usesHostVolume(a *berth.Alloc, name string) bool {
	for _, r := range a.Group.Volumes {
		if r.Type != berth.VolumeCSI && r.SourceFor(a.Index) == name {
			return true
		}
	}
	return false
}

// putHostVolume stores a host volume, in the state that its node gives it.
func (tx *Tx) putHostVolume(v *berth.HostVolume) {
	t := &tx.hostVolumes
	if t.get(v.ID) == nil {
		t.put(tx, HostVolumes, v.ID, v)
		slot, _ := t.by.First(v.ID)
		t.byNode.Add(tx.edit, halfOf(v.NodeID), slot)
		return
	}
	t.put(tx, HostVolumes, v.ID, v)
}

// dropHostVolume deletes a host volume and the claims on it.
func (tx *Tx) dropHostVolume(v *berth.HostVolume) {
	t := &tx.hostVolumes
	slot, _ := t.by.First(v.ID)
	t.byNode.Remove(tx.edit, halfOf(v.NodeID), slot)
	t.drop(tx, HostVolumes, v.ID)
	tx.dropClaims(func(c *berth.HostVolumeClaim) bool { return c.VolumeID == v.ID })
}

// dropClaims deletes the claims that match.
func (tx *Tx) dropClaims(match func(*berth.HostVolumeClaim) bool) {
	t := &tx.hostVolumes.claims
	if t.count == 0 {
		return
	}
	var keys []string
	for c := range t.all() {
		if match(c) {
			keys = append(keys, keyOfClaim(c))
		}
	}
	for _, key := range keys {
		t.drop(tx, HostVolumeClaims, key)
	}
}

// keyOfClaim returns the key of a claim in the table.
func keyOfClaim(c *berth.HostVolumeClaim) string {
	return claimKey(berth.JobKey{Namespace: c.Namespace, ID: berth.JobID(c.JobID)}, c.TaskGroupName, c.VolumeName, c.AllocName)
}

// dropClaimsOf deletes the claims of a job that is gone.
func (tx *Tx) dropClaimsOf(k berth.JobKey) {
	tx.dropClaims(func(c *berth.HostVolumeClaim) bool { return c.Namespace == k.Namespace && c.JobID == string(k.ID) })
}

// followHostVolumes gives the host volumes of a node the state that follows from
// it; n is nil when it is gone.
func (tx *Tx) followHostVolumes(id berth.NodeID, n *berth.Node) {
	if tx.hostVolumes.count == 0 {
		return
	}
	list := slices.SortedFunc(tx.HostVolumesOn(id), func(a, b *berth.HostVolume) int { return cmp.Compare(a.ID, b.ID) })
	for _, v := range list {
		if to := stateOfVolume(v, n); to != v.State {
			row := *v
			row.State, row.ModifyIndex = to, tx.Index
			tx.putHostVolume(&row)
		}
	}
}

// stateOfVolume returns the state of a host volume on its node, nil if that is
// gone.
func stateOfVolume(v *berth.HostVolume, n *berth.Node) string {
	switch {
	case n == nil || n.Status == berth.NodeDown:
		return berth.HostVolumeUnavailable
	case n.HostVolumes[v.Name].ID == v.ID:
		return berth.HostVolumeReady
	case v.State == berth.HostVolumeReady || v.State == berth.HostVolumeUnavailable:
		return berth.HostVolumeUnavailable
	}
	return berth.HostVolumePending
}

// claimSticky ties a new allocation to the host volumes that its group keeps.
func (tx *Tx) claimSticky(a *berth.Alloc, n *berth.Node) {
	if tx.hostVolumes.count == 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(a.Group.Volumes)) {
		r := a.Group.Volumes[name]
		info, ok := n.HostVolumes[r.SourceFor(a.Index)]
		if !r.Sticky || !ok || info.ID == "" || r.Type == berth.VolumeCSI {
			continue
		}
		c := &berth.HostVolumeClaim{
			Namespace: a.Job.Namespace, JobID: string(a.Job.ID), TaskGroupName: a.Group.Name, AllocID: a.ID, AllocName: a.Name(),
			VolumeID: info.ID, VolumeName: r.SourceFor(a.Index), CreateIndex: tx.Index, ModifyIndex: tx.Index,
		}
		key := keyOfClaim(c)
		if old := tx.hostVolumes.claims.get(key); old != nil {
			c.ID, c.CreateIndex = old.ID, old.CreateIndex
		} else {
			sum := sha256.Sum256([]byte(key + "\x00" + a.ID.String()))
			c.ID = berth.ID[struct{}](sum[:16]).String()
		}
		tx.hostVolumes.claims.put(tx, HostVolumeClaims, key, c)
	}
}

// PutHostVolume creates or changes a host volume. Its node makes it ready.
type PutHostVolume struct {
	Volume *berth.HostVolume
	Create bool // it must not exist; else it must
	Now    int64
}

// Apply implements Command.
func (c *PutHostVolume) Apply(tx *Tx) error {
	v := c.Volume
	if v == nil || v.ID == "" {
		return berth.Errorf(berth.Invalid, "host volume: needs an ID")
	}
	if err := validate.HostVolume(v); err != nil {
		return err
	}
	old, n := tx.HostVolume(v.ID), tx.Node(v.NodeID)
	switch {
	case tx.Namespace(v.Namespace) == nil:
		return berth.Errorf(berth.Invalid, "Namespace: namespace %q not found", berth.Clip(v.Namespace, 64))
	case c.Create && old != nil:
		return berth.Errorf(berth.Conflict, "host volume %s exists already", v.ID)
	case !c.Create && (old == nil || old.Namespace != v.Namespace):
		return berth.Errorf(berth.NotFound, "host volume not found: %s", berth.Clip(v.ID, 64))
	case n == nil:
		return berth.Errorf(berth.NotFound, "NodeID: node not found: %s", v.NodeID)
	case old != nil && (old.NodeID != v.NodeID || old.Name != v.Name || old.PluginID != v.PluginID):
		return berth.Errorf(berth.Conflict, "host volume %s: its name, plugin and node cannot change", v.ID)
	}
	if why := tx.hostVolumeTaken(v, n); why != "" {
		return berth.Errorf(berth.Conflict, "Name: node %s %s", n.Name, why)
	}
	row := *v
	row.NodePool = n.NodePool
	row.CreateIndex, row.ModifyIndex, row.CreateTime, row.ModifyTime = tx.Index, tx.Index, c.Now, c.Now
	row.State = berth.HostVolumePending
	if old != nil {
		row.CreateIndex, row.CreateTime, row.State = old.CreateIndex, old.CreateTime, old.State
	}
	row.State = stateOfVolume(&row, n)
	tx.putHostVolume(&row)
	return nil
}

// hostVolumeTaken returns what has the name of a host volume on its node, "" if
// nothing has.
func (tx *Tx) hostVolumeTaken(v *berth.HostVolume, n *berth.Node) string {
	for x := range tx.HostVolumesOn(n.ID) {
		if x.ID != v.ID && x.Name == v.Name {
			return "has a host volume " + v.Name + " already"
		}
	}
	if info, ok := n.HostVolumes[v.Name]; ok && info.ID == "" {
		return "has " + v.Name + " in its configuration"
	}
	return ""
}

// DeleteHostVolume deletes a host volume and the claims on it. One that
// allocations use stays.
type DeleteHostVolume struct {
	Namespace string
	ID        string
}

// Apply implements Command.
func (c *DeleteHostVolume) Apply(tx *Tx) error {
	v := tx.HostVolume(c.ID)
	if v == nil || v.Namespace != c.Namespace {
		return berth.Errorf(berth.NotFound, "host volume not found: %s", berth.Clip(c.ID, 64))
	}
	if users := tx.UsersOfHostVolume(v); len(users) > 0 {
		return berth.Errorf(berth.Conflict, "host volume %s is used by allocation %s; stop it first", v.ID, users[0].ID)
	}
	tx.dropHostVolume(v)
	return nil
}

// DeleteHostVolumeClaim deletes a claim, so that the next allocation of its
// instance may use another volume.
type DeleteHostVolumeClaim struct {
	Namespace string
	ID        string
}

// Apply implements Command.
func (c *DeleteHostVolumeClaim) Apply(tx *Tx) error {
	for row := range tx.HostVolumeClaims() {
		if row.ID == c.ID && row.Namespace == c.Namespace {
			tx.hostVolumes.claims.drop(tx, HostVolumeClaims, keyOfClaim(row))
			return nil
		}
	}
	return berth.Errorf(berth.NotFound, "volume claim not found: %s", berth.Clip(c.ID, 64))
}

// loadHostVolume adds a host volume of a saved snapshot.
func loadHostVolume(l *loader, r *codec.Reader) error {
	v := read[berth.HostVolume](r)
	if r.Err() != nil {
		return nil
	}
	if err := l.tx.hostVolumes.load(l, "host volume", v.ID, v); err != nil {
		return err
	}
	slot, _ := l.tx.hostVolumes.by.First(v.ID)
	l.tx.hostVolumes.byNode.Add(l.tx.edit, halfOf(v.NodeID), slot)
	return nil
}

// loadHostVolumeClaim adds a claim of a saved snapshot.
func loadHostVolumeClaim(l *loader, r *codec.Reader) error {
	c := read[berth.HostVolumeClaim](r)
	if r.Err() != nil {
		return nil
	}
	if strings.Contains(c.Namespace+c.JobID+c.TaskGroupName+c.VolumeName+c.AllocName, "\x00") {
		return duplicate("claim on a host volume", c.ID)
	}
	return l.tx.hostVolumes.claims.load(l, "claim on a host volume", keyOfClaim(c), c)
}
