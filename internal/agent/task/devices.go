package task

import (
	"context"
	"fmt"
	"maps"
	"path"
	"strings"

	"berth"
	"berth/internal/agent/driver"
	"berth/op"
)

// Reserver asks the plugin that has devices how a task gets to use them.
type Reserver func(context.Context, op.AllocatedDevice) (*driver.Reservation, error)

// checkDevices notes devices that the task asks for and was not given.
func (at *attempt) checkDevices(ps *berth.Problems, where string) {
	var has uint64
	if g := given(at.alloc, at.task.Name); g != nil {
		for _, d := range g.Devices {
			has += uint64(len(d.DeviceIDs))
		}
	}
	var need uint64
	for _, d := range at.task.Resources.Devices {
		need += d.Count
	}
	switch {
	case need > 0 && at.reserve == nil:
		ps.Addf(where+"resources.device", "the task needs %q, and this agent has no devices", at.task.Resources.Devices[0].Name)
	case has != need:
		ps.Addf(where+"resources.device", "the task needs %d, and servers gave it %d", need, has)
	}
}

// reserveDevices asks for what the task needs to use its devices: variables, unless
// the job sets them, mounts and device nodes. A task that sees the files of the
// host needs no mounts.
func reserveDevices(ctx context.Context, at *attempt) error {
	g := given(at.alloc, at.task.Name)
	if g == nil || len(g.Devices) == 0 {
		return nil
	}
	at.out.DeviceEnv = map[string]string{}
	at.reserved = nil
	can := at.driver.Capabilities()
	for _, d := range g.Devices {
		r, err := at.reserve(ctx, d)
		if err != nil {
			return fmt.Errorf("task[%s].resources.device[%s/%s/%s]: %w", at.task.Name, d.Vendor, d.Type, d.Name, err)
		}
		for k, v := range r.Env {
			if _, ok := at.task.Env[k]; ok {
				continue
			}
			if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(v, 0) {
				return berth.Errorf(berth.Invalid, "the plugin of the device %s sets %.64q, which cannot be an environment variable", d.Name, k)
			}
			at.out.DeviceEnv[k] = v
		}
		if !can.Mounts {
			continue
		}
		for _, m := range r.Mounts {
			if err := placed(m.Source, m.Destination); err != nil {
				return fmt.Errorf("mount of the device %s: %w", d.Name, err)
			}
			at.reserved = append(at.reserved, m)
		}
		for _, m := range r.Devices {
			if err := placed(m.Source, m.Destination); err != nil {
				return fmt.Errorf("node of the device %s: %w", d.Name, err)
			}
			if m.Permissions == "" {
				m.Permissions = "rwm"
			}
			if strings.Trim(m.Permissions, "rwm") != "" {
				return berth.Errorf(berth.Invalid, "node of the device %s: permissions %.16q must be any of r, w and m", d.Name, m.Permissions)
			}
			at.out.Devices = append(at.out.Devices, m)
		}
	}
	maps.Copy(at.names.Env, at.out.DeviceEnv)
	at.out.Env = list(at.names.Env)
	return nil
}

// placed returns an error unless a path of the host and a place in a task's tree
// are absolute and have no steps up.
func placed(source, destination string) error {
	for _, p := range []string{source, destination} {
		if !path.IsAbs(p) || path.Clean(p) != p || p == "/" || strings.ContainsRune(p, 0) {
			return berth.Errorf(berth.Invalid, "%.200q must be an absolute path below / without ..", p)
		}
	}
	return nil
}
