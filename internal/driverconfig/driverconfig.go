// Package driverconfig declares, for each driver, what the config block of a
// task may hold. Registration validates jobs with these declarations, drivers
// read their config with them, and docs/drivers.md lists them, so a driver
// understands all that registration accepts.
package driverconfig

import (
	"maps"
	"slices"
	"strings"

	"berth"
	"berth/internal/decode"
)

// Schema declares the config of one driver.
type Schema struct {
	Driver   string // name, for problems
	Settings []Setting
}

// Setting is one key of a driver's config.
type Setting struct {
	Key      string
	Kind     Kind
	Required bool      // must be present and not empty
	High     int64     // the largest value of an Integer; the smallest is 0
	Low      int64     // the smallest value of an Integer
	Settings []Setting // the keys of a Block or of each of Blocks
	// Want tells what a text must be, such as "an absolute path", or "" if the
	// text is that; nil takes any. It checks each text of Strings and of a Map.
	Want func(string) string
	// Refused says why a key that other builds have is refused; "" if it works.
	Refused string
	Doc     string // one sentence for the documentation
}

// RawExec is the config of raw_exec, which runs a command on the host without
// isolation.
var RawExec = &Schema{"raw_exec", []Setting{
	{Key: "command", Kind: String, Required: true, Doc: "Program to run: an absolute path on the host, a path below the task's directory, or a name in `PATH`."},
	{Key: "args", Kind: Strings, Doc: "Arguments of the command."},
	{Key: "work_dir", Kind: String, Doc: "Absolute path of the working directory. Default: the task's directory."},
	{Key: "oom_score_adj", Kind: Integer, High: 1000, Doc: "How readily the kernel kills the task when the machine runs out of memory."},
	{Key: "denied_envvars", Kind: Strings, Doc: "Environment variables that the task does not get. `*` stands for any text."},
}}

// isolation is what tasks with a file tree of their own share.
var isolation = []Setting{
	{Key: "work_dir", Kind: String, Doc: "Absolute path of the working directory in the task's file tree. Default: `/`, the task's directory."},
	{Key: "pid_mode", Kind: String, Doc: "`private`: the task sees its own processes only. `host`: it sees those of the host. Default: what the agent's configuration says, else `private`."},
	{Key: "ipc_mode", Kind: String, Doc: "`private`: the task has shared memory of its own. `host`: it shares the host's. Default: what the agent's configuration says, else `private`."},
	{Key: "cap_add", Kind: Strings, Doc: "Capabilities that the task has, such as `net_bind_service`. The agent must allow them. Default: none."},
	{Key: "cap_drop", Kind: Strings, Doc: "Capabilities to leave out of `cap_add`."},
	{Key: "oom_score_adj", Kind: Integer, High: 1000, Doc: "How readily the kernel kills the task when the machine runs out of memory."},
}

// Exec is the config of exec, which runs a command with a file tree and
// processes of its own.
var Exec = &Schema{"exec", append([]Setting{
	{Key: "command", Kind: String, Required: true, Doc: "Program to run: an absolute path in the task's file tree, a path below the task's directory, or a name in `PATH`."},
	{Key: "args", Kind: Strings, Doc: "Arguments of the command."},
}, isolation...)}

// Java is the config of java, which runs a Java program as exec runs a command.
var Java = &Schema{"java", append([]Setting{
	{Key: "class", Kind: String, Doc: "Class whose `main` is run. It or `jar_path` must be set."},
	{Key: "class_path", Kind: String, Doc: "Where Java looks for classes, as its option `-cp`."},
	{Key: "jar_path", Kind: String, Doc: "Archive to run, such as `local/app.jar`. It or `class` must be set."},
	{Key: "jvm_options", Kind: Strings, Doc: "Options of Java itself, before the class or archive."},
	{Key: "args", Kind: Strings, Doc: "Arguments of the Java program."},
}, isolation...)}

// Mock is the config of mock_driver, which pretends to run a task. It is meant
// for tests; an agent has it only if its configuration enables it.
var Mock = &Schema{"mock_driver", []Setting{
	{Key: "run_for", Kind: Duration, Doc: "How long the task runs. Default: it ends at once."},
	{Key: "exit_code", Kind: Integer, High: 255, Doc: "Exit code of the task."},
	{Key: "exit_signal", Kind: Integer, High: 64, Doc: "Signal that the task ends with."},
	{Key: "exit_err_msg", Kind: String, Doc: "Error that the task ends with."},
	{Key: "start_error", Kind: String, Doc: "Error that the start fails with."},
	{Key: "start_error_recoverable", Kind: Bool, Doc: "Whether the start may be tried again after `start_error`."},
	{Key: "start_block_for", Kind: Duration, Doc: "How long the start takes."},
	{Key: "kill_after", Kind: Duration, Doc: "How long the task takes to end once it is asked to."},
	{Key: "signal_error", Kind: String, Doc: "Error that a signal fails with."},
	{Key: "stdout_string", Kind: String, Doc: "Text that the task prints to stdout."},
	{Key: "stdout_repeat", Kind: Integer, High: 1_000_000, Doc: "How many more times it prints the text."},
	{Key: "stdout_repeat_duration", Kind: Duration, Doc: "How long it waits between repetitions."},
	{Key: "stderr_string", Kind: String, Doc: "As `stdout_string`, for stderr."},
	{Key: "stderr_repeat", Kind: Integer, High: 1_000_000, Doc: "As `stdout_repeat`, for stderr."},
	{Key: "stderr_repeat_duration", Kind: Duration, Doc: "As `stdout_repeat_duration`, for stderr."},
}}

