package config

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
)

// What Nomad's agent can be told and this one cannot do yet is refused here,
// by name. Building a key removes its line. Values are never printed: some of
// them are secrets.
//
// Three kinds of line:
//
//   - only(values…): the key may be empty, or have one of the values, which
//     are those that it has anyway: the documented default, or what this agent
//     does.
//   - off(on, keys…): a block that is switched on by a key. While none of
//     those is true it may say what it likes, in keys that exist.
//   - silent: a block that is on by what it says: it may be empty, or say
//     false to everything.

func init() {
	maps.Copy(built, unbuilt)
	maps.Copy(telemetryKeys, unbuiltTelemetry)
	maps.Copy(serverKeys, unbuiltServer)
	maps.Copy(clientKeys, unbuiltClient)
}

var unbuilt = table{
	"acl": off("access control", []string{"enabled"},
		"token_ttl", "policy_ttl", "role_ttl", "replication_token", "token_min_expiration_ttl", "token_max_expiration_ttl"),
	"vault": off("Vault", []string{"enabled"},
		"address", "allow_unauthenticated", "ca_file", "ca_path", "cert_file", "create_from_role", "default_identity",
		"jwt_auth_backend_path", "key_file", "name", "namespace", "task_token_ttl", "tls_server_name", "tls_skip_verify",
		"token", "connection_retry_interval"),
	"audit": off("the audit log", []string{"enabled"}, "sink", "filter"),
	"ui":    off("the web UI", []string{"enabled"}, "consul", "vault", "label", "content_security_policy", "show_cli_hints"),

	"consul":    silent("Consul"),
	"sentinel":  silent("Sentinel"),
	"keyring":   silent("a keyring"),
	"reporting": silent("reporting"),
	"eventlog":  silent("the Windows event log"),

	"enable_debug":              only(false),
	"enable_syslog":             only(false),
	"syslog_facility":           idle("nothing is written to syslog"),
	"log_file":                  only(),
	"log_include_location":      only(false),
	"log_rotate_bytes":          idle("there is no log file to rotate"),
	"log_rotate_duration":       idle("there is no log file to rotate"),
	"log_rotate_max_files":      idle("there is no log file to rotate"),
	"http_api_response_headers": silent("to set headers of answers"),
	"plugin_dir":                only(),
	"common_plugin_dir":         only(),
}

var unbuiltTelemetry = table{
	"filter_default":                         only(true),
	"prefix_filter":                          only(),
	"in_memory_retention_period":             idle("/v1/metrics shows what is now"),
	"in_memory_collection_interval":          idle("/v1/metrics shows what is now"),
	"statsite_address":                       only(),
	"statsd_address":                         only(),
	"datadog_address":                        only(),
	"datadog_tags":                           only(),
	"disable_quota_utilization_metrics":      either,
	"disable_rpc_rate_metrics_labels":        either,
	"circonus_api_token":                     only(),
	"circonus_api_app":                       only("nomad"),
	"circonus_api_url":                       only("https://api.circonus.com/v2"),
	"circonus_submission_interval":           only("10s"),
	"circonus_submission_url":                only(),
	"circonus_check_id":                      only(),
	"circonus_check_force_metric_activation": only(false),
	"circonus_check_instance_id":             only(),
	"circonus_check_search_tag":              only(),
	"circonus_check_display_name":            only(),
	"circonus_check_tags":                    only(),
	"circonus_broker_id":                     only(),
	"circonus_broker_select_tag":             only(),
}

var unbuiltServer = table{
	"authoritative_region":          only(),
	"redundancy_zone":               only(),
	"upgrade_version":               only(),
	"license_path":                  only(),
	"license_env":                   only(),
	"oidc_issuer":                   only(),
	"enable_event_broker":           only(true),
	"csi_volume_claim_gc_interval":  only(5 * time.Minute),
	"csi_volume_claim_gc_threshold": only(time.Hour),
	"csi_plugin_gc_threshold":       only(time.Hour),
	"acl_token_gc_threshold":        only(time.Hour),
	"root_key_gc_interval":          only(10 * time.Minute),
	"root_key_gc_threshold":         only(time.Hour),
	"root_key_rotation_threshold":   only(720 * time.Hour),
	"raft_protocol":                 only(3),
	"raft_boltdb":                   silent("a choice of the log's store"),
	"raft_logstore":                 silent("a choice of the log's store"),
	"start_timeout":                 only(30 * time.Second),
	"job_max_priority":              only(100),
	"job_default_priority":          only(50),
	"job_max_count":                 only(50000),
	"job_max_source_size":           only("1M"),
	"search":                        silent("a choice of search limits"),
	"plan_rejection_tracker":        off("the plan rejection tracker", []string{"enabled"}, "node_threshold", "node_window"),
	"client_introduction": block(table{
		"enforcement":          only("none", "warn"),
		"default_identity_ttl": only(5 * time.Minute),
		"max_identity_ttl":     only(30 * time.Minute),
	}),
}

