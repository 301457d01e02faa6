package config

import (
	"path/filepath"
	"slices"
	"strings"

	"berth"
	"berth/op"
)

// supported are the keys that Berth supports. Together with those of
// unsupported.go these are all keys. Names and meanings are those of Nomad's
// documentation.
var supported = table{
	"region":             text(func(c *Config) *string { return &c.Region }),
	"datacenter":         text(func(c *Config) *string { return &c.Datacenter }),
	"name":               text(func(c *Config) *string { return &c.Name }),
	"data_dir":           text(func(c *Config) *string { return &c.DataDir }),
	"bind_addr":          text(func(c *Config) *string { return &c.BindAddr }),
	"log_level":          logLevel,
	"log_json":           flag(func(c *Config) *bool { return &c.LogJSON }),
	"leave_on_interrupt": flag(func(c *Config) *bool { return &c.LeaveOnInterrupt }),
	"leave_on_terminate": flag(func(c *Config) *bool { return &c.LeaveOnTerminate }),

	"log_file":             text(func(c *Config) *string { return &c.Log.File }),
	"log_rotate_bytes":     whole(func(c *Config) *int { return &c.Log.RotateBytes }),
	"log_rotate_duration":  span(func(c *Config) *duration { return &c.Log.RotateDuration }),
	"log_rotate_max_files": whole(func(c *Config) *int { return &c.Log.RotateFiles }),
	"log_include_location": flag(func(c *Config) *bool { return &c.Log.Location }),
	"enable_syslog":        flag(func(c *Config) *bool { return &c.Log.Syslog }),
	"syslog_facility":      text(func(c *Config) *string { return &c.Log.Facility }),
	"enable_debug":         flag(func(c *Config) *bool { return &c.EnableDebug }),

	"http_api_response_headers": dict(func(c *Config) *map[string]string { return &c.ResponseHeaders }),

	"disable_update_check":        anyBool, // there is no update check
	"disable_anonymous_signature": anyBool,

	"addresses": block(table{
		"http": text(func(c *Config) *string { return &c.HTTP.Addr }),
		"rpc":  text(func(c *Config) *string { return &c.RPC.Addr }),
		"serf": text(func(c *Config) *string { return &c.Serf.Addr }),
	}),
	"ports": block(table{
		"http": whole(func(c *Config) *int { return &c.HTTP.Port }),
		"rpc":  whole(func(c *Config) *int { return &c.RPC.Port }),
		"serf": whole(func(c *Config) *int { return &c.Serf.Port }),
	}),
	"advertise": block(table{
		"http": text(func(c *Config) *string { return &c.HTTP.Advertise }),
		"rpc":  text(func(c *Config) *string { return &c.RPC.Advertise }),
		"serf": text(func(c *Config) *string { return &c.Serf.Advertise }),
	}),
	"http_hosts": texts(func(c *Config) *[]string { return &c.HTTPHosts }),
	"limits": block(table{
		"http_max_conns_per_client": whole(func(c *Config) *int { return &c.Limits.HTTPMaxConns }),
		"rpc_max_conns_per_client":  whole(func(c *Config) *int { return &c.Limits.RPCMaxConns }),
		"https_handshake_timeout":   span(func(c *Config) *duration { return &c.Limits.HTTPHandshake }),
		"http_handshake_timeout":    span(func(c *Config) *duration { return &c.Limits.HTTPHandshake }),
		"rpc_handshake_timeout":     span(func(c *Config) *duration { return &c.Limits.RPCHandshake }),
		"token_writes":              whole(func(c *Config) *int { return &c.Limits.TokenWrites }),
		"namespace_writes":          whole(func(c *Config) *int { return &c.Limits.NamespaceWrites }),
	}),
	"acl": block(table{
		"enabled":                  flag(func(c *Config) *bool { return &c.ACL.Enabled }),
		"token_min_expiration_ttl": span(func(c *Config) *duration { return &c.ACL.MinTTL }),
		"token_max_expiration_ttl": span(func(c *Config) *duration { return &c.ACL.MaxTTL }),
		"token_ttl":                span(unused),
		"policy_ttl":               span(unused),
		"role_ttl":                 span(unused),
		"replication_token":        text(func(c *Config) *string { return &c.ACL.ReplicationToken }),
	}),
	"audit":     audit,
	"tls":       block(tlsKeys),
	"dns":       block(dnsKeys),
	"ui":        block(uiKeys),
	"log_sink":  logSinks,
	"telemetry": block(telemetryKeys),
	"server":    block(serverKeys),
	"client":    block(clientKeys),
	"plugin":    plugins,

	"plugin_dir": text(func(c *Config) *string { return &c.PluginDir }),
	"keyring":    keyrings,
	"autopilot":  block(autopilotKeys),
}

