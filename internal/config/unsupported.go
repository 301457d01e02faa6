package config

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/internal/decode"
)

// The keys of Nomad's agent configuration that Berth does not support. Setting
// one is an error that names it. To support a key, remove its line. Values are
// never printed: some are secrets.
//
// Kinds of lines:
//
//   - only(values…): the key may be empty or have one of the values, which ask
//     for what the agent does anyway.
//   - off(on, keys…): a block that the key on enables. Unless it is true, the
//     block may contain anything in its known keys.
//   - empty: a block that takes effect by its contents. It may be empty or
//     contain only false.

// init adds the keys of Nomad that Berth does not support to the tables, so
// that a file gets a problem that says so and not "unknown key".
func init() {
	maps.Copy(supported, unsupported)
	maps.Copy(telemetryKeys, unsupportedTelemetry)
	maps.Copy(serverKeys, unsupportedServer)
	maps.Copy(clientKeys, groupNetworkKeys)
	maps.Copy(uiKeys, unsupportedUI)
}

// Unsupported returns the keys that are refused by name unless their value asks
// for what the agent does anyway, in order: "client.cni_path".
func Unsupported() (out []string) {
	for block, keys := range map[string]table{
		"": unsupported, "telemetry.": unsupportedTelemetry, "server.": unsupportedServer, "ui.": unsupportedUI,
	} {
		for key := range keys {
			out = append(out, block+key)
		}
	}
	slices.Sort(out)
	return out
}

// unsupported are the keys at the top of the file that Nomad has and Berth does
// not.
var unsupported = table{
	"vault": because("use variables for secrets", off("Vault", []string{"enabled"},
		"address", "allow_unauthenticated", "ca_file", "ca_path", "cert_file", "create_from_role", "default_identity",
		"jwt_auth_backend_path", "key_file", "name", "namespace", "task_token_ttl", "tls_server_name", "tls_skip_verify",
		"token", "connection_retry_interval")),

	"consul":    because("services with provider = \"nomad\" need none, and server_join finds servers", empty("Consul")),
	"sentinel":  because("it is a feature of Nomad Enterprise; use policies of access control", empty("Sentinel")),
	"reporting": because("it is a feature of Nomad Enterprise, and nothing is reported to anyone", empty("reporting")),
	"eventlog":  because("agents run on Linux; use enable_syslog or log_file", empty("the Windows event log")),

	"common_plugin_dir": because("it is a key of the client block, for programs that secrets come from; others are in plugin_dir", only()),
}

// The reasons that several keys share.
const (
	noCirconus   = "use prometheus_metrics, statsd_address or datadog_address"
	noEnterprise = "it is a feature of Nomad Enterprise"
)

// unsupportedTelemetry are such keys of the telemetry block.
var unsupportedTelemetry = table{
	"circonus_api_token":                     because(noCirconus, only()),
	"circonus_api_app":                       because(noCirconus, only("nomad")),
	"circonus_api_url":                       because(noCirconus, only("https://api.circonus.com/v2")),
	"circonus_submission_interval":           because(noCirconus, only("10s")),
	"circonus_submission_url":                because(noCirconus, only()),
	"circonus_check_id":                      because(noCirconus, only()),
	"circonus_check_force_metric_activation": because(noCirconus, only(false)),
	"circonus_check_instance_id":             because(noCirconus, only()),
	"circonus_check_search_tag":              because(noCirconus, only()),
	"circonus_check_display_name":            because(noCirconus, only()),
	"circonus_check_tags":                    because(noCirconus, only()),
	"circonus_broker_id":                     because(noCirconus, only()),
	"circonus_broker_select_tag":             because(noCirconus, only()),
}

// unsupportedServer are such keys of the server block.
var unsupportedServer = table{
	"redundancy_zone":              because(noEnterprise+"; non_voting_server keeps a server as a spare", only()),
	"upgrade_version":              because(noEnterprise+"; replace servers one by one", only()),
	"license_path":                 because("Berth has no licenses", only()),
	"license_env":                  because("Berth has no licenses", only()),
	"csi_volume_claim_gc_interval": only(5 * time.Minute),
	"csi_plugin_gc_threshold":      only(time.Hour),
}

// because adds to what a setting refuses why, or what to do instead.
func because(why string, s setting) setting {
	return func(d *decoder, path string, n *node) {
		d.instead = "; " + why
		s(d, path, n)
		d.instead = ""
	}
}

