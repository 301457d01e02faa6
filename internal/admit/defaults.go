package admit

import (
	"maps"
	"reflect"
	"time"

	"berth"
	"berth/internal/decode"
)

// blockDefaults are the initial values of blocks, by type.
var blockDefaults = map[reflect.Type]any{
	reflect.TypeFor[berth.Affinity]():            berth.Affinity{Operand: berth.OpEqual, Weight: 50},
	reflect.TypeFor[berth.Constraint]():          berth.Constraint{Operand: berth.OpEqual},
	reflect.TypeFor[berth.Spread]():              berth.Spread{Weight: 50},
	reflect.TypeFor[berth.EphemeralDisk]():       berth.EphemeralDisk{SizeMB: 300},
	reflect.TypeFor[berth.CSIPluginConfig]():     berth.CSIPluginConfig{MountDir: "/csi", StagePublishBaseDir: "/local/csi", HealthTimeout: 30 * time.Second},
	reflect.TypeFor[berth.LogConfig]():           berth.LogConfig{MaxFiles: 10, MaxFileSizeMB: 10},
	reflect.TypeFor[berth.Resources]():           berth.Resources{CPU: 100, MemoryMB: 300},
	reflect.TypeFor[berth.UpdateStrategy]():      defaultUpdate(),
	reflect.TypeFor[berth.MigrateStrategy]():     berth.DefaultMigrate(),
	reflect.TypeFor[berth.DisconnectStrategy]():  berth.DisconnectStrategy{Replace: true, Reconcile: berth.KeepBestScore},
	reflect.TypeFor[berth.RequestedDevice]():     berth.RequestedDevice{Count: 1},
	reflect.TypeFor[berth.NUMAResource]():        berth.NUMAResource{Affinity: berth.NUMANone},
	reflect.TypeFor[berth.PeriodicConfig]():      berth.PeriodicConfig{Enabled: true, SpecType: "cron", TimeZone: "UTC"},
	reflect.TypeFor[berth.ParameterizedConfig](): berth.ParameterizedConfig{Payload: berth.PayloadOptional},
	reflect.TypeFor[berth.ScalingPolicy]():       berth.ScalingPolicy{Enabled: true},
	reflect.TypeFor[berth.Template]():            berth.Template{ChangeMode: "restart", Perms: "0644", LeftDelim: "{{", RightDelim: "}}", Splay: 5 * time.Second},
	reflect.TypeFor[berth.Vault]():               berth.Vault{Env: true, ChangeMode: "restart"},
	reflect.TypeFor[berth.VolumeMount]():         berth.VolumeMount{PropagationMode: "private"},
	reflect.TypeFor[berth.Service]():             berth.Service{AddressMode: berth.AddressAuto, OnUpdate: berth.OnUpdateRequireHealthy},
	reflect.TypeFor[berth.CheckRestart]():        berth.CheckRestart{Grace: defaultGrace},
	reflect.TypeFor[berth.StreamSpec]():          defaultStream(),
	reflect.TypeFor[berth.StreamGroup]():         defaultStreamGroup(),
	reflect.TypeFor[berth.HostPoolSpec]():        berth.HostPoolSpec{Mode: berth.PoolShared},
	reflect.TypeFor[berth.RegionSpec]():          berth.RegionSpec{Width: 1},
	reflect.TypeFor[berth.StreamEdge]():          berth.StreamEdge{Distribution: berth.DistributionBroadcast},
	reflect.TypeFor[berth.ExportSpec]():          berth.ExportSpec{AllowFilter: true, Congestion: berth.CongestionWait},
	reflect.TypeFor[berth.ImportSpec]():          berth.ImportSpec{Scope: berth.DefaultScope},
	reflect.TypeFor[berth.TaskConnectivity]():    berth.TaskConnectivity{ChangeMode: berth.ConnectivityNoop},
}

// obsolete are fields that older clients still send. They are accepted and
// ignored.
var obsolete = map[string]bool{
	"status": true, "statusdescription": true, "nomadtokenid": true, "consultoken": true, "vaulttoken": true,
	"regionalvaultnamespace": true,
}

// The defaults by job type. The values are those of Nomad's job specification.

// defaultRestart returns the restart policy of a group that has none. A stream
// job leaves restarts to the servers, so it has 0 attempts.
func defaultRestart(jobType string) berth.RestartPolicy {
	switch jobType {
	case berth.TypeBatch, berth.TypeSysbatch:
		return berth.RestartPolicy{Attempts: 3, Interval: 24 * time.Hour, Delay: 15 * time.Second, Mode: berth.RestartFail}
	case berth.TypeStream:
		return berth.RestartPolicy{Interval: 30 * time.Minute, Delay: 15 * time.Second, Mode: berth.RestartFail}
	}
	return berth.RestartPolicy{Attempts: 2, Interval: 30 * time.Minute, Delay: 15 * time.Second, Mode: berth.RestartFail}
}

// defaultReschedule returns the reschedule policy for the job type, nil for the
// types that do not reschedule.
func defaultReschedule(jobType string) *berth.ReschedulePolicy {
	switch jobType {
	case berth.TypeService:
		return &berth.ReschedulePolicy{Delay: 30 * time.Second, DelayFunction: berth.DelayExponential, MaxDelay: time.Hour, Unlimited: true}
	case berth.TypeBatch:
		return &berth.ReschedulePolicy{Attempts: 1, Interval: 24 * time.Hour, Delay: 5 * time.Second, DelayFunction: berth.DelayConstant}
	}
	return nil
}

// defaultUpdate returns the update policy of service and system jobs.
func defaultUpdate() berth.UpdateStrategy {
	return berth.UpdateStrategy{
		Stagger: 30 * time.Second, MaxParallel: 1, HealthCheck: "checks",
		MinHealthyTime: 10 * time.Second, HealthyDeadline: 5 * time.Minute, ProgressDeadline: 10 * time.Minute,
	}
}

// Defaults of the submission of stream jobs.
const (
	DefaultSubmissionTimeout = 5 * time.Minute
	DefaultSubmissionRetries = 3
)

// defaultStream returns the stream block that a job's own one is read over.
func defaultStream() berth.StreamSpec {
	return berth.StreamSpec{
		Application: berth.StreamApplication{Scope: berth.DefaultScope},
		Submission: berth.SubmissionPolicy{
			Timeout: DefaultSubmissionTimeout, OnTimeout: berth.OnTimeoutRecover, MaxRetries: DefaultSubmissionRetries,
			Recovery: berth.InterruptRecreate, InterruptedUpdate: berth.InterruptResume,
		},
	}
}

// defaultStreamGroup returns a group's stream block with the default policy:
// failed and deleted processing elements are launched again, and failed
// allocations do not stay in sight.
func defaultStreamGroup() berth.StreamGroup {
	return berth.StreamGroup{Policy: berth.PEPolicy{RestartFailed: true, RestartDeleted: true, DeleteFailed: true}}
}

// orDefault sets an empty string to def.
func orDefault(s *string, def string) {
	if *s == "" {
		*s = def
	}
}

// normalMap makes an empty map nil, so that equal jobs compare equal.
func normalMap(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return maps.Clone(m)
}

// writes reports whether the tree sets a field of a block.
func writes(tree decode.Tree, block, field string) bool {
	b, ok := decode.Lookup(tree, block).(decode.Tree)
	return ok && decode.Lookup(b, field) != nil
}
