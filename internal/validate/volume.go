package validate

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"berth"
	"berth/internal/pattern"
)

// Limits of a volume's own size.
const (
	maxVolumeMap          = 100      // parameters
	maxVolumeText         = 4096     // bytes of a key or value
	maxVolumeCapabilities = 20       // of one volume
	MaxVolumeBytes        = 64 << 40 // the largest capacity to ask for: 64 TiB
)

// volumeName is the form of a volume's name. A source with per_alloc ends
// in the number of the allocation: data[0].
var volumeName = pattern.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}(\[[0-9]{1,6}\])?$`)

// hostPlugin is the form of a host volume plugin's ID. It names a file below the
// plugin directory of a node, so it has no way out of there.
var hostPlugin = pattern.New(`^[a-z0-9][a-z0-9-]{0,63}$`)

// The access modes and attachment modes of host volumes.
var (
	hostAccess  = []string{berth.AccessReader, berth.AccessWriter, berth.AccessNodeSingleWriter, berth.AccessNodeMultiWriter}
	attachments = []string{berth.AttachFilesystem, berth.AttachBlock}
)

// HostPlugin reports whether a text can be the ID of a host volume plugin.
func HostPlugin(id string) bool { return hostPlugin.MatchString(id) }

// VolumeAccess returns the access modes.
func VolumeAccess() []string { return hostAccess }

// VolumeAttachments returns the attachment modes.
func VolumeAttachments() []string { return attachments }

// HostVolume returns every problem of the host volume.
func HostVolume(v *berth.HostVolume) error {
	var ps berth.Problems
	if !volumeName.MatchString(v.Name) {
		ps.Addf("Name", "%q is not a valid name of a volume: want letters, digits, dots, dashes and underscores, 1 to 128", berth.Clip(v.Name, 64))
	}
	if !hostPlugin.MatchString(v.PluginID) {
		ps.Addf("PluginID", "%q is not the ID of a host volume plugin: want lower-case letters, digits and dashes, 1 to 64", berth.Clip(v.PluginID, 64))
	}
	if v.HostPath != "" && (!filepath.IsAbs(v.HostPath) || filepath.Clean(v.HostPath) != v.HostPath || len(v.HostPath) > maxVolumeText || strings.ContainsRune(v.HostPath, 0)) {
		ps.Addf("HostPath", "must be an absolute path without . and .., got %q", berth.Clip(v.HostPath, 128))
	}
	if n := len(v.Constraints); n > maxVolumeCapabilities {
		ps.Addf("Constraints", "must be at most %d, got %d", maxVolumeCapabilities, n)
	}
	capacity(&ps, "RequestedCapacity", v.RequestedCapacityMinBytes, v.RequestedCapacityMaxBytes)
	if v.CapacityBytes < 0 {
		ps.Addf("CapacityBytes", "must be at least 0, got %d", v.CapacityBytes)
	}
	capabilities(&ps, v.RequestedCapabilities, hostAccess)
	texts(&ps, "Parameters", v.Parameters)
	return ps.Err()
}

// capacity notes what is wrong with a wanted capacity.
func capacity(ps *berth.Problems, path string, least, most int64) {
	switch {
	case least < 0 || least > MaxVolumeBytes:
		ps.Addf(path+"Min", "must be 0 to %d bytes, got %d", int64(MaxVolumeBytes), least)
	case most < 0 || most > MaxVolumeBytes:
		ps.Addf(path+"Max", "must be 0 to %d bytes, got %d", int64(MaxVolumeBytes), most)
	case most > 0 && most < least:
		ps.Addf(path+"Max", "must be at least the minimum of %d bytes, got %d", least, most)
	}
}

// capabilities notes what is wrong with the capabilities of a volume, each of
// which has one of the given access modes.
func capabilities(ps *berth.Problems, list []berth.VolumeCapability, access []string) {
	if n := len(list); n > maxVolumeCapabilities {
		ps.Addf("RequestedCapabilities", "must be at most %d, got %d", maxVolumeCapabilities, n)
		return
	}
	for i, c := range list {
		path := "RequestedCapabilities[" + strconv.Itoa(i) + "]"
		among(ps, path+".AccessMode", c.AccessMode, access)
		among(ps, path+".AttachmentMode", c.AttachmentMode, attachments)
	}
}

// among notes a value that is not among those allowed.
func among(ps *berth.Problems, path, got string, want []string) {
	if !slices.Contains(want, got) {
		last := len(want) - 1
		ps.Addf(path, "must be %s or %s, got %q", strings.Join(want[:last], ", "), want[last], berth.Clip(got, 64))
	}
}

// texts notes what is wrong with a map of texts.
func texts(ps *berth.Problems, path string, m map[string]string) {
	if n := len(m); n > maxVolumeMap {
		ps.Addf(path, "must have at most %d keys, got %d", maxVolumeMap, n)
		return
	}
	for k, v := range m {
		if k == "" || len(k) > maxVolumeText || len(v) > maxVolumeText || !utf8.ValidString(k) || !utf8.ValidString(v) {
			ps.Addf(fmt.Sprintf("%s[%q]", path, berth.Clip(k, 64)), "key and value must be text of at most %d bytes", maxVolumeText)
		}
	}
}
