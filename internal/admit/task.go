package admit

import (
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"berth"
	"berth/internal/decode"
)

// task decodes a task over its defaults. It shares the group's restart policy
// unless it has its own.
func (d *decoder) task(g *berth.TaskGroup, tree decode.Tree, at string) *berth.Task {
	t := &berth.Task{
		KillTimeout:   5 * time.Second,
		RestartPolicy: g.RestartPolicy,
		Resources:     &berth.Resources{CPU: 100, MemoryMB: 300},
		LogConfig:     &berth.LogConfig{MaxFiles: 10, MaxFileSizeMB: 10},
	}
	d.Fill(t, tree, at)
	for i := range t.Resources.Networks {
		sortPorts(&t.Resources.Networks[i])
	}
	// Policies are stored in one form, whichever the file used.
	for i := range t.ScalingPolicies {
		t.ScalingPolicies[i] = *t.ScalingPolicies[i].Plain()
	}
	d.identities(t)
	d.inputs(t)
	// enabled is the older spelling of disabled, and can only be told from
	// an absent one as a pointer.
	if e := t.LogConfig.Enabled; e != nil {
		logs := *t.LogConfig
		logs.Disabled, logs.Enabled = !*e, nil
		t.LogConfig = &logs
	}
	if t.Lifecycle != nil && *t.Lifecycle == (berth.TaskLifecycle{}) {
		t.Lifecycle = nil // as clients send it that mean none
	}
	if t.Resources.Cores > 0 && !writes(tree, "Resources", "CPU") {
		r := *t.Resources
		r.CPU = 0 // cores replace the default shares
		t.Resources = &r
	}
	return t
}

// task checks one task of group g. A restart policy that is the group's was
// checked there.
func (c *checker) task(at string, g *berth.TaskGroup, t *berth.Task) {
	c.name(at+".name", t.Name, reservedTaskNames)
	c.driver(at, t)
	c.line(at+".user", t.User, berth.MaxNameLen)
	c.strings(at+".meta", t.Meta)
	if !c.atMost(at+".env", entriesLimit, len(t.Env), "entries") {
		return
	}
	for _, k := range slices.Sorted(maps.Keys(t.Env)) {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(t.Env[k], 0) || !utf8.ValidString(k+t.Env[k]) {
			c.addf(at+".env", "%q is not a valid environment variable, or its value is not valid", berth.Clip(k, 64))
		}
	}
	c.conditions(at, t.Constraints, t.Affinities)
	c.resources(at+".resources", t.Resources)
	if t.RestartPolicy != g.RestartPolicy {
		c.restartValues(at+".restart", t.RestartPolicy)
	}
	c.lifecycle(at+".lifecycle", t.Lifecycle)
	c.volumeMounts(at+".volume_mount", g, t.VolumeMounts)
	if t.CSIPluginConfig != nil {
		c.csiPlugin(at+".csi_plugin", t.CSIPluginConfig)
	}
	c.duration(at+".kill_timeout", t.KillTimeout, 0)
	c.duration(at+".shutdown_delay", t.ShutdownDelay, 0)
	if t.KillSignal != "" && !slices.Contains(signals, strings.ToUpper(t.KillSignal)) {
		c.addf(at+".kill_signal", "unknown signal %q: want %s", berth.Clip(t.KillSignal, 64), orList(signals))
	}
	c.actions(at+".action", t)
	c.taskScaling(at+".scaling", t)
	c.identities(at, t)
	c.artifacts(at+".artifact", t)
	c.templates(at+".template", t)
	c.secrets(at+".secret", t)
	c.unsupportedTask(at, t)
}

// hooks are the hooks of a lifecycle.
var hooks = []string{berth.HookPrestart, berth.HookPoststart, berth.HookPoststop}

// lifecycle checks when a task runs relative to the main tasks. Of what has
// ended nothing can run beside.
func (c *checker) lifecycle(at string, l *berth.TaskLifecycle) {
	switch {
	case l == nil:
	case !slices.Contains(hooks, l.Hook):
		c.addf(at+".hook", "unknown hook %q: want %s", berth.Clip(l.Hook, 64), orList(hooks))
	case l.Sidecar && l.Hook == berth.HookPoststop:
		c.addf(at+".sidecar", "must be false with the hook poststop: the main tasks, beside which it would run, have ended then")
	}
}

// signals are the signals that a task can be stopped with.
var signals = []string{
	"SIGABRT", "SIGALRM", "SIGCONT", "SIGHUP", "SIGINT", "SIGKILL", "SIGQUIT", "SIGTERM", "SIGTRAP",
	"SIGTSTP", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGIO", "SIGPIPE", "SIGPROF", "SIGSTOP", "SIGTTIN", "SIGTTOU",
}