// schemas are those of all drivers that jobs can name.
var schemas = []*Schema{Docker, Exec, Java, Mock, Podman, Qemu, RawExec}

// Drivers returns the names of the drivers that have a schema, in order.
func Drivers() []string {
	var names []string
	for _, s := range schemas {
		names = append(names, s.Driver)
	}
	slices.Sort(names)
	return names
}

// Needs returns what a machine must have so that its agent has a driver, or ""
// if that takes the agent's configuration.
func Needs(driver string) string {
	switch driver {
	case Docker.Driver:
		return "a Docker engine runs on its machine"
	case Podman.Driver:
		return "podman serves its socket on its machine"
	case Qemu.Driver:
		return "its machine has QEMU's program qemu-system-x86_64 and the agent runs as root"
	}
	return ""
}

// Of returns the schema of a driver, or nil if the driver is unknown.
func Of(driver string) *Schema {
	for _, s := range schemas {
		if s.Driver == driver {
			return s
		}
	}
	return nil
}

// find returns the declaration of a key, or nil if there is none.
func find(settings []Setting, key string) *Setting {
	for i := range settings {
		if settings[i].Key == key {
			return &settings[i]
		}
	}
	return nil
}

// Check returns what is wrong with the config of a task at registration. path
// names the config in problems. A string that contains ${ is accepted for any
// kind, since it is interpolated when the task starts.
func (s *Schema) Check(path string, config map[string]any) berth.Problems {
	_, problems := s.values(path, config, true)
	return problems
}

// Read returns the values of a config whose strings have been interpolated, or an
// Invalid error with all problems.
func (s *Schema) Read(config map[string]any) (Values, error) {
	v, problems := s.values("config", config, false)
	return v, problems.Err()
}

// values reads a task's config. Keys that the driver does not declare, and
// required ones that are missing or empty, are problems. With raw, texts that
// still contain ${…} are left out where their value matters: it is known only
// on the node.
func (s *Schema) values(path string, config map[string]any, raw bool) (Values, berth.Problems) {
	r := reader{driver: s.Driver, raw: raw}
	v := r.block(path, s.Settings, config)
	return v, r.problems
}

// reader reads a config and notes its problems.
type reader struct {
	driver   string
	raw      bool
	problems berth.Problems
}

// open reports whether a text is to be interpolated yet, so that nothing can be
// said of it.
func (r *reader) open(v any) bool {
	s, ok := text(v)
	return r.raw && ok && strings.Contains(s, "${")
}

// block reads the keys of a config or of a block in it.
func (r *reader) block(path string, settings []Setting, config map[string]any) Values {
	values := Values{r.driver, settings, map[string]any{}}
	var misspelled []string // what unknown keys were probably meant for: it is not reported as missing, too
	for _, key := range slices.Sorted(maps.Keys(config)) {
		v, at := config[key], path+"."+berth.Clip(key, 64)
		set := find(settings, key)
		switch {
		case v == nil: // same as absent
		case set == nil:
			name := nearest(settings, key)
			if name == "" {
				r.problems.Addf(at, "unknown setting of the driver %s", r.driver)
				continue
			}
			r.problems.Addf(at, "unknown setting of the driver %s; did you mean %q?", r.driver, name)
			misspelled = append(misspelled, name)
		case set.Refused != "":
			if asks(v) {
				r.problems.Addf(at, "is not supported: %s", set.Refused)
			}
		case set.Kind != String && r.open(v):
		default:
			values.by[key] = r.value(set, at, v)
		}
	}
	var missing []string
	for i := range settings {
		key := settings[i].Key
		if t, ok := text(config[key]); settings[i].Required && (config[key] == nil || ok && t == "") && !slices.Contains(misspelled, key) {
			missing = append(missing, key)
		}
	}
	slices.Sort(missing)
	for _, key := range missing {
		r.problems.Addf(path+"."+key, "is missing; the driver %s requires it", r.driver)
	}
	return values
}

// nearest returns the setting that an unknown key was probably meant for, or "". A
// key of one or two letters is near to too many.
func nearest(settings []Setting, key string) string {
	if len(key) < 3 {
		return ""
	}
	var names []string
	for i := range settings {
		if settings[i].Refused == "" {
			names = append(names, settings[i].Key)
		}
	}
	return decode.Nearest(key, names)
}

// asks reports whether a value asks for anything.
func asks(v any) bool {
	s, ok := text(v)
	return v != false && (!ok || s != "" && s != "false")
}
