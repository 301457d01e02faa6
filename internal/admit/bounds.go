package admit

import (
	"berth"
	"berth/internal/limit"
)

// Limits of the values of jobs, for docs/limits.md. They are enforced where the
// constants are used.
var _ = []*limit.Limit{
	limit.Bound("job_id_length", "Bytes of the ID of a job", limit.Bytes, int64(berth.MaxJobIDLen), "the job is refused (400)"),
	limit.Bound("name_length", "Bytes of the name of a group or task", limit.Bytes, int64(berth.MaxNameLen), "the job is refused (400)"),
	limit.Bound("instances_per_group", "Instances of a group", limit.Count, int64(berth.MaxCount), "the job is refused (400)"),
	limit.Bound("cpu_per_task", "MHz of a task", limit.Count, int64(berth.MaxCPU), "the job is refused (400)"),
	limit.Bound("job_duration", "A duration in a job", limit.Time, int64(berth.MaxDuration), "the job is refused (400)"),
	limit.Bound("channels_per_region", "Channels of a parallel region of a stream job", limit.Count, int64(berth.MaxWidth), "the job is refused (400)"),
	limit.Bound("job_nesting", "How deep objects and lists of a value of a job nest", limit.Count, int64(berth.MaxNesting), "the job is refused (400)"),
	limit.Bound("service_name_length", "Bytes of the name of a service", limit.Bytes, int64(berth.MaxServiceNameLen), "the job is refused (400)"),
	limit.Bound("service_tag_length", "Bytes of a tag of a service", limit.Bytes, int64(berth.MaxServiceTagLen), "the job is refused (400)"),
	limit.Bound("job_priority", "Priority of a job, unless the agent sets another maximum", limit.Count, int64(berth.MaxPriority), "the job is refused (400)"),
	limit.Bound("dispatch_payload", "Bytes of the payload of a dispatch", limit.Bytes, int64(berth.MaxPayload), "413"),
	limit.Bound("condition_regexp", "Bytes of a regexp in a condition", limit.Bytes, int64(MaxRegexpLen), "the job is refused (400)"),
	limit.Bound("secrets_size", "MiB of the directory of secrets of a task", limit.Count, int64(maxSecretsMB), "the job is refused (400)"),
	limit.Bound("memory_per_task", "MiB of memory of a task", limit.Count, int64(maxMemoryMB), "the job is refused (400)"),
	limit.Bound("disk_per_group", "MiB of disk of a group", limit.Count, int64(maxDiskMB), "the job is refused (400)"),
	limit.Bound("cores_per_task", "Cores of a task", limit.Count, int64(maxCores), "the job is refused (400)"),
	limit.Bound("devices_per_request", "Devices of a device request", limit.Count, int64(maxDevices), "the job is refused (400)"),
	limit.Bound("artifacts_per_task", "Artifacts of a task", limit.Count, int64(maxArtifacts), "the job is refused (400)"),
	limit.Bound("templates_per_task", "Templates of a task", limit.Count, int64(maxTemplates), "the job is refused (400)"),
	limit.Bound("secrets_per_task", "Secret blocks of a task", limit.Count, int64(maxSecrets), "the job is refused (400)"),
	limit.Bound("template_text", "Bytes of a template in a job", limit.Bytes, int64(maxTemplate), "the job is refused (400)"),
	limit.Bound("artifact_source", "Bytes of the source of an artifact", limit.Bytes, int64(maxSource), "the job is refused (400)"),
	limit.Bound("elements_per_job", "Processing elements of a stream job", limit.Count, int64(MaxElements), "the job is refused (400)"),
	limit.Bound("connections_per_job", "Pairs of ports that the streams of a job connect", limit.Count, int64(MaxConnections), "the job is refused (400)"),
	limit.Bound("nodes_per_pool", "Nodes of a host pool of a stream job", limit.Count, int64(MaxPoolSize), "the job is refused (400)"),
	limit.Bound("exports_per_job", "Exports, or imports, of a stream job, counted once per channel", limit.Count, int64(maxStreamPorts), "the job is refused (400)"),
	limit.Bound("properties_per_export", "Properties of an export of a stream job", limit.Count, int64(maxProperties), "the job is refused (400)"),
	limit.Bound("check_body", "Bytes of the request of a check", limit.Bytes, int64(maxCheckBody), "the job is refused (400)"),
	limit.Bound("check_grpc_service", "Bytes of the name of a gRPC service that a check asks for", limit.Bytes, int64(maxGRPCService), "the job is refused (400)"),
	limit.Bound("check_threshold", "Results in a row before a check changes", limit.Count, int64(maxThreshold), "the job is refused (400)"),
}
