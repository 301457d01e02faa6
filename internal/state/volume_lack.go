package state

import (
	"fmt"
	"maps"
	"slices"

	"berth"
)

// LackKind says what would end a lack of volumes.
type LackKind uint8

const (
	LacksNothing    LackKind = iota
	LacksHostVolume          // another node would, or another host volume
	LacksPlugin              // another node would: this one does not run the plugin of a CSI volume, or cannot reach the volume
	LacksCSIVolume           // the CSI volume, the health of its plugin or its other users may change, and the node stays as it is
)

// VolumeLack returns why an instance of a group cannot have its volumes on a
// node, "" if it can. The scheduler and the commit of a plan both ask it.
func (s *Snapshot) VolumeLack(n *berth.Node, j *berth.Job, g *berth.TaskGroup, index uint32) (why string, kind LackKind) {
	if len(g.Volumes) == 0 {
		return "", LacksNothing
	}
	for _, name := range slices.Sorted(maps.Keys(g.Volumes)) { // in order of name, as a map has none
		r := g.Volumes[name]
		if r.Type == berth.VolumeCSI {
			why, kind = s.csiLack(n, j, g, &r, index)
		} else if why = s.hostLack(n, j, g, &r, index); why != "" {
			kind = LacksHostVolume
		}
		if kind != LacksNothing {
			return why, kind
		}
	}
	return "", LacksNothing
}

// hostLack returns why a node cannot offer a host volume to an instance.
func (s *Snapshot) hostLack(n *berth.Node, j *berth.Job, g *berth.TaskGroup, r *berth.VolumeRequest, index uint32) string {
	source := r.SourceFor(index)
	info, ok := n.HostVolumes[source]
	switch {
	case !ok:
		return "missing host volume: " + source
	case info.ReadOnly && !r.ReadOnly:
		return "host volume " + source + " is read-only"
	case info.ID == "" && r.Sticky:
		return "host volume " + source + " is in the node's configuration: sticky is for dynamic ones"
	case info.ID == "":
		return ""
	}
	v := s.HostVolume(info.ID)
	if v == nil || v.Namespace != j.Namespace { // volumes of other namespaces are not to be seen
		return "missing host volume: " + source
	}
	if why := capabilityLack(v, r); why != "" {
		return why
	}
	if r.Sticky {
		instance := berth.AllocName(j.ID, g.Name, index)
		if c := s.HostVolumeClaim(j.Key(), g.Name, instance, source); c != nil && c.VolumeID != v.ID {
			return fmt.Sprintf("%s has claimed host volume %s of another node", instance, source)
		}
		for c := range s.hostVolumes.claims.of(claimPrefix(j.Key()) + g.Name + "\x00" + source + "\x00") {
			if c.VolumeID == v.ID && c.AllocName != instance {
				return fmt.Sprintf("host volume %s is claimed by %s", source, c.AllocName)
			}
		}
	}
	if r.ReadOnly || r.AccessMode != berth.AccessNodeSingleWriter {
		return ""
	}
	for _, a := range s.UsersOfHostVolume(v) {
		same := a.Key() == j.Key() && a.Group.Name == g.Name && a.Index == index // which the new one replaces
		if !same && !readsOnly(a, source) {
			return fmt.Sprintf("host volume %s has a writer already, and access mode %s", source, r.AccessMode)
		}
	}
	return ""
}

// readsOnly reports whether an allocation only reads the host volume of a name.
func readsOnly(a *berth.Alloc, source string) bool {
	for _, r := range a.Group.Volumes {
		if r.Type != berth.VolumeCSI && r.SourceFor(a.Index) == source && !r.ReadOnly {
			return false
		}
	}
	return true
}

// capabilityLack returns why none of a host volume's capabilities is what a group
// asks for.
func capabilityLack(v *berth.HostVolume, r *berth.VolumeRequest) string {
	if len(v.RequestedCapabilities) == 0 || r.AccessMode == "" && r.AttachmentMode == "" && r.ReadOnly {
		return ""
	}
	for _, c := range v.RequestedCapabilities {
		writes := c.AccessMode != berth.AccessReader
		if (r.AccessMode == "" || r.AccessMode == c.AccessMode) && (r.AttachmentMode == "" || r.AttachmentMode == c.AttachmentMode) && (writes || r.ReadOnly) {
			return ""
		}
	}
	mode := "a writer"
	if r.AccessMode != "" {
		mode = "access mode " + r.AccessMode
	}
	if r.AttachmentMode != "" {
		mode += " and attachment mode " + r.AttachmentMode
	}
	return fmt.Sprintf("host volume %s has no capability for %s", v.Name, mode)
}
