package daemon

import (
	"fmt"
	"slices"

	"berth/internal/agent/driver/isolated"
	"berth/internal/agent/driver/process"
	"berth/internal/agent/driver/raw"
	"berth/internal/agent/isolate"
	"berth/internal/config"
)

// driverConfigs are the configurations of the drivers whose tasks are processes.
type driverConfigs struct {
	raw        raw.Config
	exec, java isolated.Config
	qemu       isolated.QemuConfig
}

// drivers returns what the configuration says of the drivers.
func drivers(c *config.Config) (out driverConfigs, err error) {
	rules := func(driver, uids, gids string) (r process.Rules, err error) {
		if slices.Contains(c.Client.UserCheck, driver) {
			r.Denied = c.Client.UserDeny
		}
		if r.UIDs, err = process.Ranges(uids); err == nil {
			r.GIDs, err = process.Ranges(gids)
		}
		return r, err
	}
	var numbers *process.Numbers
	if u := c.Client.Users; u.High > 0 {
		numbers = &process.Numbers{Range: process.Range{Low: uint32(u.Low), High: uint32(u.High)}}
	}
	p := &c.Plugins
	out.raw = raw.Config{Enabled: p.RawExec, NoCgroups: p.Raw.NoCgroups, DeniedEnv: p.Raw.DeniedEnv}
	if out.raw.Users, err = rules("raw_exec", p.Raw.DeniedUIDs, p.Raw.DeniedGIDs); err != nil {
		return out, fmt.Errorf("plugin raw_exec: %w", err)
	}
	for name, to := range map[string]struct {
		plugin *config.IsolatedPlugin
		out    *isolated.Config
	}{"exec": {&p.Exec, &out.exec}, "java": {&p.Java, &out.java}} {
		i := to.plugin
		*to.out = isolated.Config{AllowCaps: i.AllowCaps, HostPID: i.PIDMode == "host", HostIPC: i.IPCMode == "host", Chroot: c.Client.ChrootEnv, Numbers: numbers}
		if _, err := isolate.Capabilities(i.AllowCaps); err != nil {
			return out, fmt.Errorf("plugin %s: allow_caps: %w", name, err)
		}
		if to.out.Users, err = rules(name, i.DeniedUIDs, i.DeniedGIDs); err != nil {
			return out, fmt.Errorf("plugin %s: %w", name, err)
		}
	}
	out.qemu = isolated.QemuConfig{ImagePaths: p.Qemu.ImagePaths, Args: p.Qemu.Args}
	if out.qemu.Users, err = rules("qemu", "", ""); err != nil {
		return out, err
	}
	return out, nil
}
