package admit

import (
	"maps"
	"slices"
	"strings"
	"time"

	"berth"
	"berth/internal/decode"
)

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

func (c *checker) driver(at string, t *berth.Task) {
	config, ok := driverConfigs[t.Driver]
	if !ok {
		what := "is not a driver of this build"
		if t.Driver == "" {
			what = "is missing"
		}
		c.addf(at+".driver", "%q %s; allowed are %s", berth.Clip(t.Driver, 64), what, strings.Join(Drivers(), ", "))
		return
	}
	for _, k := range slices.Sorted(maps.Keys(t.Config)) {
		kind, ok := config[k]
		switch {
		case t.Config[k] == nil: // as good as absent
		case !ok:
			c.addf(at+".config."+berth.Clip(k, 64), "the driver %s has no such setting", t.Driver)
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
	d := decode.Decoder{Loose: true}
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
			if _, ok := d.Integer(v); !ok {
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