// unused is where values go that ask for nothing: servers do not cache tokens,
// policies and roles, so that changes are in force at once.
func unused(*Config) *duration { return new(duration) }

// telemetryKeys are the supported keys of the telemetry block.
var telemetryKeys = table{
	"prometheus_metrics":                     flag(func(c *Config) *bool { return &c.Telemetry.PrometheusMetrics }),
	"collection_interval":                    span(func(c *Config) *duration { return &c.Telemetry.CollectionInterval }),
	"disable_hostname":                       flag(func(c *Config) *bool { return &c.Telemetry.DisableHostname }),
	"use_node_name":                          flag(func(c *Config) *bool { return &c.Telemetry.UseNodeName }),
	"publish_allocation_metrics":             flag(func(c *Config) *bool { return &c.Telemetry.PublishAllocs }),
	"publish_node_metrics":                   anyBool, // they are always published
	"disable_dispatched_job_summary_metrics": anyBool, // there are no such metrics
	"disable_allocation_hook_metrics":        anyBool,
	"include_alloc_metadata_in_metrics":      noEffect("metrics have no metadata of jobs"),
	"disable_quota_utilization_metrics":      anyBool,
	"disable_rpc_rate_metrics_labels":        anyBool,
	"in_memory_retention_period":             spanWithout("/v1/metrics only shows current values"),
	"in_memory_collection_interval":          spanWithout("/v1/metrics only shows current values"),
	"filter_default":                         flag(func(c *Config) *bool { return &c.Telemetry.FilterDefault }),
	"prefix_filter":                          texts(func(c *Config) *[]string { return &c.Telemetry.PrefixFilter }),
	"statsd_address":                         text(func(c *Config) *string { return &c.Telemetry.Statsd }),
	"statsite_address":                       text(func(c *Config) *string { return &c.Telemetry.Statsite }),
	"datadog_address":                        text(func(c *Config) *string { return &c.Telemetry.Datadog }),
	"traces": block(table{ // an extension
		"address": text(func(c *Config) *string { return &c.Telemetry.Traces.Address }),
		"headers": dict(func(c *Config) *map[string]string { return &c.Telemetry.Traces.Headers }),
		"ca_file": text(func(c *Config) *string { return &c.Telemetry.Traces.CAFile }),
		"sample":  fraction(func(c *Config) *float64 { return &c.Telemetry.Traces.Sample }),
	}),
	"datadog_tags": texts(func(c *Config) *[]string { return &c.Telemetry.DatadogTags }),
}

