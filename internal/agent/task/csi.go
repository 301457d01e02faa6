package task

import (
	"context"
	"path/filepath"

	"berth"
	"berth/internal/agent/driver"
)

// Plugins makes the directories of tasks that are CSI plugins.
type Plugins interface {
	MakeDirs(alloc, task, plugin string) error
	SocketDir(alloc, task string) string // has csi.sock
	VolumeDir(plugin string) string      // below which the plugin mounts volumes
}

// csiSocket is the name of a plugin's socket, and csiEndpoint the environment
// variable that tells the plugin where it is.
const (
	csiSocket   = "csi.sock"
	csiEndpoint = "CSI_ENDPOINT"
)

// makePlugin makes the directories of a task that is a CSI plugin, and tells the
// task where its socket is. A driver that mounts nothing runs the task in the
// tree of the machine.
func makePlugin(_ context.Context, at *attempt) error {
	c := at.task.CSIPluginConfig
	if c == nil {
		return nil
	}
	if at.plugins == nil {
		return berth.Errorf(berth.Invalid, "task[%s].csi_plugin: is not supported by this agent", at.task.Name)
	}
	if err := at.plugins.MakeDirs(at.alloc.ID.String(), at.task.Name, c.ID); err != nil {
		return driver.Recoverable(err)
	}
	dir := at.plugins.SocketDir(at.alloc.ID.String(), at.task.Name)
	if at.driver.Capabilities().Mounts {
		dir = c.MountDir
	}
	at.names.Env[csiEndpoint] = "unix://" + filepath.Join(dir, csiSocket)
	at.out.Env = list(at.names.Env)
	return nil
}

// pluginMounts are the mounts of a task that is a CSI plugin: its socket, and the
// directory below which it mounts volumes so that the machine sees them.
func pluginMounts(at *attempt) []driver.Mount {
	c := at.task.CSIPluginConfig
	if c == nil || !at.driver.Capabilities().Mounts {
		return nil
	}
	out := []driver.Mount{{Source: at.plugins.SocketDir(at.alloc.ID.String(), at.task.Name), Destination: c.MountDir, Propagation: propagations[0]}}
	if c.Type != "controller" {
		out = append(out, driver.Mount{Source: at.plugins.VolumeDir(c.ID), Destination: c.StagePublishBaseDir, Propagation: propagations[2]})
	}
	return out
}

// mountCSI mounts the CSI volumes of the group.
func mountCSI(ctx context.Context, at *attempt) (err error) {
	wanted := false
	for _, v := range at.alloc.Job.Group(at.alloc.TaskGroup).Volumes {
		wanted = wanted || v.Type == berth.VolumeCSI
	}
	if !wanted {
		return nil
	}
	if at.volumes == nil {
		return berth.Errorf(berth.Invalid, "group[%s].volume.type: csi is not supported by this agent", at.alloc.TaskGroup)
	}
	at.csi, err = at.volumes(ctx, func(message string) { at.doing(berth.EventWaiting, message) })
	if err != nil && ctx.Err() == nil {
		return driver.Recoverable(err)
	}
	return err
}
