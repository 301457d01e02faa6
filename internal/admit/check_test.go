package admit

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/decode"

	"github.com/google/go-cmp/cmp"
)

// validJob returns a small valid job.
func validJob(t testing.TB) *berth.Job {
	return mustDecode(t, `{"ID": "j", "TaskGroups": [{"Name": "g", "Networks": [{"DynamicPorts": [{"Label": "http"}, {"Label": "admin", "Value": 8080}]}],
		"Tasks": [{"Name": "t", "Driver": "raw_exec", "Config": {"command": "/bin/true"}}, {"Name": "u", "Driver": "mock_driver"}]}]}`)
}

// checked returns a service with one check, on a port of the group's network.
func checked(k berth.ServiceCheck) berth.Service {
	k.Name, k.PortLabel, k.Interval, k.Timeout, k.OnUpdate = "c", "8080", time.Minute, time.Minute, "ignore"
	return berth.Service{Name: "web", PortLabel: "8080", AddressMode: "auto", OnUpdate: "ignore", Checks: []berth.ServiceCheck{k}}
}

// Services that name no provider are in Berth's own registry, and their users
// are told.
func TestServicesWithoutAProviderAreOurs(t *testing.T) {
	j := validJob(t)
	g := j.TaskGroups[0]
	g.Services = []berth.Service{{Name: "a"}, {Name: "b", Provider: berth.ServiceNomad}}
	g.Tasks[1].Services = []berth.Service{{Name: "c"}}
	want := []string{`group "g": services "a", "c" name no provider, so they are registered with provider = "nomad"; Consul is not supported`}
	if diff := cmp.Diff(want, CompleteProviders(j)); diff != "" {
		t.Error(diff)
	}
	if g.Services[0].Provider != berth.ServiceNomad || g.Tasks[1].Services[0].Provider != berth.ServiceNomad {
		t.Errorf("%+v", g)
	}
	if again := CompleteProviders(j); again != nil {
		t.Errorf("told twice: %v", again)
	}
}

