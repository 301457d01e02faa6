package config

import (
	"strconv"
	"strings"
	"time"

	"berth/internal/agent/driver/docker"
)

// dockerText and the like return settings for fields of the driver's
// configuration.
func dockerText(f func(*docker.Config) *string) setting {
	return text(func(c *Config) *string { return f(&c.Plugins.Docker) })
}

func dockerTexts(f func(*docker.Config) *[]string) setting {
	return texts(func(c *Config) *[]string { return f(&c.Plugins.Docker) })
}

func dockerFlag(f func(*docker.Config) *bool) setting {
	return flag(func(c *Config) *bool { return f(&c.Plugins.Docker) })
}

func dockerSpan(f func(*docker.Config) *time.Duration) setting {
	return span(func(c *Config) *duration { return f(&c.Plugins.Docker) })
}

// not returns the setting of a flag whose field says the opposite.
func not(f func(*docker.Config) *bool) setting {
	return func(d *decoder, path string, n *node) {
		if v, ok := d.flag(path, n); ok {
			*f(&d.to.Plugins.Docker) = !v
		}
	}
}

// dockerKeys are the keys of the config of plugin "docker".
var dockerKeys = table{
	"enabled":      not(func(c *docker.Config) *bool { return &c.Disabled }),
	"endpoint":     dockerText(func(c *docker.Config) *string { return &c.Endpoint }),
	"extra_labels": dockerTexts(func(c *docker.Config) *[]string { return &c.ExtraLabels }),
	"auth": block(table{
		"config": dockerText(func(c *docker.Config) *string { return &c.AuthFile }),
		"helper": dockerText(func(c *docker.Config) *string { return &c.AuthHelper }),
	}),
	"volumes": block(table{
		"enabled":      dockerFlag(func(c *docker.Config) *bool { return &c.Volumes }),
		"selinuxlabel": dockerText(func(c *docker.Config) *string { return &c.SELinuxLabel }),
	}),
	"gc": block(table{
		"image":       not(func(c *docker.Config) *bool { return &c.KeepImages }),
		"image_delay": dockerSpan(func(c *docker.Config) *time.Duration { return &c.ImageDelay }),
		"container":   not(func(c *docker.Config) *bool { return &c.KeepContainers }),
		"dangling_containers": block(table{
			"enabled":        dockerFlag(func(c *docker.Config) *bool { return &c.Dangling }),
			"dry_run":        dockerFlag(func(c *docker.Config) *bool { return &c.DanglingDryRun }),
			"period":         dockerSpan(func(c *docker.Config) *time.Duration { return &c.DanglingPeriod }),
			"creation_grace": dockerSpan(func(c *docker.Config) *time.Duration { return &c.DanglingGrace }),
		}),
	}),
	"logging": block(table{
		"type":   dockerText(func(c *docker.Config) *string { return &c.LoggingDefaults.Type }),
		"config": dict(func(c *Config) *map[string]string { return &c.Plugins.Docker.LoggingDefaults.Config }),
	}),
	"allow_privileged":       dockerFlag(func(c *docker.Config) *bool { return &c.AllowPrivileged }),
	"allow_caps":             dockerTexts(func(c *docker.Config) *[]string { return &c.AllowCaps }),
	"allow_runtimes":         dockerTexts(func(c *docker.Config) *[]string { return &c.AllowRuntimes }),
	"disable_log_collection": dockerFlag(func(c *docker.Config) *bool { return &c.NoLogs }),
	"pull_activity_timeout":  noEffect("a pull is bounded by image_pull_timeout"),
	"image_pull_timeout":     dockerSpan(func(c *docker.Config) *time.Duration { return &c.PullTimeout }),
	"pids_limit": func(d *decoder, path string, n *node) {
		if v, ok := d.whole(path, n); ok {
			d.to.Plugins.Docker.PidsLimit = int64(v)
		}
	},
	"infra_image":                            noEffect("the agent makes the image of infra containers itself"),
	"infra_image_pull_timeout":               noEffect("the agent makes the image of infra containers itself"),
	"nvidia_runtime":                         noEffect("devices are not passed to containers"),
	"windows_allow_insecure_container_admin": only(false),
	"oom_score_adj":                          only(0),
	"tls":                                    block(table{"cert": only(), "key": only(), "ca": only()}),
}

// dockerOption reads an option of the driver that predates plugin blocks, and
// reports whether it is one.
func (d *decoder) dockerOption(at, key, v string) bool {
	c := &d.to.Plugins.Docker
	flags := map[string]struct {
		to  *bool
		yes bool
	}{
		"docker.volumes.enabled": {&c.Volumes, true}, "docker.privileged.enabled": {&c.AllowPrivileged, true},
		"docker.cleanup.image": {&c.KeepImages, false}, "docker.cleanup.container": {&c.KeepContainers, false},
	}
	if f, ok := flags[key]; ok {
		on, err := strconv.ParseBool(v)
		if err != nil && v != "" {
			d.fail(at, "must be true or false, got %.40q", v)
		} else if v != "" {
			*f.to = on == f.yes
		}
		return true
	}
	switch key {
	case "docker.endpoint":
		c.Endpoint = v
	case "docker.auth.config":
		c.AuthFile = v
	case "docker.auth.helper":
		c.AuthHelper = v
	case "docker.volumes.selinuxlabel":
		c.SELinuxLabel = v
	case "docker.cleanup.image.delay":
		delay, err := time.ParseDuration(v)
		if err != nil && v != "" {
			d.fail(at, "invalid duration %.40q: use a unit, such as \"30s\"", v)
		} else if v != "" {
			c.ImageDelay = delay
		}
	case "docker.caps.whitelist", "docker.caps.allowlist":
		c.AllowCaps = strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' })
	default:
		return false
	}
	return true
}
