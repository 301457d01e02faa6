package task

import (
	"context"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"berth"
	"berth/internal/agent/driver"
)

// The volumes of a group are directories that the node's configuration names, or
// CSI volumes that its plugins mount, or attach as block devices.
// A volume_mount puts one into the tree of a task, by the task's driver.

// propagations are the ways in which mounts below a volume are seen on its
// other side, as the drivers name them.
var propagations = []string{"private", "host-to-task", "bidirectional"}

// AllocNumber returns the number in the name job.group[number], or 0 if the name
// has no number.
func AllocNumber(name string) uint32 {
	n, _ := strconv.ParseUint(allocIndex(name), 10, 32)
	return uint32(n)
}

// checkVolumes refuses a task whose node does not have the volumes of its group
// as the group asks for them, or whose driver cannot mount them.
func checkVolumes(_ context.Context, at *attempt) error {
	var ps berth.Problems
	t, group := at.task, at.alloc.Job.Group(at.alloc.TaskGroup)
	for _, name := range slices.Sorted(maps.Keys(group.Volumes)) {
		v, where := group.Volumes[name], "group["+group.Name+"].volume["+name+"]"
		source := v.SourceFor(AllocNumber(at.alloc.Name))
		switch has, ok := at.place.Node.HostVolumes[source]; {
		case v.Type == berth.VolumeCSI:
		case v.Type != "" && v.Type != berth.VolumeHost:
			ps.Addf(where+".type", "%q is not supported by this agent: must be host or csi", v.Type)
		case !ok:
			ps.Addf(where+".source", "there is no host volume %q on this node", source)
		case has.ReadOnly && !v.ReadOnly:
			ps.Addf(where+".read_only", "must be true: the host volume %q is read-only on this node", source)
		}
	}
	for _, m := range t.VolumeMounts {
		where := "task[" + t.Name + "].volume_mount"
		switch _, ok := group.Volumes[m.Volume]; {
		case !at.driver.Capabilities().Mounts:
			ps.Addf(where, "%q cannot be mounted: the driver %s mounts no volumes", m.Volume, t.Driver)
		case !ok:
			ps.Addf(where+".volume", "the group has no volume %q", m.Volume)
		case m.PropagationMode != "" && !slices.Contains(propagations, m.PropagationMode):
			ps.Addf(where+".propagation_mode", "must be private, host-to-task or bidirectional, got %q", m.PropagationMode)
		case m.SELinuxLabel != "" && !at.driver.Capabilities().Labels:
			ps.Addf(where+".selinux_label", "must be left out: the driver %s sets no labels", t.Driver)
		case m.SELinuxLabel != "" && m.SELinuxLabel != "z" && m.SELinuxLabel != "Z":
			ps.Addf(where+".selinux_label", "must be z or Z, got %q", berth.Clip(m.SELinuxLabel, 32))
		}
	}
	return ps.Err()
}

// makeMounts says what the driver is to mount where. A mount is read-only if
// the node, the group's volume or the task says so.
func makeMounts(_ context.Context, at *attempt) error {
	group := at.alloc.Job.Group(at.alloc.TaskGroup)
	at.out.Mounts = slices.Clone(at.reserved)
	for _, m := range at.task.VolumeMounts {
		v := group.Volumes[m.Volume]
		has := at.place.Node.HostVolumes[v.SourceFor(AllocNumber(at.alloc.Name))]
		if v.Type == berth.VolumeCSI {
			has = berth.HostVolumeInfo{Path: at.csi[m.Volume]}
		}
		where := "task[" + at.task.Name + "].volume_mount.destination"
		to := at.names.Replace(m.Destination)
		clean := path.Clean("/" + to)
		switch {
		case strings.ContainsRune(to, 0) || slices.Contains(strings.Split(to, "/"), ".."):
			return berth.Errorf(berth.Invalid, "%s: must be a path without .. and NUL, got %q", where, to)
		case clean == "/":
			return berth.Errorf(berth.Invalid, "%s: must be a path below /, got %q", where, to)
		}
		if v.Type == berth.VolumeCSI && v.AttachmentMode == berth.AttachBlock {
			d, err := blockDevice(v.Source, has.Path, clean, v.ReadOnly || m.ReadOnly)
			if err != nil {
				return err
			}
			at.out.Devices = append(at.out.Devices, d)
			continue
		}
		if st, err := os.Stat(has.Path); err != nil {
			return berth.Errorf(berth.Invalid, "volume %q: its directory cannot be used: %w", v.Source, err)
		} else if !st.IsDir() {
			return berth.Errorf(berth.Invalid, "volume %q: %s is not a directory", v.Source, has.Path)
		}
		mode := m.PropagationMode
		if mode == "" {
			mode = propagations[0]
		}
		at.out.Mounts = append(at.out.Mounts, driver.Mount{
			Source: has.Path, Destination: clean, ReadOnly: has.ReadOnly || v.ReadOnly || m.ReadOnly, Propagation: mode, Label: m.SELinuxLabel,
		})
	}
	at.out.Mounts = append(at.out.Mounts, pluginMounts(at)...)
	return nil
}

// blockDevice returns how a task gets a volume that is attached as a block device.
func blockDevice(volume, path, to string, readOnly bool) (driver.Device, error) {
	st, err := os.Lstat(path)
	if err != nil {
		return driver.Device{}, berth.Errorf(berth.Invalid, "volume %q: its device cannot be used: %w", volume, err)
	}
	if st.Mode().Type() != os.ModeDevice { // a character device has another bit as well
		return driver.Device{}, berth.Errorf(berth.Invalid, "volume %q: %s is not a block device", volume, path)
	}
	d := driver.Device{Source: path, Destination: to, Permissions: "rw"}
	if readOnly {
		d.Permissions = "r"
	}
	return d, nil
}