// Each rule is tested with a job that breaks only that rule.
func TestValidate(t *testing.T) {
	long := strings.Repeat("x", 300)
	tests := []struct {
		name  string
		spoil func(j *berth.Job, g *berth.TaskGroup, t *berth.Task)
		want  string
	}{
		{"nothing", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {}, ""},

		{"no ID", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { j.ID = "" }, `job.id: is missing: want the ID of the job`},
		{"long ID", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { j.ID = berth.JobID(long) }, `job.id: must be at most 255 bytes, got 300`},
		{"ID with a space", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { j.ID = "a b" }, `job.id: must have no spaces and no NUL, got "a b"`},
		{"ID with a NUL", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { j.ID = "a\x00" }, `job.id: must have no spaces and no NUL, got "a\x00"`},
		{"ID not UTF-8", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { j.ID = "a\xff" }, `job.id: must be valid UTF-8, got "a\xff"`},
		{"long name", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { j.Name = long }, `job.name: must be at most 255 bytes, got 300`},
		{"ID and name of two lines", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { j.ID, j.Name = "a\nb\t", "a\nb c" }, ""},
		{"name with a NUL", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { j.Name = "a\x00" }, `job.name: must have no NUL, got "a\x00"`},
		{"all namespaces", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { j.Namespace = "*" }, `job.namespace: must be one namespace, got "*"`},
		{"long namespace", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { j.Namespace = long }, `job.namespace: must be at most 128 bytes, got 300`},
		{"long region", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { j.Region = long }, `job.region: must be at most 128 bytes, got 300`},
		{"long pool", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { j.NodePool = long }, `job.node_pool: must be at most 128 bytes, got 300`},
		{"unknown type", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { j.Type = "cron" }, `job.type: unknown type "cron": want service, batch, system, sysbatch or stream`},
		{"core jobs are not for users", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { j.Type = berth.TypeCore }, `job.type: unknown type "core": want service, batch, system, sysbatch or stream`},
		{"low priority", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { j.Priority = 0 }, `job.priority: must be 1 to 32766, got 0`},
		{"high priority", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { j.Priority = 32767 }, `job.priority: must be 1 to 32766, got 32767`},
		{"bad glob", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { j.Datacenters = []string{"a["} }, `job.datacenters: must be a datacenter or a glob pattern, got "a["`},
		{"empty datacenter", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { j.Datacenters = []string{""} }, `job.datacenters: must be a datacenter or a glob pattern, got ""`},
		{"empty meta key", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { j.Meta = map[string]string{"": "x"} }, `job.meta: "" is not a usable key, or its value is not valid UTF-8`},
		{"meta not UTF-8", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { j.Meta = map[string]string{"a": "\xff"} }, `job.meta: "a" is not a usable key, or its value is not valid UTF-8`},

		{"no group", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { j.TaskGroups = nil }, `job.group: a job needs at least one group`},
		{"too many groups", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			j.TaskGroups = slices.Repeat(j.TaskGroups, berth.MaxGroups+1)
		}, `job.group: at most 1000 groups are allowed, got 1001`},
		{"group twice", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { j.TaskGroups = append(j.TaskGroups, g) }, `job.group[g]: is defined twice`},
		{"groups that look alike", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			h := *g
			h.Name = "G"
			j.TaskGroups = append(j.TaskGroups, &h)
		}, `job.group[G]: differs from "g" only in case`},
		{"group without a name", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { g.Name = "" }, `job.group[].name: is missing: want a name`},
		{"group with a slash", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { g.Name = "a/b" }, `job.group[a/b].name: must be printable ASCII without slashes, got "a/b"`},
		{"negative count", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { g.Count = -1 }, `job.group[g].count: must be 0 to 50000, got -1`},
		{"huge count", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { g.Count = 1e9 }, `job.group[g].count: must be 0 to 50000, got 1000000000`},
		{"group meta", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { g.Meta = map[string]string{"a\x00": ""} }, `job.group[g].meta: "a\x00" is not a usable key, or its value is not valid UTF-8`},
		{"scaling without a top", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Scaling = &berth.ScalingPolicy{Min: 1, Type: berth.ScalingHorizontal}
		}, `job.group[g].scaling.max: must be at least min, 1, got 0`},
		{"count beyond its scaling", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Scaling = &berth.ScalingPolicy{Min: 2, Max: 5, Type: berth.ScalingHorizontal}
		}, `job.group[g].scaling: the group's count must be 2 to 5, got 1`},
		{"scaling of a group by its memory", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Scaling = &berth.ScalingPolicy{Max: 5, Type: berth.ScalingMemory}
		}, `job.group[g].scaling.type: unknown type "vertical_mem": want horizontal`},
		{"scaling of a task by its count", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			t.ScalingPolicies = []berth.ScalingPolicy{{Max: 5, Type: berth.ScalingHorizontal}}
		}, `job.group[g].task[t].scaling.type: unknown type "horizontal": want vertical_cpu or vertical_mem`},
		{"negative delay of the end", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { g.ShutdownDelay = -1 }, `job.group[g].shutdown_delay: must be 0s to 876000h0m0s, got -1ns`},
		{"longest run of a batch job", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			j.Type, g.MaxRunDuration = berth.TypeBatch, time.Hour
		}, ""},
		{"longest run of a service", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { g.MaxRunDuration = time.Hour }, `job.group[g].max_run_duration: is only for jobs of type batch or sysbatch, not service`},
		{"negative longest run", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { j.Type, g.MaxRunDuration = berth.TypeBatch, -1 }, `job.group[g].max_run_duration: must be 1ns to 876000h0m0s, got -1ns`},
		{"small disk", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.EphemeralDisk = &berth.EphemeralDisk{SizeMB: 1}
		}, `job.group[g].ephemeral_disk.size: must be 10 to 1099511627776, got 1`},
		{"disk smaller than logs", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.EphemeralDisk = &berth.EphemeralDisk{SizeMB: 100}
		}, "job.group[g].task[t].logs: max_files × max_file_size must be below the group's ephemeral_disk.size, 100 MiB, got 100 MiB; " +
			"job.group[g].task[u].logs: max_files × max_file_size must be below the group's ephemeral_disk.size, 100 MiB, got 100 MiB"},
		{"disk larger than the logs of each task", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.EphemeralDisk = &berth.EphemeralDisk{SizeMB: 101}
		}, ""},

		{"restart mode", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { g.RestartPolicy.Mode = "x" }, `job.group[g].restart.mode: unknown mode "x": want delay or fail`},
		{"restart attempts", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { g.RestartPolicy.Attempts = -1 }, `job.group[g].restart.attempts: must be 0 to 1000000, got -1`},
		{"restart interval", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			*g.RestartPolicy = berth.RestartPolicy{Interval: 1, Mode: berth.RestartFail}
		}, `job.group[g].restart.interval: must be 5s to 876000h0m0s, got 1ns`},
		{"restart delay", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { g.RestartPolicy.Delay = -1 }, `job.group[g].restart.delay: must be 0s to 876000h0m0s, got -1ns`},
		{"restarts that do not fit", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { g.RestartPolicy.Attempts = 1000 }, `job.group[g].restart: 1000 attempts with a delay of 15s do not fit into an interval of 30m0s`},
		{"restart of a task", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			p := *t.RestartPolicy
			p.Mode = "x"
			t.RestartPolicy = &p
		}, `job.group[g].task[t].restart.mode: unknown mode "x": want delay or fail`},

		{"all of a disconnect block", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Disconnect = &berth.DisconnectStrategy{LostAfter: time.Hour, Reconcile: berth.KeepLongestRunning}
		}, ``},
		{"negative lost_after", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Disconnect = &berth.DisconnectStrategy{LostAfter: -1, Reconcile: berth.KeepOriginal}
		}, `job.group[g].disconnect.lost_after: must be 0s to 876000h0m0s, got -1ns`},
		{"stop on client after nothing", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Disconnect = &berth.DisconnectStrategy{StopOnClientAfter: new(time.Duration), Reconcile: berth.KeepReplacement}
		}, `job.group[g].disconnect.stop_on_client_after: must be 1ns to 876000h0m0s, got 0s`},
		{"lost and stopped on the client", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			d := time.Minute
			g.Disconnect = &berth.DisconnectStrategy{LostAfter: time.Hour, StopOnClientAfter: &d, Reconcile: berth.KeepBestScore}
		}, `job.group[g].disconnect.stop_on_client_after: cannot be combined with lost_after`},
		{"who stays", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Disconnect = &berth.DisconnectStrategy{LostAfter: time.Hour, Replace: true, Reconcile: "both"}
		}, `job.group[g].disconnect.reconcile: unknown reconcile "both": want best_score, keep_original, keep_replacement or longest_running`},
		{"disconnect before the block", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.MaxClientDisconnect, g.PreventRescheduleOnLost = time.Hour, true
		}, ``},
		{"disconnect said twice", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.MaxClientDisconnect = time.Hour
			g.Disconnect = &berth.DisconnectStrategy{LostAfter: time.Hour, Replace: true, Reconcile: berth.KeepBestScore}
		}, `job.group[g].disconnect: cannot be combined with max_client_disconnect, which means the same`},
		{"negative max_client_disconnect", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { g.MaxClientDisconnect = -1 }, `job.group[g].max_client_disconnect: must be 0s to 876000h0m0s, got -1ns`},
		{"negative stop_after_client_disconnect", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.StopAfterClientDisconnect = -1
		}, `job.group[g].stop_after_client_disconnect: must be 0s to 876000h0m0s, got -1ns`},
		{"both before the block", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.MaxClientDisconnect, g.StopAfterClientDisconnect = time.Hour, time.Minute
		}, `job.group[g].stop_after_client_disconnect: cannot be combined with max_client_disconnect`},
		{"reschedule of a job", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			j.Reschedule = &berth.ReschedulePolicy{Unlimited: true, DelayFunction: "x", Delay: time.Minute, MaxDelay: time.Hour}
			g.ReschedulePolicy = j.Reschedule
		}, `job.reschedule.delay_function: unknown delay_function "x": want constant, exponential or fibonacci`},
		{"reschedule delay", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { g.ReschedulePolicy.Delay = 1 }, `job.group[g].reschedule.delay: must be 5s to 876000h0m0s, got 1ns`},
		{"reschedule max delay", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { g.ReschedulePolicy.MaxDelay = 6 * time.Second }, `job.group[g].reschedule.max_delay: must be at least delay, 30s, got 6s`},
		{"reschedule negative max delay", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			*g.ReschedulePolicy = berth.ReschedulePolicy{Unlimited: true, DelayFunction: berth.DelayConstant, Delay: time.Minute, MaxDelay: -1}
		}, `job.group[g].reschedule.max_delay: must be 0s to 876000h0m0s, got -1ns`},
		{"reschedule both ways", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { g.ReschedulePolicy.Attempts = 1 }, `job.group[g].reschedule.unlimited: must be false with attempts = 1, got true`},
		{"reschedule attempts", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			*g.ReschedulePolicy = berth.ReschedulePolicy{Attempts: -1}
		}, `job.group[g].reschedule.attempts: must be 0 to 1000000, got -1`},
		{"reschedule without time", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			*g.ReschedulePolicy = berth.ReschedulePolicy{Attempts: 2}
		}, `job.group[g].reschedule.interval: must be above 0s with attempts = 2, got 0s`},
		{"reschedule interval", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			*g.ReschedulePolicy = berth.ReschedulePolicy{Interval: -1}
		}, `job.group[g].reschedule.interval: must be 0s to 876000h0m0s, got -1ns`},

		{"two networks", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Networks = append(g.Networks, berth.NetworkResource{Mode: "host"})
		}, `job.group[g].network: at most one network block is allowed, got 2`},
		{"too many ports", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Networks[0].DynamicPorts = make([]berth.Port, MaxPorts+1)
		}, `job.group[g].network.port: at most 200 ports are allowed, got 202`},
		{"port label", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { g.Networks[0].DynamicPorts[0].Label = "a b" }, `job.group[g].network.port[a b]: the label must be 1 to 64 letters, digits, - or _`},
		{"port twice", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { g.Networks[0].DynamicPorts[0].Label = "ADMIN" }, `job.group[g].network.port[ADMIN]: is defined twice`},
		{"static port", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { g.Networks[0].ReservedPorts[0].Value = 65536 }, `job.group[g].network.port[admin].static: must be 1 to 65535, got 65536`},
		{"static port twice", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Networks[0].ReservedPorts = append(g.Networks[0].ReservedPorts, berth.Port{Label: "x", Value: 8080})
		}, `job.group[g].network.port[x].static: 8080 is also the static port of "admin"`},
		{"port to", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { g.Networks[0].DynamicPorts[0].To = -2 }, `job.group[g].network.port[http].to: must be -1 to 65535, got -2`},

		{"no task", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { g.Tasks = nil }, `job.group[g].task: a group needs at least one task`},
		{"too many tasks", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { g.Tasks = slices.Repeat(g.Tasks, MaxTasks) }, `job.group[g].task: at most 100 tasks are allowed, got 200`},
		{"task twice", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { g.Tasks[1].Name = "t" }, `job.group[g].task[t]: is defined twice`},
		{"task with a reserved name", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { t.Name = "Alloc" }, `job.group[g].task[Alloc].name: "Alloc" is reserved for a directory of the allocation: use another name`},
		{"task named as a shared directory", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { t.Name = "tmp" }, `job.group[g].task[tmp].name: "tmp" is reserved for a directory of the allocation: use another name`},
		{"task named as a task's directory", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { t.Name = "local" }, `job.group[g].task[local].name: "local" is reserved for a directory of the allocation: use another name`},
		{"task named as the supervisor's directory", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { t.Name = ".supervise" }, `job.group[g].task[.supervise].name: ".supervise" is reserved for a directory of the allocation: use another name`},
		{"task that climbs", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { t.Name = ".." }, `job.group[g].task[..].name: ".." is reserved for a directory of the allocation: use another name`},
		{"task with a long name", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { t.Name = long }, `job.group[g].task[` + long[:64] + `…].name: must be at most 128 bytes, got 300`},
		{"task that ends with a space", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { t.Name = "t " }, `job.group[g].task[t ].name: must not begin or end with a space, got "t "`},
		{"two leaders", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Tasks[0].Leader, g.Tasks[1].Leader = true, true
		}, `job.group[g].task: at most one task can be the leader, got 2`},
		{"user of two lines", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { t.User = "a\nb" }, `job.group[g].task[t].user: must have printable characters only, got "a\nb"`},
		{"env name with =", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { t.Env = map[string]string{"a=b": ""} }, `job.group[g].task[t].env: "a=b" is not a valid environment variable, or its value is not valid`},
		{"env value with a NUL", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { t.Env = map[string]string{"a": "\x00"} }, `job.group[g].task[t].env: "a" is not a valid environment variable, or its value is not valid`},
		{"task meta", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { t.Meta = map[string]string{"": ""} }, `job.group[g].task[t].meta: "" is not a usable key, or its value is not valid UTF-8`},
		{"kill timeout", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { t.KillTimeout = -1 }, `job.group[g].task[t].kill_timeout: must be 0s to 876000h0m0s, got -1ns`},
		{"shutdown delay", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { t.ShutdownDelay = -1 }, `job.group[g].task[t].shutdown_delay: must be 0s to 876000h0m0s, got -1ns`},
		{"hook", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			t.Lifecycle = &berth.TaskLifecycle{Hook: "prestop"}
		}, `job.group[g].task[t].lifecycle.hook: unknown hook "prestop": want prestart, poststart or poststop`},
		{"hooks", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			t.Lifecycle = &berth.TaskLifecycle{Hook: "poststart", Sidecar: true}
		}, ""},
		{"sidecar after the end", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			t.Lifecycle = &berth.TaskLifecycle{Hook: "poststop", Sidecar: true}
		}, `job.group[g].task[t].lifecycle.sidecar: must be false with the hook poststop: the main tasks, beside which it would run, have ended then`},
		{"volume mounts", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Volumes = map[string]berth.VolumeRequest{"v": {Name: "v", Type: "host", Source: "data"}}
			t.VolumeMounts = []berth.VolumeMount{{Volume: "v", Destination: "/srv"}, {Volume: "v", Destination: "srv/x", ReadOnly: true, PropagationMode: "host-to-task"}}
		}, ""},
		{"mount of no volume", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			t.VolumeMounts = []berth.VolumeMount{{Volume: "v", Destination: "/srv"}}
		}, `job.group[g].task[t].volume_mount.volume: the group has no volume "v"`},
		{"mount nowhere", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Volumes = map[string]berth.VolumeRequest{"v": {Name: "v", Type: "host", Source: "data"}}
			t.VolumeMounts = []berth.VolumeMount{{Volume: "v"}}
		}, `job.group[g].task[t].volume_mount.destination: is missing: want the path of the volume in the task`},
		{"mount above", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Volumes = map[string]berth.VolumeRequest{"v": {Name: "v", Type: "host", Source: "data"}}
			t.VolumeMounts = []berth.VolumeMount{{Volume: "v", Destination: "/srv/../.."}}
		}, `job.group[g].task[t].volume_mount.destination: must be a path below / without .. and NUL, got "/srv/../.."`},
		{"unknown propagation", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Volumes = map[string]berth.VolumeRequest{"v": {Name: "v", Type: "host", Source: "data"}}
			t.VolumeMounts = []berth.VolumeMount{{Volume: "v", Destination: "/srv", PropagationMode: "shared"}}
		}, `job.group[g].task[t].volume_mount.propagation_mode: unknown propagation_mode "shared": want private, host-to-task or bidirectional`},
		{"kill signal", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { t.KillSignal = "SIGNOPE" }, `job.group[g].task[t].kill_signal: unknown signal "SIGNOPE": want ` + orList(signals)},
		{"log files", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { t.LogConfig.MaxFiles = 0 }, `job.group[g].task[t].logs.max_files: must be 1 to 10000, got 0`},
		{"log size", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { t.LogConfig.MaxFileSizeMB = 0 }, `job.group[g].task[t].logs.max_file_size: must be 1 to 1073741824, got 0`},
		{"no cpu", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { t.Resources.CPU = 0 }, `job.group[g].task[t].resources.cpu: must be 1 to 10000000, got 0`},
		{"negative memory", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { t.Resources.MemoryMB = -5 }, `job.group[g].task[t].resources.memory: must be 10 to 1073741824, got -5`},

		{"cores", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { t.Resources.CPU, t.Resources.Cores = 0, 2 }, ``},
		{"cores and cpu", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { t.Resources.Cores = 2 }, `job.group[g].task[t].resources.cpu: cannot be combined with cores, got cpu = 100 and cores = 2`},
		{"negative cores", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { t.Resources.CPU, t.Resources.Cores = 0, -1 }, `job.group[g].task[t].resources.cores: must be 1 to 10000, got -1`},
		{"memory_max", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { t.Resources.MemoryMaxMB = 400 }, ``},
		{"memory_max below memory", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { t.Resources.MemoryMaxMB = 299 }, `job.group[g].task[t].resources.memory_max: must be 300 to 1073741824, got 299`},
		{"memory_max without bound", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { t.Resources.MemoryMaxMB = -1 }, ``},
		{"negative memory_max", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { t.Resources.MemoryMaxMB = -2 }, `job.group[g].task[t].resources.memory_max: must be 300 to 1073741824, got -2`},
		{"two networks of a task", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			t.Resources.Networks = make([]berth.NetworkResource, 2)
		}, `job.group[g].task[t].resources.network: at most one network block is allowed, got 2`},
		{"bridge of a task", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			t.Resources.Networks = []berth.NetworkResource{{Mode: berth.NetworkBridge}}
		}, `job.group[g].task[t].resources.network.mode: must be host, got "bridge": for other modes use the network block of the group`},
		{"ports of a task in a bridge", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Networks = []berth.NetworkResource{{Mode: berth.NetworkBridge}}
			t.Resources.Networks = []berth.NetworkResource{{Mode: berth.NetworkHost}}
		}, `job.group[g].task[t].resources.network: cannot be combined with the group's network of mode bridge, in which its ports would not be reached: use the network block of the group`},
		{"one label in two tasks", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			for _, t := range g.Tasks {
				t.Resources.Networks = []berth.NetworkResource{{Mode: berth.NetworkHost, DynamicPorts: []berth.Port{{Label: "http"}}}}
			}
		}, ``},
		{"one static port in two tasks", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			for i, t := range g.Tasks {
				t.Resources.Networks = []berth.NetworkResource{{Mode: berth.NetworkHost, ReservedPorts: []berth.Port{{Label: fmt.Sprint("p", i), Value: 80}}}}
			}
		}, `job.group[g].task[u].resources.network.port[p1].static: 80 is also the static port of "p0"`},
		{"service of the group with the port of a task", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			t.Resources.Networks = []berth.NetworkResource{{Mode: berth.NetworkHost, DynamicPorts: []berth.Port{{Label: "own"}}}}
			g.Services = []berth.Service{{Name: "web", PortLabel: "own", AddressMode: "auto", OnUpdate: "ignore"}}
		}, `job.group[g].service[web].port: the group's networks have no port "own", only task "t" has: set task to it`},
		{"service of the task with the port of its task", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			t.Resources.Networks = []berth.NetworkResource{{Mode: berth.NetworkHost, DynamicPorts: []berth.Port{{Label: "own"}}}}
			g.Services = []berth.Service{{Name: "web", PortLabel: "own", AddressMode: "auto", OnUpdate: "ignore", TaskName: "t"}}
		}, ``},
		{"actions", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			t.Actions = []berth.Action{{Name: "say-hello", Command: "/bin/echo", Args: []string{"hello"}}, {Name: "b", Command: "x"}}
		}, ``},
		{"action twice", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			t.Actions = []berth.Action{{Name: "a", Command: "x"}, {Name: "a", Command: "y"}}
		}, `job.group[g].task[t].action[a]: is defined twice`},
		{"action of a bad name", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			t.Actions = []berth.Action{{Name: "a b", Command: "x"}}
		}, `job.group[g].task[t].action[a b].name: must be 1 to 128 letters, digits and hyphens, got "a b"`},
		{"action without a command", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			t.Actions = []berth.Action{{Name: "a"}}
		}, `job.group[g].task[t].action[a].command: is missing: want the command to run`},
		{"script without a command", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Services = []berth.Service{checked(berth.ServiceCheck{Type: "script", TaskName: "t"})}
		}, `job.group[g].service[web].check[c].command: is missing: a check of type script needs a command`},
		{"script without a task", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Services = []berth.Service{checked(berth.ServiceCheck{Type: "script", Command: "/bin/true"})}
		}, `job.group[g].service[web].check[c].task: is missing: a script runs in a task, and the group has 2`},
		{"script", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Services = []berth.Service{checked(berth.ServiceCheck{Type: "script", Command: "/bin/true", Args: []string{"a"}, TaskName: "u"})}
		}, ``},
		{"command of another check", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Services = []berth.Service{checked(berth.ServiceCheck{Type: "tcp", Command: "/bin/true"})}
		}, `job.group[g].service[web].check[c].command: is only for checks of type script, got type "tcp"`},
		{"gRPC", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Services = []berth.Service{checked(berth.ServiceCheck{Type: "grpc", GRPCService: "web", GRPCUseTLS: true, TLSSkipVerify: true})}
		}, ``},
		{"gRPC with half of TLS", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Services = []berth.Service{checked(berth.ServiceCheck{Type: "grpc", TLSSkipVerify: true})}
		}, `job.group[g].service[web].check[c].grpc_use_tls: must be true with tls_server_name or tls_skip_verify, got false`},
		{"service in Consul", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Services = []berth.Service{{Name: "web", AddressMode: "auto", OnUpdate: "ignore", Provider: berth.ServiceConsul}}
		}, `job.group[g].service[web].provider: "consul" is not supported: must be "nomad"`},
		{"mesh without a provider", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Services = []berth.Service{{Name: "web", AddressMode: "auto", OnUpdate: "ignore", Connect: map[string]any{"native": true}}}
		}, `job.group[g].service[web].connect: is only for services in Consul, not with provider = "nomad"`},
		{"numa", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			t.Resources.CPU, t.Resources.Cores = 0, 2
			t.Resources.Devices = []berth.RequestedDevice{{Name: "gpu", Count: 1}}
			t.Resources.NUMA = &berth.NUMAResource{Affinity: berth.NUMARequire, Devices: []string{"gpu"}}
		}, ``},
		{"numa without cores", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			t.Resources.NUMA = &berth.NUMAResource{Affinity: berth.NUMAPrefer}
		}, `job.group[g].task[t].resources.numa: needs resources.cores; it has no effect with cpu`},
		{"numa affinity", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			t.Resources.CPU, t.Resources.Cores, t.Resources.NUMA = 0, 2, &berth.NUMAResource{Affinity: "near"}
		}, `job.group[g].task[t].resources.numa.affinity: unknown affinity "near": want none, prefer or require`},
		{"numa device", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			t.Resources.CPU, t.Resources.Cores, t.Resources.NUMA = 0, 2, &berth.NUMAResource{Affinity: berth.NUMARequire, Devices: []string{"gpu"}}
		}, `job.group[g].task[t].resources.numa.devices: the task requests no device "gpu"`},
		{"device", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			t.Resources.Devices = []berth.RequestedDevice{{Name: "nvidia/gpu/t4", Count: 2, Constraints: []berth.Constraint{{LTarget: "${device.attr.memory}", RTarget: "4 GiB", Operand: ">="}, {LTarget: "${device.ids}", RTarget: "a,b", Operand: berth.OpSetContainsAny}},
				Affinities: []berth.Affinity{{LTarget: "${device.model}", RTarget: "t4", Operand: "=", Weight: 50}}}}
		}, ``},
		{"device of no type", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			t.Resources.Devices = []berth.RequestedDevice{{Name: "nvidia//t4", Count: 1}}
		}, `job.group[g].task[t].resources.device[nvidia//t4]: the name must be type, vendor/type or vendor/type/name`},
		{"device of four parts", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			t.Resources.Devices = []berth.RequestedDevice{{Name: "a/b/c/d", Count: 1}}
		}, `job.group[g].task[t].resources.device[a/b/c/d]: the name must be type, vendor/type or vendor/type/name`},
		{"no devices", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			t.Resources.Devices = []berth.RequestedDevice{{Name: "gpu"}}
		}, `job.group[g].task[t].resources.device[gpu].count: must be 1 to 10000, got 0`},
		{"device twice", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			t.Resources.Devices = []berth.RequestedDevice{{Name: "gpu", Count: 1}, {Name: "gpu", Count: 1}}
		}, `job.group[g].task[t].resources.device[gpu]: is defined twice; use count to ask for several`},
		{"device and its node", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			t.Resources.Devices = []berth.RequestedDevice{{Name: "gpu", Count: 1, Constraints: []berth.Constraint{{LTarget: "${attr.kernel.name}", RTarget: "linux", Operand: "="}}}}
		}, `job.group[g].task[t].resources.device[gpu].constraint[0].attribute: unknown reference "${attr.kernel.name}": want ${device.attr.…}, ${device.vendor}, ${device.type}, ${device.model} or ${device.ids}`},
		{"device property", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			t.Resources.Devices = []berth.RequestedDevice{{Name: "gpu", Count: 1, Constraints: []berth.Constraint{{LTarget: "${device.colour}", RTarget: "red", Operand: "="}}}}
		}, `job.group[g].task[t].resources.device[gpu].constraint[0].attribute: unknown device property "colour": want vendor, type, model or ids`},
		{"distinct devices", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			t.Resources.Devices = []berth.RequestedDevice{{Name: "gpu", Count: 1, Constraints: []berth.Constraint{{LTarget: "${device.model}", RTarget: "2", Operand: berth.OpDistinctProperty}}}}
		}, `job.group[g].task[t].resources.device[gpu].constraint[0].operator: distinct_property is not supported for devices`},

		{"bridge", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { g.Networks[0].Mode = berth.NetworkBridge }, ``},
		{"cni", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { g.Networks[0].Mode = "cni/my.net" }, ``},
		{"cni of no name", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { g.Networks[0].Mode = "cni/" }, `job.group[g].network.mode: must be cni/ and the name of a network, got "cni/"`},
		{"network mode none", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { g.Networks[0].Mode = berth.NetworkNone }, `job.group[g].network.port: must be left out with mode none`},
		{"a host name on the host's network", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { g.Networks[0].Hostname = "web" }, `job.group[g].network.hostname: needs mode bridge, none or cni/…, got host`},
		{"a host name with a space", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Networks[0].Mode, g.Networks[0].Hostname = berth.NetworkBridge, "w b"
		}, `job.group[g].network.hostname: must be a host name of at most 63 letters, digits, hyphens and dots, got "w b"`},
		{"arguments of CNI without CNI", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Networks[0].Mode, g.Networks[0].CNI = berth.NetworkBridge, &berth.CNIConfig{Args: map[string]string{"a": "b"}}
		}, `job.group[g].network.cni: needs mode cni/…, got bridge`},
		{"a DNS server by name", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Networks[0].Mode, g.Networks[0].DNS = berth.NetworkBridge, &berth.DNSConfig{Servers: []string{"dns.example"}}
		}, `job.group[g].network.dns.servers: must be IP addresses, got "dns.example"`},
		{"unknown network mode", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) { g.Networks[0].Mode = "lan" }, `job.group[g].network.mode: unknown mode "lan": want host, bridge, none or cni/…`},
		{"one port on two host networks", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Networks[0].ReservedPorts = append(g.Networks[0].ReservedPorts, berth.Port{Label: "x", Value: 8080, HostNetwork: "public"})
		}, ``},
		{"collisions of a dynamic port", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Networks[0].DynamicPorts[0].IgnoreCollision = true
		}, `job.group[g].network.port[http].ignore_collision: is only for static ports in mode host`},
		{"collisions behind a bridge", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Networks[0].Mode, g.Networks[0].ReservedPorts[0].IgnoreCollision = berth.NetworkBridge, true
		}, `job.group[g].network.port[admin].ignore_collision: is only for static ports in mode host`},

		{"host volume", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Volumes = map[string]berth.VolumeRequest{"data": {Name: "data", Type: berth.VolumeHost, Source: "ssd", ReadOnly: true}}
		}, ``},
		{"volume of no type", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Volumes = map[string]berth.VolumeRequest{"data": {Name: "data", Source: "ssd"}}
		}, `job.group[g].volume[data].type: is missing: want host or csi`},
		{"volume without a source", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Volumes = map[string]berth.VolumeRequest{"data": {Name: "data", Type: berth.VolumeHost}}
		}, `job.group[g].volume[data].source: is missing: want the name of the volume`},
		{"csi volume", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Volumes = map[string]berth.VolumeRequest{"data": {Name: "data", Type: berth.VolumeCSI, Source: "ssd", AccessMode: berth.AccessWriter, AttachmentMode: berth.AttachFilesystem}}
		}, ``},
		{"csi volume that is a block device", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Volumes = map[string]berth.VolumeRequest{"data": {Name: "data", Type: berth.VolumeCSI, Source: "ssd", AccessMode: berth.AccessWriter, AttachmentMode: berth.AttachBlock}}
			t.VolumeMounts = []berth.VolumeMount{{Volume: "data", Destination: "/dev/xvda", PropagationMode: "private"}}
		}, ``},
		{"block device with mount options", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Volumes = map[string]berth.VolumeRequest{"data": {
				Name: "data", Type: berth.VolumeCSI, Source: "ssd", AccessMode: berth.AccessWriter, AttachmentMode: berth.AttachBlock,
				MountOptions: &berth.CSIMountOptions{FSType: "ext4"},
			}}
		}, `job.group[g].volume[data].mount_options: is only for attachment mode file-system, got block-device`},
		{"volume as block device and as file system", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			v := berth.VolumeRequest{Name: "a", Type: berth.VolumeCSI, Source: "ssd", AccessMode: berth.AccessWriter, AttachmentMode: berth.AttachBlock}
			w := v
			w.Name, w.AttachmentMode = "b", berth.AttachFilesystem
			g.Volumes = map[string]berth.VolumeRequest{"a": v, "b": w}
		}, `job.group[g].volume[b].attachment_mode: must be block-device, as volume a of the group has the same source, got "file-system"`},
		{"block device with a label", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Volumes = map[string]berth.VolumeRequest{"data": {Name: "data", Type: berth.VolumeCSI, Source: "ssd", AccessMode: berth.AccessWriter, AttachmentMode: berth.AttachBlock}}
			t.VolumeMounts = []berth.VolumeMount{{Volume: "data", Destination: "/dev/xvda", SELinuxLabel: "z"}}
		}, `job.group[g].task[t].volume_mount.selinux_label: must be left out: volume data is attached as a block device, got "z"`},
		{"artifact of another kind of store", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			t.Artifacts = []berth.TaskArtifact{{GetterSource: "gcs::https://www.googleapis.com/storage/v1/b/k", GetterMode: "any"}}
		}, `job.group[g].task[t].artifact[0].source: sources of the kind gcs are not supported: use the https URL of the object, or git`},
		{"artifact that is an object", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			for _, source := range []string{"https://s3.amazonaws.com/b/k", "http://127.0.0.1:9000/b/k?region=x", "${meta.store}/k"} {
				t.Artifacts = append(t.Artifacts, berth.TaskArtifact{GetterSource: "s3::" + source, GetterMode: "any"})
			}
		}, ``},
		{"artifact that is no address of an object", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			t.Artifacts = []berth.TaskArtifact{{GetterSource: "s3::bucket/key?aws_access_key_secret=x", GetterMode: "any"}}
		}, `job.group[g].task[t].artifact[0].source: must have the address of an object after s3::, such as https://host/bucket/key, got "s3::bucket/key"`},
		{"host volume that is a block device", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Volumes = map[string]berth.VolumeRequest{"data": {Name: "data", Type: berth.VolumeHost, Source: "ssd", AttachmentMode: berth.AttachBlock}}
		}, `job.group[g].volume[data].attachment_mode: is not supported: must be file-system, got block-device`},
		{"csi volume on each node", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			j.Type, j.Reschedule, g.ReschedulePolicy = berth.TypeSysbatch, nil, nil
			g.Volumes = map[string]berth.VolumeRequest{"data": {Name: "data", Type: berth.VolumeCSI, Source: "ssd", AccessMode: berth.AccessMultiWriter, AttachmentMode: berth.AttachFilesystem}}
		}, ``},
		{"csi volume of each instance on each node", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			j.Type, j.Reschedule, g.ReschedulePolicy = berth.TypeSysbatch, nil, nil
			g.Volumes = map[string]berth.VolumeRequest{"data": {Name: "data", Type: berth.VolumeCSI, Source: "ssd", PerAlloc: true, AccessMode: berth.AccessMultiWriter, AttachmentMode: berth.AttachFilesystem}}
		}, `job.group[g].volume[data].per_alloc: is not for jobs of type sysbatch`},
		{"csi volume that keeps its node", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Volumes = map[string]berth.VolumeRequest{"data": {Name: "data", Type: berth.VolumeCSI, Source: "ssd", Sticky: true, AccessMode: berth.AccessWriter, AttachmentMode: berth.AttachFilesystem}}
		}, `job.group[g].volume[data].sticky: is only for volumes of type host`},
		{"csi volume that readers could write", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Volumes = map[string]berth.VolumeRequest{"data": {Name: "data", Type: berth.VolumeCSI, Source: "ssd", AccessMode: berth.AccessReaders, AttachmentMode: berth.AttachFilesystem}}
		}, `job.group[g].volume[data].read_only: must be true with access mode multi-node-reader-only`},
		{"csi plugin", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			t.CSIPluginConfig = &berth.CSIPluginConfig{ID: "../disk", Type: "node", MountDir: "/csi", StagePublishBaseDir: "/local/csi", HealthTimeout: time.Minute}
		}, `job.group[g].task[t].csi_plugin.id: must be 1 to 128 letters, digits, dots, dashes and underscores, got "../disk"`},
		{"volume of each instance", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			j.Type, j.Reschedule, g.ReschedulePolicy = berth.TypeSysbatch, nil, nil
			g.Volumes = map[string]berth.VolumeRequest{"data": {Name: "data", Type: berth.VolumeHost, Source: "ssd", PerAlloc: true}}
		}, `job.group[g].volume[data].per_alloc: is not for jobs of type sysbatch`},

		{"too many constraints", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			j.Constraints = make([]berth.Constraint, MaxConditions+1)
		}, `job.constraint: at most 200 constraints are allowed, got 201`},
		{"operator", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			j.Constraints = []berth.Constraint{{LTarget: "${attr.a}", RTarget: "b", Operand: "~"}}
		}, `job.constraint[0].operator: unknown operator "~": want ` + orList(operators)},
		{"no attribute", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			g.Constraints = []berth.Constraint{{LTarget: "", RTarget: "b", Operand: "="}}
		}, `job.group[g].constraint[0].attribute: is missing: want an attribute such as ${attr.kernel.name}`},
		{"distinct_hosts", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			j.Constraints = []berth.Constraint{{LTarget: "", RTarget: "x", Operand: berth.OpDistinctHosts}}
		}, `job.constraint[0].value: unknown value "x": want true or false`},
		{"distinct_property of none", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			j.Constraints = []berth.Constraint{{LTarget: "${meta.a}", RTarget: "0", Operand: berth.OpDistinctProperty}}
		}, `job.constraint[0].value: must be an integer of at least 1, got "0"`},
		{"distinct_property of half a number", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			j.Constraints = []berth.Constraint{{LTarget: "${meta.a}", RTarget: "3x", Operand: berth.OpDistinctProperty}}
		}, `job.constraint[0].value: must be an integer of at least 1, got "3x"`},
		{"regexp", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			t.Constraints = []berth.Constraint{{LTarget: "${meta.a}", RTarget: "(", Operand: berth.OpRegexp}}
		}, "job.group[g].task[t].constraint[0].value: must be a regular expression: error parsing regexp: missing closing ): `(`"},
		{"long regexp", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			j.Constraints = []berth.Constraint{{LTarget: "${meta.a}", RTarget: strings.Repeat("a", 1001), Operand: berth.OpRegexp}}
		}, `job.constraint[0].value: must be at most 1000 bytes for operator regexp, got 1001`},
		{"version", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			j.Constraints = []berth.Constraint{{LTarget: "${meta.a}", RTarget: "new", Operand: berth.OpVersion}}
		}, `job.constraint[0].value: must be a version constraint such as ">= 1.2, < 2", got "new"`},
		{"set", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			j.Constraints = []berth.Constraint{{LTarget: "${meta.a}", RTarget: "", Operand: berth.OpSetContainsAny}}
		}, `job.constraint[0].value: is missing: want a comma-separated list`},
		{"target without its brace", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			j.Constraints = []berth.Constraint{{LTarget: "${meta.a", RTarget: "b", Operand: "="}}
		}, `job.constraint[0].attribute: must end with a closing brace, got "${meta.a"`},
		{"target of nothing", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			j.Constraints = []berth.Constraint{{LTarget: "${meta.}", RTarget: "b", Operand: "="}}
		}, `job.constraint[0].attribute: "${meta.}" must name a key after the dot`},
		{"target of the task's own", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			j.Constraints = []berth.Constraint{{LTarget: "${NOMAD_PORT_x}", RTarget: "b", Operand: "="}}
		}, `job.constraint[0].attribute: unknown reference "${NOMAD_PORT_x}": want ${node.…}, ${attr.…} or ${meta.…}`},
		{"unknown property", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			j.Constraints = []berth.Constraint{{LTarget: "a", RTarget: "${node.clas}", Operand: "="}}
		}, `job.constraint[0].value: unknown node property "clas": want unique.id, unique.name, datacenter, class, pool or region`},
		{"affinity for other hosts", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			j.Affinities = []berth.Affinity{{LTarget: "", RTarget: "", Operand: berth.OpDistinctHosts, Weight: 50}}
		}, `job.affinity[0].operator: distinct_hosts is only for constraints`},
		{"affinity without weight", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			j.Affinities = []berth.Affinity{{LTarget: "${meta.a}", RTarget: "b", Operand: "=", Weight: 0}}
		}, `job.affinity[0].weight: must be -100 to 100 and not 0, got 0`},
		{"affinity of too much weight", func(j *berth.Job, g *berth.TaskGroup, t *berth.Task) {
			j.Affinities = []berth.Affinity{{LTarget: "${meta.a}", RTarget: "b", Operand: "=", Weight: -101}}
		}, `job.affinity[0].weight: must be -100 to 100 and not 0, got -101`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			j := validJob(t)
			j.Update, j.TaskGroups[0].Update = nil, nil // which depends on the type
			tt.spoil(j, j.TaskGroups[0], j.TaskGroups[0].Tasks[0])
			got := Validate(j)
			if strings.HasPrefix(tt.name, "too many ports") || tt.name == "too many groups" || tt.name == "too many tasks" {
				got = got[:min(1, len(got))]
			}
			if diff := cmp.Diff(tt.want, joined(got)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// What the config of a driver may hold.
func TestDriverConfig(t *testing.T) {
	list := func(v ...any) []any { return v }
	tests := []struct {
		driver string
		config map[string]any
		want   string
	}{
		{"raw_exec", map[string]any{"command": "/bin/true"}, ""},
		{"raw_exec", map[string]any{"command": "${NOMAD_TASK_DIR}/x", "args": list("a", "${NOMAD_PORT_x}"), "work_dir": "/"}, ""},
		{"raw_exec", nil, `config.command: is missing; the driver raw_exec requires it`},
		{"raw_exec", map[string]any{"command": ""}, `config.command: is missing; the driver raw_exec requires it`},
		{"raw_exec", map[string]any{"command": nil}, `config.command: is missing; the driver raw_exec requires it`},
		{"raw_exec", map[string]any{"command": int64(1)}, `config.command: must be a string, got 1`},
		{"raw_exec", map[string]any{"command": "x", "args": "a"}, `config.args: must be a list of strings, got "a"`},
		{"raw_exec", map[string]any{"command": "x", "args": list("a", int64(1))}, `config.args[1]: must be a string, got 1`},
		{"raw_exec", map[string]any{"command": "x", "args": list()}, ``},
		{"raw_exec", map[string]any{"command": "x", "args": nil, "work_dir": nil}, ``},
		{"raw_exec", map[string]any{"command": "x", "image": "y"}, `config.image: unknown setting of the driver raw_exec`},
		{"mock_driver", nil, ""},
		{"mock_driver", map[string]any{"run_for": "10s", "exit_code": int64(3), "start_error_recoverable": true, "kill_after": int64(5)}, ""},
		{"mock_driver", map[string]any{"run_for": "${NOMAD_META_time}", "exit_code": "${meta.code}", "start_error_recoverable": "${meta.x}"}, ""},
		{"mock_driver", map[string]any{"exit_code": "3", "start_error_recoverable": "true"}, ""},
		{"mock_driver", map[string]any{"run_for": "soon"}, `config.run_for: must be a duration such as "90s", got "soon"`},
		{"mock_driver", map[string]any{"exit_code": "x"}, `config.exit_code: must be an integer, got "x"`},
		{"mock_driver", map[string]any{"exit_code": 1.5}, `config.exit_code: must be an integer, got 1.5`},
		{"mock_driver", map[string]any{"start_error_recoverable": int64(1)}, `config.start_error_recoverable: must be true or false, got 1`},
		{"docker", map[string]any{"image": "redis:7", "ports": list("db")}, ""},
		{"docker", map[string]any{"image": "redis:7", "port": "db"}, `config.port: unknown setting of the driver docker; did you mean "ports"?`},
		{"docker", nil, "config.image: is missing; the driver docker requires it"},
		{"podman", map[string]any{"image": "docker://redis:7", "ports": list("db"), "memory_swap": "180m"}, ""},
		{"podman", map[string]any{"image": "redis:7", "memory_swap": "much"}, `config.memory_swap: must be a size such as 64m, or -1, got "much"`},
		{"qemu", map[string]any{"image_path": "local/linux.img", "graceful_shutdown": true, "port_map": map[string]any{"ssh": 22}}, ""},
		{"qemu", map[string]any{"image_path": "local/linux.img", "accelerator": "hvf"}, `config.accelerator: must be one of tcg, kvm, got "hvf"`},
		{"firecracker-task-driver", map[string]any{"image": "redis:7", "port": "db"}, ""},
		{"dockr", nil, ""},
		{" docker", nil, `driver: must not begin or end with a space, got " docker"`},
		{"", nil, `driver: is missing: want the name of a driver, such as docker, exec, java, mock_driver, podman, qemu or raw_exec`},
	}
	for _, tt := range tests {
		j := validJob(t)
		task := j.TaskGroups[0].Tasks[0]
		task.Driver, task.Config = tt.driver, tt.config
		want := tt.want
		if want != "" {
			want = "job.group[g].task[t]." + want
		}
		if got := joined(Validate(j)); got != want {
			t.Errorf("%s %v:\n got %s\nwant %s", tt.driver, tt.config, got, want)
		}
	}
}

// supported has every field of a job that has an effect. All others are refused
// by name when they are set, so nothing that a user writes is ignored.
var supported = strings.Fields(`
	job.region job.namespace job.id job.name job.type job.priority job.datacenters job.node_pool
	job.constraint.attribute job.constraint.value job.constraint.operator
	job.all_at_once
	job.affinity.attribute job.affinity.value job.affinity.operator job.affinity.weight
	job.reschedule.attempts job.reschedule.interval job.reschedule.delay job.reschedule.delay_function
	job.reschedule.max_delay job.reschedule.unlimited
	job.meta job.ui.description job.ui.link.label job.ui.link.url
	job.periodic.enabled job.periodic.cron job.periodic.crons job.periodic.prohibit_overlap job.periodic.time_zone
	job.parameterized.payload job.parameterized.meta_required job.parameterized.meta_optional
	job.group.task.dispatch_payload.file
	job.update.max_parallel job.update.stagger job.update.health_check job.update.min_healthy_time job.update.healthy_deadline job.update.progress_deadline job.update.canary job.update.auto_revert job.update.auto_promote
	job.group.update.max_parallel job.group.update.stagger job.group.update.health_check job.group.update.min_healthy_time job.group.update.healthy_deadline job.group.update.progress_deadline job.group.update.canary job.group.update.auto_revert job.group.update.auto_promote
	job.group.name job.group.count job.group.depends_on job.group.once
	job.group.constraint.attribute job.group.constraint.value job.group.constraint.operator
	job.group.affinity.attribute job.group.affinity.value job.group.affinity.operator job.group.affinity.weight
	job.group.restart.render_templates job.group.task.restart.render_templates
	job.group.task.artifact.chown job.group.task.artifact.destination job.group.task.artifact.headers job.group.task.artifact.insecure
	job.group.task.artifact.mode job.group.task.artifact.options job.group.task.artifact.source
	job.group.task.secret.config job.group.task.secret.env job.group.task.secret.name job.group.task.secret.provider job.group.task.secret.path
	job.group.task.template.change_mode job.group.task.template.change_script.args job.group.task.template.change_script.command
	job.group.task.template.change_script.fail_on_error job.group.task.template.change_script.timeout job.group.task.template.change_signal
	job.group.task.template.data job.group.task.template.destination job.group.task.template.env job.group.task.template.error_on_missing_key
	job.group.task.template.gid job.group.task.template.left_delimiter job.group.task.template.once job.group.task.template.perms
	job.group.task.template.rolling job.group.task.template.right_delimiter job.group.task.template.source job.group.task.template.splay job.group.task.template.uid
	job.group.task.template.wait.max job.group.task.template.wait.min
	job.group.restart.attempts job.group.restart.interval job.group.restart.delay job.group.restart.mode
	job.group.reschedule.attempts job.group.reschedule.interval job.group.reschedule.delay job.group.reschedule.delay_function
	job.group.reschedule.max_delay job.group.reschedule.unlimited
	job.group.ephemeral_disk.size job.group.ephemeral_disk.sticky job.group.ephemeral_disk.migrate job.group.volume
	job.group.network.mode job.group.network.port.host_network job.group.network.port.ignore_collision
	job.group.network.reserved_ports.host_network job.group.network.reserved_ports.ignore_collision
	job.group.network.hostname job.group.network.cni.args job.group.network.dns.servers job.group.network.dns.searches job.group.network.dns.options
	job.group.network.port.name job.group.network.port.static job.group.network.port.to
	job.group.network.reserved_ports.name job.group.network.reserved_ports.static job.group.network.reserved_ports.to
	job.group.disconnect.lost_after job.group.disconnect.stop_on_client_after job.group.disconnect.replace job.group.disconnect.reconcile
	job.migrate.max_parallel job.migrate.health_check job.migrate.min_healthy_time job.migrate.healthy_deadline job.migrate.start_first
	job.group.migrate.max_parallel job.group.migrate.health_check job.group.migrate.min_healthy_time job.group.migrate.healthy_deadline job.group.migrate.start_first
	job.group.max_run_duration job.group.max_client_disconnect job.group.stop_after_client_disconnect job.group.prevent_reschedule_on_lost
	job.group.scaling.enabled job.group.scaling.max job.group.scaling.min job.group.scaling.policy job.group.scaling.type
	job.group.task.scaling.enabled job.group.task.scaling.max job.group.task.scaling.min job.group.task.scaling.policy job.group.task.scaling.type
	job.group.meta job.group.shutdown_delay
	job.group.spread.attribute job.group.spread.weight job.group.spread.target.name job.group.spread.target.percent
	job.spread.attribute job.spread.weight job.spread.target.name job.spread.target.percent
	job.group.task.name job.group.task.driver job.group.task.user job.group.task.config
	job.group.task.constraint.attribute job.group.task.constraint.value job.group.task.constraint.operator
	job.group.task.affinity.attribute job.group.task.affinity.value job.group.task.affinity.operator job.group.task.affinity.weight
	job.group.task.env job.group.task.meta job.group.task.leader job.group.task.lifecycle.hook job.group.task.lifecycle.sidecar
	job.group.task.csi_plugin.id job.group.task.csi_plugin.type job.group.task.csi_plugin.mount_dir job.group.task.csi_plugin.stage_publish_base_dir job.group.task.csi_plugin.health_timeout
	job.group.task.volume_mount.volume job.group.task.volume_mount.destination job.group.task.volume_mount.read_only job.group.task.volume_mount.selinux_label job.group.task.volume_mount.propagation_mode
	job.group.task.connectivity.change_mode job.group.task.connectivity.change_signal
	job.group.task.resources.cpu job.group.task.resources.memory job.group.task.resources.cores job.group.task.resources.memory_max
	job.group.task.resources.numa.affinity job.group.task.resources.numa.devices job.group.task.resources.secrets
	job.group.task.schedule.cron.start job.group.task.schedule.cron.end job.group.task.schedule.cron.timezone
	job.group.task.action.name job.group.task.action.command job.group.task.action.args
	job.group.task.resources.network.mode
	job.group.task.resources.network.port.name job.group.task.resources.network.port.static job.group.task.resources.network.port.to
	job.group.task.resources.network.port.ignore_collision
	job.group.task.resources.network.reserved_ports.name job.group.task.resources.network.reserved_ports.static job.group.task.resources.network.reserved_ports.to
	job.group.task.resources.network.reserved_ports.ignore_collision
	job.group.task.resources.device.name job.group.task.resources.device.count
	job.group.task.resources.device.constraint.attribute job.group.task.resources.device.constraint.operator job.group.task.resources.device.constraint.value
	job.group.task.resources.device.affinity.attribute job.group.task.resources.device.affinity.operator job.group.task.resources.device.affinity.value
	job.group.task.resources.device.affinity.weight
	job.group.task.restart.attempts job.group.task.restart.interval job.group.task.restart.delay job.group.task.restart.mode
	job.group.task.identity.aud job.group.task.identity.change_mode job.group.task.identity.change_signal job.group.task.identity.env job.group.task.identity.extra_claims
	job.group.task.identity.file job.group.task.identity.filepath job.group.task.identity.name job.group.task.identity.ttl
	job.group.task.kill_timeout job.group.task.kill_signal job.group.task.shutdown_delay
	job.group.task.logs.max_files job.group.task.logs.max_file_size job.group.task.logs.disabled job.group.task.logs.enabled
`)

// ofServices has the fields of services in a group or task. Those that only
// Consul has are refused with that reason.
var ofServices = strings.Fields(`
	address address_mode canary_meta canary_tags meta name on_update port tags task check_restart.grace check_restart.ignore_warnings check_restart.limit
	cluster connect enable_tag_override kind tagged_addresses weights.passing weights.warning
	identity.aud identity.change_mode identity.change_signal identity.env identity.extra_claims identity.file identity.filepath identity.name
	identity.service_name identity.ttl
	check.address_mode check.body check.check_restart.grace check.check_restart.ignore_warnings check.check_restart.limit
	check.failures_before_critical check.header check.interval check.method check.name check.on_update check.path check.port check.protocol
	check.success_before_passing check.task check.timeout check.tls_server_name check.tls_skip_verify check.type
	check.advertise check.args check.command check.expose check.failures_before_warning check.grpc_service check.grpc_use_tls
	check.initial_status check.notes
`)

// warned has fields without effect that old files still set. Warnings names them.
var warned = strings.Fields(`job.group.network.mbits job.group.task.resources.network.mbits job.group.task.resources.disk job.group.task.resources.iops`)

// Every field that a job file can set is supported or refused.
func TestEveryFieldIsSupportedOrRefused(t *testing.T) {
	var taken []string
	var walk func(typ reflect.Type, path, shown string, reach func(*berth.Job) reflect.Value)
	walk = func(typ reflect.Type, path, shown string, reach func(*berth.Job) reflect.Value) {
		for f := range typ.Fields() {
			name, label := decode.FileName(f)
			if name == "-" || !f.IsExported() {
				continue
			}
			if label {
				name = "name"
			}
			at := path + "." + name
			j := validJob(t)
			filled(reach(j).FieldByIndex(f.Index))
			if refused(j, shown+"."+name) {
				continue
			}
			inner := f.Type
			for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
				inner = inner.Elem()
			}
			if inner.Kind() != reflect.Struct || inner == reflect.TypeFor[time.Time]() {
				taken = append(taken, at)
				continue
			}
			walk(inner, at, shown+"."+name, func(j *berth.Job) reflect.Value {
				v := reach(j).FieldByIndex(f.Index)
				for v.Kind() != reflect.Struct {
					switch v.Kind() {
					case reflect.Slice:
						if v.Len() == 0 {
							v.Set(reflect.MakeSlice(v.Type(), 1, 1))
							if def, ok := blockDefaults[inner]; ok {
								v.Index(0).Set(reflect.ValueOf(def))
							}
						}
						v = v.Index(0)
					case reflect.Pointer:
						fresh := reflect.New(v.Type().Elem())
						if !v.IsNil() {
							fresh.Elem().Set(v.Elem())
						}
						v.Set(fresh)
						v = fresh.Elem()
					}
				}
				return v
			})
		}
	}
	walk(reflect.TypeFor[berth.Job](), "job", "job", func(j *berth.Job) reflect.Value { return reflect.ValueOf(j).Elem() })
	slices.Sort(taken)
	want := slices.Concat(supported, warned)
	for _, f := range ofServices {
		want = append(want, "job.group.service."+f, "job.group.task.service."+f)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Compact(taken)); diff != "" {
		t.Errorf("-supported +neither supported nor refused\n%s", diff)
	}
}

// filled sets a field, and all fields in it, to values that are not zero.
func filled(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt(7)
	case reflect.Uint64, reflect.Uint8:
		v.SetUint(7)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		filled(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		filled(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		e := reflect.New(v.Type().Elem()).Elem()
		filled(e)
		v.SetMapIndex(reflect.ValueOf("x").Convert(v.Type().Key()), e)
	case reflect.Interface:
		v.Set(reflect.ValueOf("x"))
	case reflect.Struct:
		for f := range v.Type().Fields() {
			if f.IsExported() && f.Type != reflect.TypeFor[*berth.TaskGroup]() {
				filled(v.FieldByIndex(f.Index))
			}
		}
	default:
		panic(fmt.Sprintf("no sample of %v", v.Type()))
	}
}

// refused reports whether Validate refuses the block or field at the path itself,
// not something inside it.
func refused(j *berth.Job, path string) bool {
	path = strings.ReplaceAll(path, "reserved_ports", "port") // problems call both kinds ports
	for _, p := range Validate(j) {
		bare := brackets.Replace(p.Path)
		if strings.Contains(p.Text, "is not supported") && plainPath(bare) == path {
			return true
		}
	}
	return false
}

var brackets = strings.NewReplacer("[", "\x00", "]", "\x01")

// plainPath removes brackets and their content.
func plainPath(s string) string {
	var b strings.Builder
	depth := 0
	for _, r := range s {
		switch r {
		case 0:
			depth++
		case 1:
			depth--
		default:
			if depth == 0 {
				b.WriteRune(r)
			}
		}
	}
	return b.String()
}

func TestWarnings(t *testing.T) {
	j := validJob(t)
	if w := Warnings(j); len(w) > 0 {
		t.Errorf("warnings about a valid job: %q", w)
	}
	j.TaskGroups[0].Count = 0
	j.TaskGroups[0].Networks[0].MBits = 10
	j.TaskGroups[0].Tasks[0].Resources.DiskMB = 10
	j.TaskGroups[0].Tasks[1].Resources.IOPS = 10
	want := []string{
		`group "g": network.mbits has no effect; bandwidth is not scheduled`,
		`group "g": count is 0, so nothing will run`,
		`group "g", task "t": resources.disk has no effect; use the group's ephemeral_disk`,
		`group "g", task "u": resources.iops has no effect`,
	}
	if diff := cmp.Diff(want, Warnings(j)); diff != "" {
		t.Error(diff)
	}
}

func joined(ps berth.Problems) string {
	var out []string
	for _, p := range ps {
		out = append(out, p.String())
	}
	return strings.Join(out, "; ")
}