// serverKeys are the supported keys of the server block.
var serverKeys = table{
	"enabled":                   flag(func(c *Config) *bool { return &c.Server.Enabled }),
	"data_dir":                  text(func(c *Config) *string { return &c.Server.DataDir }),
	"bootstrap_expect":          whole(func(c *Config) *int { return &c.Server.BootstrapExpect }),
	"num_schedulers":            whole(func(c *Config) *int { return &c.Server.NumSchedulers }),
	"enabled_schedulers":        schedulers,
	"heartbeat_grace":           span(func(c *Config) *duration { return &c.Server.HeartbeatGrace }),
	"min_heartbeat_ttl":         span(func(c *Config) *duration { return &c.Server.MinHeartbeatTTL }),
	"max_heartbeats_per_second": fraction(func(c *Config) *float64 { return &c.Server.MaxHeartbeatsPerSec }),
	"failover_heartbeat_ttl":    span(func(c *Config) *duration { return &c.Server.FailoverHeartbeatTTL }),
	"silence_brake_nodes":       whole(func(c *Config) *int { return &c.Server.SilenceBrakeNodes }),
	"silence_brake_percent":     whole(func(c *Config) *int { return &c.Server.SilenceBrakePercent }),
	"silence_brake_pace":        span(func(c *Config) *duration { return &c.Server.SilenceBrakePace }),
	"event_buffer_size":         whole(func(c *Config) *int { return &c.Server.EventBufferSize }),
	"enable_event_broker":       eventBroker,
	"job_default_priority":      whole(func(c *Config) *int { return &c.Server.Jobs.DefaultPriority }),
	"job_max_priority":          whole(func(c *Config) *int { return &c.Server.Jobs.MaxPriority }),
	"plan_rejection_tracker": block(table{
		"enabled":        flag(func(c *Config) *bool { return &c.Server.Rejection.Enabled }),
		"node_threshold": whole(func(c *Config) *int { return &c.Server.Rejection.NodeThreshold }),
		"node_window":    span(func(c *Config) *duration { return &c.Server.Rejection.NodeWindow }),
	}),
	"job_max_count":       whole(func(c *Config) *int { return &c.Server.Jobs.MaxCount }),
	"job_max_source_size": sourceSize,
	"search": block(table{
		"fuzzy_enabled":   flag(func(c *Config) *bool { return &c.Server.Search.Fuzzy }),
		"limit_query":     whole(func(c *Config) *int { return &c.Server.Search.LimitQuery }),
		"limit_results":   whole(func(c *Config) *int { return &c.Server.Search.LimitResults }),
		"min_term_length": whole(func(c *Config) *int { return &c.Server.Search.MinTermLength }),
	}),
	"node_gc_threshold":             span(func(c *Config) *duration { return &c.Server.NodeGCThreshold }),
	"job_gc_interval":               span(func(c *Config) *duration { return &c.Server.JobGCInterval }),
	"csi_volume_claim_gc_threshold": span(func(c *Config) *duration { return &c.Server.LostClaims }),
	"job_gc_threshold":              span(func(c *Config) *duration { return &c.Server.JobGCThreshold }),
	"eval_gc_threshold":             span(func(c *Config) *duration { return &c.Server.EvalGCThreshold }),
	"batch_eval_gc_threshold":       span(func(c *Config) *duration { return &c.Server.BatchEvalGCThreshold }),
	"deployment_gc_threshold":       span(func(c *Config) *duration { return &c.Server.DeploymentGCThreshold }),
	"job_tracked_versions":          whole(func(c *Config) *int { return &c.Server.TrackedVersions }),
	"default_scheduler_config":      block(schedulerKeys),
	"encrypt":                       encrypt,
	"rejoin_after_leave":            flag(func(c *Config) *bool { return &c.Server.RejoinAfterLeave }),
	"oidc_issuer":                   text(func(c *Config) *string { return &c.Server.Issuer }),
	"authoritative_region":          text(func(c *Config) *string { return &c.Server.AuthoritativeRegion }),
	"raft_multiplier":               whole(func(c *Config) *int { return &c.Server.RaftMultiplier }),
	"raft_snapshot_threshold":       whole(func(c *Config) *int { return &c.Server.RaftSnapshotThreshold }),
	"raft_snapshot_interval":        span(func(c *Config) *duration { return &c.Server.RaftSnapshotInterval }),
	"raft_trailing_logs":            whole(func(c *Config) *int { return &c.Server.RaftTrailingLogs }),
	"acl_token_gc_threshold":        span(func(c *Config) *duration { return &c.Server.TokenGCThreshold }),
	"root_key_gc_interval":          span(func(c *Config) *duration { return &c.Server.RootKeyGCInterval }),
	"root_key_gc_threshold":         span(func(c *Config) *duration { return &c.Server.RootKeyGCThreshold }),
	"root_key_rotation_threshold":   span(func(c *Config) *duration { return &c.Server.RootKeyRotation }),
	"client_introduction": block(table{
		"enforcement":          text(func(c *Config) *string { return &c.Server.Introduction.Enforcement }),
		"default_identity_ttl": span(func(c *Config) *duration { return &c.Server.Introduction.DefaultTTL }),
		"max_identity_ttl":     span(func(c *Config) *duration { return &c.Server.Introduction.MaxTTL }),
	}),
	"raft_protocol": because("the Raft protocol of servers has one version", only(3)),
	"raft_boltdb": block(table{
		"no_freelist_sync": noEffect("the log of a server is not a BoltDB"),
	}),
	"raft_logstore": block(table{
		"backend":           because("the log of a server is a write-ahead log", only("wal")),
		"disable_log_cache": noEffect("recent entries are kept in memory in any case"),
		"boltdb":            block(table{"no_freelist_sync": noEffect("the log of a server is not a BoltDB")}),
		"wal":               block(table{"segment_size_mb": noEffect("the server chooses the size of its files")}),
		"verification": block(table{
			"enabled":  noEffect("each entry has a checksum, which is always verified"),
			"interval": noEffect("each entry has a checksum, which is always verified"),
		}),
	}),
	"start_timeout":     spanWithout("a server that starts waits for its log and its keys as long as it takes"),
	"non_voting_server": flag(func(c *Config) *bool { return &c.Server.NonVoting }),
	"server_join":       block(joinKeys),
	"retry_join":        joinKeys["retry_join"],
	"start_join":        joinKeys["start_join"],
	"retry_max":         joinKeys["retry_max"],
	"retry_interval":    joinKeys["retry_interval"],
}

