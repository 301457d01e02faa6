package validate

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"berth"
	"berth/internal/pattern"
)

// csiName is the form of the ID and the name of a CSI volume; csiPlugin that of a
// plugin's ID, which names directories of nodes.
var (
	csiName   = volumeName
	csiPlugin = pattern.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
)

// csiAccess are the access modes of CSI volumes.
var csiAccess = []string{berth.AccessReader, berth.AccessWriter, berth.AccessReaders, berth.AccessSingleWriter, berth.AccessMultiWriter}

// maxTopologies is how many topologies a volume may be asked for in.
const maxTopologies = 100

// CSIAccess returns the access modes of CSI volumes.
func CSIAccess() []string { return csiAccess }

// CSIPlugin reports whether a text can be the ID of a CSI plugin.
func CSIPlugin(id string) bool { return csiPlugin.MatchString(id) }

// CSIVolume returns every problem of the CSI volume.
func CSIVolume(v *berth.CSIVolume) error {
	var ps berth.Problems
	for _, x := range [2]struct{ path, text string }{{"ID", v.ID}, {"Name", v.Name}} {
		if !csiName.MatchString(x.text) {
			ps.Addf(x.path, "%q is not valid for a volume: want letters, digits, dots, dashes and underscores, 1 to 128", berth.Clip(x.text, 64))
		}
	}
	if !csiPlugin.MatchString(v.PluginID) {
		ps.Addf("PluginID", "%q is not the ID of a CSI plugin: want letters, digits, dots, dashes and underscores, 1 to 128", berth.Clip(v.PluginID, 64))
	}
	for _, x := range [3]struct{ path, text string }{{"ExternalID", v.ExternalID}, {"CloneID", v.CloneID}, {"SnapshotID", v.SnapshotID}} {
		if !isLine(x.text) {
			ps.Addf(x.path, "must be one line of at most %d bytes, got %q", maxVolumeText, berth.Clip(x.text, 64))
		}
	}
	capacity(&ps, "RequestedCapacity", v.RequestedCapacityMin, v.RequestedCapacityMax)
	if len(v.RequestedCapabilities) == 0 {
		ps.Addf("RequestedCapabilities", "is missing: want at least one capability block")
	}
	capabilities(&ps, v.RequestedCapabilities, csiAccess)
	texts(&ps, "Parameters", v.Parameters)
	texts(&ps, "Context", v.Context)
	texts(&ps, "Secrets", v.Secrets)
	if r := v.RequestedTopologies; r != nil {
		all := slices.Concat(r.Required, r.Preferred)
		if n := len(all); n > maxTopologies {
			ps.Addf("RequestedTopologies", "must be at most %d, got %d", maxTopologies, n)
			all = nil
		}
		for _, t := range all {
			texts(&ps, "RequestedTopologies.Segments", t.Segments)
		}
	}
	if why := MountOptions(v.MountOptions); why != "" {
		ps.Addf("MountOptions", "%s", why)
	}
	mounted := func(c berth.VolumeCapability) bool { return c.AttachmentMode != berth.AttachBlock }
	if HasMountOptions(v.MountOptions) && len(v.RequestedCapabilities) > 0 && !slices.ContainsFunc(v.RequestedCapabilities, mounted) {
		ps.Addf("MountOptions", "must be left out: no capability has attachment mode %s", berth.AttachFilesystem)
	}
	if why := topologies(v.Topologies); why != "" {
		ps.Addf("Topologies", "%s", why)
	}
	if v.CloneID != "" && v.SnapshotID != "" {
		ps.Addf("SnapshotID", "cannot be combined with CloneID")
	}
	return ps.Err()
}

// isLine reports whether a text is one line that is not too long.
func isLine(text string) bool {
	return len(text) <= maxVolumeText && utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// csiFS is the form of the type of a file system.
var csiFS = pattern.New(`^[A-Za-z0-9._-]{0,64}$`)

// HasMountOptions reports whether mount options, which may be nil, ask for something.
func HasMountOptions(m *berth.CSIMountOptions) bool {
	return m != nil && (m.FSType != "" || len(m.MountFlags) > 0)
}

// MountOptions returns what is wrong with the mount options of a CSI volume, which
// may be nil; "": nothing.
func MountOptions(m *berth.CSIMountOptions) string {
	switch {
	case m == nil:
		return ""
	case !csiFS.MatchString(m.FSType):
		return fmt.Sprintf("fs_type must be letters, digits, dots, dashes and underscores, at most 64, got %q", berth.Clip(m.FSType, 64))
	case len(m.MountFlags) > maxVolumeMap:
		return fmt.Sprintf("mount_flags must be at most %d, got %d", maxVolumeMap, len(m.MountFlags))
	}
	for i, f := range m.MountFlags { // a flag may hold a secret, so it is not said
		if f == "" || !isLine(f) || strings.HasPrefix(f, "-") {
			return fmt.Sprintf("mount_flags[%d] must be one line of at most %d bytes that does not begin with a dash", i, maxVolumeText)
		}
	}
	return ""
}

// topologies returns what is wrong with topologies that a plugin says; "": nothing.
func topologies(list []berth.CSITopology) string {
	if n := len(list); n > maxTopologies {
		return fmt.Sprintf("must be at most %d, got %d", maxTopologies, n)
	}
	for _, t := range list {
		var ps berth.Problems
		if texts(&ps, "Segments", t.Segments); ps.Err() != nil {
			return ps.Err().Error()
		}
	}
	return ""
}

// maxPluginText is how long the texts are that a plugin says of itself.
const maxPluginText = 256

// CSIInfo returns what is wrong with what a node says of a plugin; "": nothing. A
// plugin is a program of its own, and servers keep what it says.
func CSIInfo(x *berth.CSIInfo) string {
	for name, text := range map[string]string{"name": x.Provider, "version": x.ProviderVersion, "health": x.HealthDescription} {
		if len(text) > maxPluginText || !isLine(text) {
			return fmt.Sprintf("its %s must be one line of at most %d bytes", name, maxPluginText)
		}
	}
	if n := x.NodeInfo; n != nil {
		if len(n.ID) > maxPluginText || !isLine(n.ID) {
			return fmt.Sprintf("its ID of the node must be one line of at most %d bytes", maxPluginText)
		}
		if n.AccessibleTopology != nil {
			return topologies([]berth.CSITopology{*n.AccessibleTopology})
		}
	}
	return ""
}

// CSIContext returns what is wrong with what a controller tells a node; "": nothing.
func CSIContext(m map[string]string) string {
	var ps berth.Problems
	if texts(&ps, "Context", m); ps.Err() != nil {
		return ps.Err().Error()
	}
	return ""
}