// refuse notes that a value is not supported.
func (d *decoder) refuse(pos, path, format string, args ...any) {
	d.addf(pos, path, format+"%s", append(args, d.instead)...)
}

// only accepts a key that is empty or has one of the values.
func only(values ...any) setting {
	return func(d *decoder, path string, n *node) {
		if !isSet(n) && !slices.Contains(values, any(true)) {
			return
		}
		for _, v := range values {
			if same(n.value, v) {
				return
			}
		}
		switch _, isBool := n.value.(bool); {
		case len(values) == 0:
			d.refuse(n.pos, path, "is not supported: remove it")
		case isBool && len(values) == 1:
			d.refuse(n.pos, path, "is not supported: must be %s", list(values))
		default:
			d.refuse(n.pos, path, "other values are not supported: must be %s%s", list(values), shown(n.value))
		}
	}
}

// shown returns ", got 2" for a number or a bool, and "" for all else, which may
// be a secret.
func shown(v any) string {
	switch v.(type) {
	case bool, int64, float64:
		return fmt.Sprintf(", got %v", v)
	}
	return ""
}

// same compares the value in a file with v: durations by length, numbers and
// bools also as strings.
func same(given, v any) bool {
	switch v := v.(type) {
	case time.Duration:
		s, ok := given.(string)
		d, err := time.ParseDuration(s)
		return ok && err == nil && d == v
	case int:
		return fmt.Sprint(given) == fmt.Sprint(v)
	case string:
		s, ok := given.(string)
		return ok && strings.EqualFold(s, v)
	}
	return fmt.Sprint(given) == fmt.Sprint(v)
}

// list returns values as an alternative: "a" or "b".
func list(values []any) string {
	var out []string
	for _, v := range values {
		if s, ok := v.(string); ok {
			v = fmt.Sprintf("%q", s)
		}
		out = append(out, fmt.Sprint(v))
	}
	return strings.Join(out, " or ")
}

// isSet reports whether a value asks for anything: it is not false, 0 or empty.
func isSet(n *node) bool {
	switch v := n.value.(type) {
	case bool:
		return v
	case string:
		return v != "" && v != "false"
	case int64:
		return v != 0
	case float64:
		return v != 0
	case []*node:
		return slices.ContainsFunc(v, isSet)
	case object:
		for _, inner := range v {
			if isSet(inner) {
				return true
			}
		}
	}
	return false
}

// off is the setting of a block that one of the keys in on enables.
func off(what string, on []string, others ...string) setting {
	return func(d *decoder, path string, n *node) {
		o, ok := n.value.(object)
		if !ok {
			d.addf(n.pos, path, "must be a block, got %s", kind(n.value))
			return
		}
		known := append(slices.Clone(on), others...)
		for _, k := range o.keys() {
			switch at := decode.Join(path, k); {
			case !slices.Contains(known, k):
				d.unknown(o[k].pos, at, known)
			case slices.Contains(on, k):
				if on, ok := d.flag(at, o[k]); ok && on {
					d.refuse(o[k].pos, at, "%s is not supported: must be false", what)
				}
			}
		}
	}
}

// empty is the setting of a block that takes effect by its contents.
func empty(what string) setting {
	return func(d *decoder, path string, n *node) {
		if _, ok := n.value.(object); !ok {
			d.addf(n.pos, path, "must be a block, got %s", kind(n.value))
			return
		}
		if isSet(n) {
			d.refuse(n.pos, path, "%s is not supported: remove the block", what)
		}
	}
}

// noEffect accepts a key without effect, and warns if it is set.
func noEffect(why string) setting {
	return func(d *decoder, path string, n *node) {
		if isSet(n) {
			d.warnf("%s: %s has no effect: %s", n.pos, path, why)
		}
	}
}

// levels are the log levels by name. trace is debug; see Config.LogTrace.
var levels = map[string]slog.Level{
	"trace": slog.LevelDebug, "debug": slog.LevelDebug, "info": slog.LevelInfo,
	"warn": slog.LevelWarn, "error": slog.LevelError, "err": slog.LevelError,
}

// Level returns the level of a name, in any case.
func Level(name string) (slog.Level, bool) {
	level, ok := levels[strings.ToLower(name)]
	return level, ok
}

type duration = time.Duration