// clientKeys are the supported keys of the client block.
var clientKeys = table{
	"enabled":           flag(func(c *Config) *bool { return &c.Client.Enabled }),
	"servers":           texts(func(c *Config) *[]string { return &c.Client.Servers }),
	"state_dir":         text(func(c *Config) *string { return &c.Client.StateDir }),
	"alloc_dir":         text(func(c *Config) *string { return &c.Client.AllocDir }),
	"host_volumes_dir":  text(func(c *Config) *string { return &c.Client.HostVolumesDir }),
	"node_class":        text(func(c *Config) *string { return &c.Client.NodeClass }),
	"node_pool":         text(func(c *Config) *string { return &c.Client.NodePool }),
	"intro_token":       text(func(c *Config) *string { return &c.Client.IntroToken }),
	"meta":              dict(func(c *Config) *map[string]string { return &c.Client.Meta }),
	"cpu_total_compute": whole(func(c *Config) *int { return &c.Client.CPUTotalCompute }),
	"memory_total_mb":   whole(func(c *Config) *int { return &c.Client.MemoryTotalMB }),
	"disk_total_mb":     whole(func(c *Config) *int { return &c.Client.DiskTotalMB }),
	"min_dynamic_port":  whole(func(c *Config) *int { return &c.Client.MinDynamicPort }),
	"max_dynamic_port":  whole(func(c *Config) *int { return &c.Client.MaxDynamicPort }),
	"network_interface": text(func(c *Config) *string { return &c.Client.NetworkInterface }),
	"max_kill_timeout":  span(func(c *Config) *duration { return &c.Client.MaxKillTimeout }),
	"cgroup_parent":     text(func(c *Config) *string { return &c.Client.CgroupParent }),
	"gc_max_allocs":     whole(func(c *Config) *int { return &c.Client.GCMaxAllocs }),
	"gc_interval":       span(func(c *Config) *duration { return &c.Client.GCInterval }),

	"common_plugin_dir":        text(func(c *Config) *string { return &c.Client.CommonPluginDir }),
	"host_volume_plugin_dir":   text(func(c *Config) *string { return &c.Client.HostVolumePluginDir }),
	"gc_disk_usage_threshold":  fraction(func(c *Config) *float64 { return &c.Client.GCDisk }),
	"gc_inode_usage_threshold": fraction(func(c *Config) *float64 { return &c.Client.GCInodes }),
	"limit_ephemeral_disk":     flag(func(c *Config) *bool { return &c.Client.LimitDisks }),
	"node_max_allocs":          whole(func(c *Config) *int { return &c.Client.MaxAllocs }),
	"gc_parallel_destroys":     whole(func(c *Config) *int { return &c.Client.GCParallel }),

	"reserved": block(table{
		"cpu":            whole(func(c *Config) *int { return &c.Client.Reserved.CPU }),
		"memory":         whole(func(c *Config) *int { return &c.Client.Reserved.MemoryMB }),
		"disk":           whole(func(c *Config) *int { return &c.Client.Reserved.DiskMB }),
		"reserved_ports": text(func(c *Config) *string { return &c.Client.Reserved.Ports }),
		"cores":          cores(func(c *Config) *[]uint16 { return &c.Client.Reserved.Cores }),
	}),
	"drain_on_shutdown": block(table{
		"deadline":           span(func(c *Config) *duration { return &c.Client.DrainOnShutdown.Deadline }),
		"force":              flag(func(c *Config) *bool { return &c.Client.DrainOnShutdown.Force }),
		"ignore_system_jobs": flag(func(c *Config) *bool { return &c.Client.DrainOnShutdown.IgnoreSystemJobs }),
	}),
	"users": block(table{
		"dynamic_user_min": whole(func(c *Config) *int { return &c.Client.Users.Low }),
		"dynamic_user_max": whole(func(c *Config) *int { return &c.Client.Users.High }),
	}),
	"reservable_cores": cores(func(c *Config) *[]uint16 { return &c.Client.ReservableCores }),
	"host_volume":      hostVolumes,
	"host_network":     hostNetworks,
	"chroot_env":       chrootEnv,
	"fingerprint":      fingerprints,

	"options":     options,
	"server_join": block(clientJoin),
	"artifact":    block(artifactKeys),
	"template":    block(templateKeys),

	"alloc_mounts_dir":                   directoryWithout("no driver needs a second directory for allocations"),
	"bind_wildcard_default_host_network": flag(func(c *Config) *bool { return &c.Client.BindWildcard }),
	"disk_free_mb":                       whole(func(c *Config) *int { return &c.Client.DiskFreeMB }),
	"no_host_uuid":                       flag(func(c *Config) *bool { return &c.Client.NoHostUUID }),
	"preferred_address_family":           text(func(c *Config) *string { return &c.Client.PreferredFamily }),

	"disable_remote_exec":   flag(func(c *Config) *bool { return &c.Client.DisableRemoteExec }),
	"cpu_disable_dmidecode": anyBool, // nothing runs dmidecode
	"gc_volumes_on_node_gc": anyBool, // there are no volumes
	"network_speed":         noEffect("bandwidth is not scheduled"),
}