var unbuiltClient = table{
	"alloc_mounts_dir":                   only(),
	"host_volumes_dir":                   only(),
	"host_volume_plugin_dir":             only(),
	"chroot_env":                         silent("a chroot"),
	"template":                           silent("a choice for templates"),
	"artifact":                           silent("a choice for artifacts"),
	"users":                              silent("a choice of users"),
	"fingerprint":                        silent("a choice of fingerprints"),
	"drain_on_shutdown":                  present("a drain on shutdown"),
	"no_host_uuid":                       only(true),
	"cni_path":                           only("/opt/cni/bin"),
	"cni_config_dir":                     only("/opt/cni/config"),
	"bridge_network_name":                only("nomad"),
	"bridge_network_subnet":              only("172.26.64.0/20"),
	"bridge_network_subnet_ipv6":         only(),
	"bridge_network_hairpin_mode":        only(false),
	"bind_wildcard_default_host_network": only(true),
	"disk_free_mb":                       only(0),
	"node_max_allocs":                    only(0),
	"preferred_address_family":           only(),
}

// only passes a key that is empty or has one of the values.
func only(values ...any) setting {
	return func(d *decoder, path string, n *node) {
		if !says(n) && !slices.Contains(values, any(true)) {
			return
		}
		for _, v := range values {
			if same(n.value, v) {
				return
			}
		}
		switch _, isBool := n.value.(bool); {
		case len(values) == 0:
			d.addf(n.pos, path, "is not built yet; leave it out")
		case isBool && len(values) == 1:
			d.addf(n.pos, path, "is not built yet; allowed is %s", list(values))
		default:
			d.addf(n.pos, path, "another value is not built yet; allowed is %s", list(values))
		}
	}
}

// same compares what a file says with a value: durations however they are
// written, numbers and bools also as texts.
func same(said, v any) bool {
	switch v := v.(type) {
	case time.Duration:
		s, ok := said.(string)
		d, err := time.ParseDuration(s)
		return ok && err == nil && d == v
	case int:
		return fmt.Sprint(said) == fmt.Sprint(v)
	case string:
		s, ok := said.(string)
		return ok && strings.EqualFold(s, v)
	}
	return fmt.Sprint(said) == fmt.Sprint(v)
}

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

// says says whether a value asks for anything: all but false, 0, nothing.
func says(n *node) bool {
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
		return slices.ContainsFunc(v, says)
	case object:
		for _, inner := range v {
			if says(inner) {
				return true
			}
		}
	}
	return false
}

// off is the setting of a block that one of some keys switches on.
func off(what string, on []string, others ...string) setting {
	return func(d *decoder, path string, n *node) {
		o, ok := n.value.(object)
		if !ok {
			d.addf(n.pos, path, "a block is wanted, not %s", kind(n.value))
			return
		}
		known := append(slices.Clone(on), others...)
		for _, k := range o.keys() {
			switch at := join(path, k); {
			case !slices.Contains(known, k):
				d.unknown(o[k].pos, at, known)
			case slices.Contains(on, k):
				if on, ok := d.flag(at, o[k]); ok && on {
					d.addf(o[k].pos, at, "%s is not built yet; allowed is false", what)
				}
			}
		}
	}
}

// silent is the setting of a block that does something by what it says.
func silent(what string) setting {
	return func(d *decoder, path string, n *node) {
		if _, ok := n.value.(object); !ok {
			d.addf(n.pos, path, "a block is wanted, not %s", kind(n.value))
			return
		}
		if says(n) {
			d.addf(n.pos, path, "%s is not built yet; leave the block out", what)
		}
	}
}

// present is the setting of a block that does something by being there.
func present(what string) setting {
	return func(d *decoder, path string, n *node) {
		d.addf(n.pos, path, "%s is not built yet; leave the block out", what)
	}
}

// idle passes a key that has no effect, and warns if it asks for one.
func idle(why string) setting {
	return func(d *decoder, path string, n *node) {
		if says(n) {
			d.warnf("%s: %s has no effect: %s", n.pos, path, why)
		}
	}
}

var levels = map[string]slog.Level{
	"trace": slog.LevelDebug, "debug": slog.LevelDebug, "info": slog.LevelInfo,
	"warn": slog.LevelWarn, "error": slog.LevelError, "err": slog.LevelError,
}

type duration = time.Duration
