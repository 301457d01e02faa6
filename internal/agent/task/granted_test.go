package task

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/driver/mock"
)

func TestEnvironmentTellsOfCoresAndHostNetworks(t *testing.T) {
	a := sampleAlloc(t, `{"Name":"app","Driver":"mock_driver"}`)
	given := a.AllocatedResources.Tasks["app"]
	given.Cpu.CpuShares, given.Cpu.ReservedCores, given.Memory.MemoryMaxMB = 9000, []uint16{14, 0, 1, 2, 7, 12, 13}, 0
	a.AllocatedResources.Shared.Ports = []berth.PortMapping{
		{Label: "http", Value: 23456, HostIP: "203.0.113.7"}, {Label: "admin", Value: 23457, To: 80, HostIP: "fd00::1"},
	}
	env := Environment(a, a.Job.TaskGroups[0].Tasks[0], samplePlace())
	for name, want := range map[string]string{
		"NOMAD_CPU_CORES": "0-2,7,12-14", "NOMAD_CPU_LIMIT": "9000", "NOMAD_MEMORY_LIMIT": "128", "NOMAD_MEMORY_MAX_LIMIT": "",
		"NOMAD_IP_http": "203.0.113.7", "NOMAD_ADDR_http": "203.0.113.7:23456", "NOMAD_HOST_ADDR_http": "203.0.113.7:23456",
		"NOMAD_HOST_IP_admin": "fd00::1", "NOMAD_ADDR_admin": "[fd00::1]:80", "NOMAD_HOST_ADDR_admin": "[fd00::1]:23457",
		"NOMAD_ADDR_app_admin": "[fd00::1]:80",
	} {
		if env[name] != want {
			t.Errorf("%s=%q, want %q", name, env[name], want)
		}
	}
	given.Cpu.ReservedCores = nil
	if v, ok := Environment(a, a.Job.TaskGroups[0].Tasks[0], samplePlace())["NOMAD_CPU_CORES"]; ok {
		t.Errorf("NOMAD_CPU_CORES=%q without cores", v)
	}
}

// What servers did not give, or this node does not have, is told by its name.
func TestWhatTheNodeCannotGiveIsRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(g *berth.TaskGroup, t *berth.Task)
		want  string
	}{
		{"nothing", func(*berth.TaskGroup, *berth.Task) {}, ""},
		{"devices", func(_ *berth.TaskGroup, t *berth.Task) {
			t.Resources.Devices = []berth.RequestedDevice{{Name: "gpu", Count: 1}}
		},
			`task[app].resources.device: the task needs "gpu", and this agent has no devices`},
		{"cores", func(_ *berth.TaskGroup, t *berth.Task) { t.Resources.Cores = 2 }, `task[app].resources.cores: the task needs 2, and servers gave it 0`},
		{"a mount", func(_ *berth.TaskGroup, t *berth.Task) { t.VolumeMounts = []berth.VolumeMount{{Volume: "certs"}} },
			`task[app].volume_mount: "certs" cannot be mounted: the driver mock_driver mounts no volumes`},
		{"a volume of the host", func(g *berth.TaskGroup, _ *berth.Task) {
			g.Volumes = map[string]berth.VolumeRequest{"v": {Type: "host", Source: "certs", ReadOnly: true}}
		}, ""},
		{"one that is read-only", func(g *berth.TaskGroup, _ *berth.Task) {
			g.Volumes = map[string]berth.VolumeRequest{"v": {Type: "host", Source: "certs"}}
		}, `group[g].volume[v].read_only: must be true: the host volume "certs" is read-only on this node`},
		{"one that is elsewhere", func(g *berth.TaskGroup, _ *berth.Task) {
			g.Volumes = map[string]berth.VolumeRequest{"v": {Type: "host", Source: "data"}}
		}, `group[g].volume[v].source: there is no host volume "data" on this node`},
		{"one of a plugin", func(g *berth.TaskGroup, _ *berth.Task) {
			g.Volumes = map[string]berth.VolumeRequest{"v": {Type: "csi", Source: "certs"}}
		}, `group[g].volume[v].type: "csi" is not supported by this agent: must be host`},
	} {
		a := sampleAlloc(t, `{"Name":"app","Driver":"mock_driver"}`)
		c.spoil(a.Job.TaskGroups[0], a.Job.TaskGroups[0].Tasks[0])
		place := samplePlace()
		place.Node.HostVolumes = map[string]berth.HostVolumeInfo{"certs": {Path: "/etc", ReadOnly: true}}
		at := &attempt{alloc: a, task: a.Job.TaskGroups[0].Tasks[0], place: place, driver: mock.New(true)}
		at.out = &driver.Task{Name: "app"}
		err := checkGranted(t.Context(), at)
		switch {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// A note is in the history once, however often it is told, and only before the
// first start.
func TestANoteIsToldOnce(t *testing.T) {
	spec, now := &Spec{}, time.Unix(1000, 0)
	s, _ := Step(spec, State{}, Begin{}, now, 0)
	if !s.Begun.Equal(now) {
		t.Errorf("begun at %v", s.Begun)
	}
	noted, do := Step(spec, s, Note{berth.EventWaiting, "for others"}, now, 0)
	if len(do) != 0 || noted.Task.Events[len(noted.Task.Events)-1].DisplayMessage != "for others" {
		t.Errorf("%+v, %v", noted, do)
	}
	if again, _ := Step(spec, noted, Note{berth.EventWaiting, "for others"}, now, 0); !reflect.DeepEqual(again, noted) {
		t.Errorf("%+v", again.Task.Events)
	}
	started, _ := Step(spec, noted, Prepared{}, now, 0)
	if late, _ := Step(spec, started, Note{berth.EventWaiting, "for others"}, now, 0); !reflect.DeepEqual(late, started) {
		t.Errorf("%+v", late.Task.Events)
	}
	// Recorded by a release that did not keep it.
	old := State{Phase: Running, Task: berth.TaskState{StartedAt: time.Unix(500, 0)}}
	if s, _ := Step(spec, old, Restore{}, now, 0); !s.Begun.Equal(time.Unix(500, 0)) {
		t.Errorf("begun at %v", s.Begun)
	}
}