// clientJoin configures how a node finds servers. It retries forever.
var clientJoin = table{
	"retry_join": func(d *decoder, path string, n *node) {
		addrs, ok := d.texts(path, n)
		if !ok {
			return
		}
		for _, a := range addrs {
			if byProvider(a) {
				d.addf(n.pos, path, "server discovery by cloud provider or command is not supported: use addresses")
				return
			}
		}
		d.to.Client.Servers = append(slices.Clip(d.to.Client.Servers), addrs...)
	},
	"retry_interval": noEffect("the agent chooses its own retry intervals"),
	"retry_max":      noEffect("the agent retries forever"),
	"start_join":     only(),
}

// spanWithout accepts a duration without effect, and warns.
func spanWithout(why string) setting {
	return func(d *decoder, path string, n *node) {
		if _, ok := d.span(path, n); ok {
			noEffect(why)(d, path, n)
		}
	}
}

// directoryWithout accepts an absolute path without effect, and warns.
func directoryWithout(why string) setting {
	return func(d *decoder, path string, n *node) {
		switch dir, ok := d.line(path, n); {
		case !ok:
		case dir != "" && !filepath.IsAbs(dir):
			d.addf(n.pos, path, "%.200q is not an absolute path", dir)
		default:
			noEffect(why)(d, path, n)
		}
	}
}

// logLevel reads log_level, in any case. trace is debug with LogTrace set.
func logLevel(d *decoder, path string, n *node) {
	s, ok := d.text(path, n)
	if !ok {
		return
	}
	level, known := levels[strings.ToLower(s)]
	if !known {
		d.addf(n.pos, path, "unknown log level %.40q: want trace, debug, info, warn or error", s)
		return
	}
	d.to.LogLevel, d.to.LogTrace = level, strings.EqualFold(s, "trace")
}

// schedulers reads the types of evaluations that a server processes.
func schedulers(d *decoder, path string, n *node) {
	list, ok := d.texts(path, n)
	if !ok || len(list) == 0 {
		return
	}
	types, unknown := op.Schedulers(list)
	if unknown != "" {
		d.addf(n.pos, path, "unknown scheduler %.40q: want any of %s", unknown, strings.Join(berth.JobTypes, ", "))
		return
	}
	d.to.Server.Schedulers = types
}
