package berth

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// What a job file can say and this build cannot do yet is refused here, by
// name. Building a block removes its line.

// unbuilt notes that the block or value at path has no behaviour yet.
func (c *checker) unbuilt(present bool, at, instead string) {
	if present {
		if instead != "" {
			instead = "; " + instead
		}
		c.addf(at, "is not built yet%s", instead)
	}
}

func (c *checker) unbuiltJob(at string, j *Job) {
	c.unbuilt(j.Multiregion != nil, at+".multiregion", "")
	c.unbuilt(j.ConsulNamespace != "", at+".consul_namespace", "")
	c.unbuilt(j.VaultNamespace != "", at+".vault_namespace", "")
}

func (c *checker) unbuiltGroup(at string, j *Job, g *TaskGroup) {
	for _, name := range slices.Sorted(maps.Keys(g.Volumes)) {
		v, vat := g.Volumes[name], at+".volume["+clip(name, 64)+"]"
		if v.Type == VolumeCSI {
			c.addf(vat+".type", "%q is not built yet; allowed is host", v.Type)
		}
		c.unbuilt(v.Sticky, vat+".sticky", "allowed is false")
		c.unbuilt(v.AccessMode != "", vat+".access_mode", "")
		c.unbuilt(v.AttachmentMode != "", vat+".attachment_mode", "")
	}
	c.unbuilt(g.Consul != nil, at+".consul", "")
	if d := g.EphemeralDisk; d != nil {
		c.unbuilt(d.Sticky, at+".ephemeral_disk.sticky", "allowed is false")
		c.unbuilt(d.Migrate, at+".ephemeral_disk.migrate", "allowed is false")
	}
	for i := range g.Networks {
		n := &g.Networks[i]
		nat := at + ".network"
		if n.Mode == NetworkNone {
			c.addf(nat+".mode", "%q is not built yet; allowed are host, bridge and cni/…", n.Mode)
		}
		c.unbuilt(n.DNS != nil, nat+".dns", "")
		c.unbuilt(n.Hostname != "", nat+".hostname", "")
		c.unbuilt(n.CNI != nil, nat+".cni", "")
		c.unbuilt(n.Device != "", nat+".device", "")
		c.unbuilt(n.CIDR != "", nat+".cidr", "")
		c.unbuilt(n.IP != "", nat+".ip", "")
	}
}

func (c *checker) unbuiltTask(at string, t *Task) {
	c.unbuilt(t.Lifecycle != nil, at+".lifecycle", "")
	c.unbuilt(len(t.Artifacts) > 0, at+".artifact", "")
	c.unbuilt(t.Vault != nil, at+".vault", "")
	c.unbuilt(t.Consul != nil, at+".consul", "")
	c.unbuilt(len(t.Templates) > 0, at+".template", "")
	c.unbuilt(len(t.VolumeMounts) > 0, at+".volume_mount", "")
	c.unbuilt(t.CSIPluginConfig != nil, at+".csi_plugin", "")
	c.unbuilt(t.Kind != "", at+".kind", "")
	c.unbuilt(len(t.Secrets) > 0, at+".secret", "")
	c.unbuilt(t.Identity != nil || len(t.Identities) > 0, at+".identity", "")
	c.unbuilt(len(t.Actions) > 0, at+".action", "")
	c.unbuilt(t.Schedule != nil, at+".schedule", "")
	r, rat := t.Resources, at+".resources"
	c.unbuilt(r.SecretsMB != 0, rat+".secrets", "")
	c.unbuilt(len(r.Networks) > 0, rat+".network", "the group's network block has ports for all its tasks")
}

// driverConfigs lists the drivers there are and what their config may say:
// the kind of each value, and a star if it must be there.
var driverConfigs = map[string]map[string]string{
	"raw_exec": {"command": "text*", "args": "texts", "work_dir": "text"},
	"mock_driver": {
		"run_for": "duration", "exit_code": "number", "exit_signal": "number", "exit_err_msg": "text",
		"start_error": "text", "start_error_recoverable": "bool", "start_block_for": "duration",
		"kill_after": "duration", "signal_error": "text",
		"stdout_string": "text", "stdout_repeat": "number", "stdout_repeat_duration": "duration",
		"stderr_string": "text", "stderr_repeat": "number", "stderr_repeat_duration": "duration",
	},
}

// Drivers returns the names of the drivers there are.
func Drivers() []string { return slices.Sorted(maps.Keys(driverConfigs)) }

func (c *checker) driver(at string, t *Task) {
	config, ok := driverConfigs[t.Driver]
	if !ok {
		what := "is not a driver of this build"
		if t.Driver == "" {
			what = "is missing"
		}
		c.addf(at+".driver", "%q %s; allowed are %s", clip(t.Driver, 64), what, strings.Join(Drivers(), ", "))
		return
	}
	for _, k := range slices.Sorted(maps.Keys(t.Config)) {
		kind, ok := config[k]
		switch {
		case t.Config[k] == nil: // as good as absent
		case !ok:
			c.addf(at+".config."+clip(k, 64), "the driver %s has no such setting", t.Driver)
		default:
			c.setting(at+".config."+k, strings.TrimSuffix(kind, "*"), t.Config[k])
		}
	}
	for _, k := range slices.Sorted(maps.Keys(config)) {
		if s, is := t.Config[k].(string); strings.HasSuffix(config[k], "*") && (!is || s == "") {
			if t.Config[k] == nil || is {
				c.addf(at+".config."+k, "is missing; the driver %s needs it", t.Driver)
			}
		}
	}
}

// setting checks one value of a driver's config. Numbers, bools and durations
// may be interpolated when the task starts, so text with ${ passes.
func (c *checker) setting(at, kind string, v any) {
	s, isText := v.(string)
	if isText && strings.Contains(s, "${") {
		return
	}
	d := decoder{loose: true}
	switch kind {
	case "text":
		if !isText {
			c.addf(at, "a string is wanted, not %v", v)
		}
	case "texts":
		list, ok := v.([]any)
		for _, x := range list {
			if _, is := x.(string); !is {
				ok = false
			}
		}
		if !ok {
			c.addf(at, "a list of strings is wanted")
		}
	case "number":
		if _, is := v.(int64); !is {
			if _, ok := d.integer(v, at); !ok {
				c.addf(at, "a whole number is wanted, not %v", v)
			}
		}
	case "bool":
		if _, is := v.(bool); !is && s != "true" && s != "false" {
			c.addf(at, "true or false is wanted, not %v", v)
		}
	case "duration":
		if _, is := v.(int64); !is && !isDuration(s) {
			c.addf(at, "a duration (such as \"90s\") is wanted, not %v", v)
		}
	}
}

func isDuration(s string) bool {
	_, err := time.ParseDuration(s)
	return err == nil
}
