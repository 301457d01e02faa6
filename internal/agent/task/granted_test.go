package task

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
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
			g.Volumes = map[string]berth.VolumeRequest{"v": {Type: "nfs", Source: "certs"}}
		}, `group[g].volume[v].type: "nfs" is not supported by this agent: must be host or csi`},
	} {
		a := sampleAlloc(t, `{"Name":"app","Driver":"mock_driver"}`)
		c.spoil(a.Job.TaskGroups[0], a.Job.TaskGroups[0].Tasks[0])
		place := samplePlace()
		place.Node.HostVolumes = map[string]berth.HostVolumeInfo{"certs": {Path: "/etc", ReadOnly: true}}
		at := &attempt{alloc: a, task: a.Job.TaskGroups[0].Tasks[0], place: place, driver: mock.New(true)}
		at.out = &driver.Task{Name: "app"}
		err := errors.Join(checkGranted(t.Context(), at), checkVolumes(t.Context(), at))
		switch {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// mounter is a driver that mounts volumes.
type mounter struct{ driver.Driver }

func (mounter) Capabilities() driver.Capabilities {
	return driver.Capabilities{Isolation: driver.Isolated, Mounts: true}
}

// A mount is as read-only as the strictest of node, group and task, and a
// volume of each instance is that of its number.
func TestVolumesAreMounted(t *testing.T) {
	a := sampleAlloc(t, `{"Name":"app","Driver":"mock_driver"}`)
	g := a.Job.TaskGroups[0]
	certs, data := t.TempDir(), t.TempDir()
	g.Volumes = map[string]berth.VolumeRequest{"c": {Type: "host", Source: "certs", ReadOnly: true}, "d": {Type: "host", Source: "data", PerAlloc: true}}
	place := samplePlace()
	place.Node.HostVolumes = map[string]berth.HostVolumeInfo{"certs": {Path: certs, ReadOnly: true}, "data[3]": {Path: data}}
	at := &attempt{alloc: a, task: g.Tasks[0], place: place, driver: mounter{mock.New(true)}, out: &driver.Task{Name: "app"}, names: Names{Env: map[string]string{"NOMAD_TASK_DIR": "/local"}}}
	mount := func(m ...berth.VolumeMount) error {
		g.Tasks[0].VolumeMounts = m
		if err := checkVolumes(t.Context(), at); err != nil {
			return err
		}
		return makeMounts(t.Context(), at)
	}
	err := mount(berth.VolumeMount{Volume: "c", Destination: "/etc/certs/"}, berth.VolumeMount{Volume: "d", Destination: "srv"},
		berth.VolumeMount{Volume: "d", Destination: "${NOMAD_TASK_DIR}/d", ReadOnly: true, PropagationMode: "host-to-task"})
	want := []driver.Mount{
		{Source: certs, Destination: "/etc/certs", ReadOnly: true, Propagation: "private"},
		{Source: data, Destination: "/srv", Propagation: "private"},
		{Source: data, Destination: "/local/d", ReadOnly: true, Propagation: "host-to-task"},
	}
	if err != nil || !reflect.DeepEqual(at.out.Mounts, want) {
		t.Errorf("%+v, %v; want %+v", at.out.Mounts, err, want)
	}
	for want, m := range map[string]berth.VolumeMount{
		`the group has no volume "x"`:                           {Volume: "x", Destination: "/srv"},
		`must be a path without .. and NUL, got "/srv/../../x"`: {Volume: "d", Destination: "/srv/../../x"},
		`must be a path below /, got "/"`:                       {Volume: "d", Destination: "/"},
		`must be private, host-to-task or bidirectional`:        {Volume: "d", Destination: "/srv", PropagationMode: "shared"},
		`the driver mock_driver sets no labels`:                 {Volume: "d", Destination: "/srv", SELinuxLabel: "z"},
	} {
		if err := mount(m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", m, err, want)
		}
	}
	place.Node.HostVolumes["data[3]"] = berth.HostVolumeInfo{Path: data + "/gone"}
	if err := mount(berth.VolumeMount{Volume: "d", Destination: "/srv"}); err == nil || !strings.Contains(err.Error(), "its directory cannot be used") {
		t.Errorf("%v", err)
	}
}

// A CSI volume that is attached as a block device is a device of the task, at the
// destination of its mount; what only reads may not write. What is no block device is
// refused, as is a link to one.
func TestBlockDevicesAreDevicesOfTheTask(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making devices needs root")
	}
	dir := t.TempDir()
	disk := filepath.Join(dir, "disk")
	err := errors.Join(syscall.Mknod(disk, syscall.S_IFBLK|0o600, 7<<8), syscall.Mknod(filepath.Join(dir, "tty"), syscall.S_IFCHR|0o600, 5<<8),
		os.Symlink(disk, filepath.Join(dir, "link")), os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	a := sampleAlloc(t, `{"Name":"app","Driver":"mock_driver"}`)
	g := a.Job.TaskGroups[0]
	g.Volumes = map[string]berth.VolumeRequest{
		"w": {Type: "csi", Source: "disk", AttachmentMode: berth.AttachBlock}, "r": {Type: "csi", Source: "disk", AttachmentMode: berth.AttachBlock, ReadOnly: true},
	}
	for name, c := range map[string]struct {
		at    string // below dir
		mount berth.VolumeMount
		want  driver.Device
		fails string
	}{
		"writer":           {"disk", berth.VolumeMount{Volume: "w", Destination: "/dev/xvda"}, driver.Device{Source: disk, Destination: "/dev/xvda", Permissions: "rw"}, ""},
		"reader":           {"disk", berth.VolumeMount{Volume: "r", Destination: "dev/xvda/"}, driver.Device{Source: disk, Destination: "/dev/xvda", Permissions: "r"}, ""},
		"read-only mount":  {"disk", berth.VolumeMount{Volume: "w", Destination: "/x", ReadOnly: true}, driver.Device{Source: disk, Destination: "/x", Permissions: "r"}, ""},
		"nothing":          {"gone", berth.VolumeMount{Volume: "w", Destination: "/x"}, driver.Device{}, `volume "disk": its device cannot be used`},
		"file":             {"file", berth.VolumeMount{Volume: "w", Destination: "/x"}, driver.Device{}, "is not a block device"},
		"link":             {"link", berth.VolumeMount{Volume: "w", Destination: "/x"}, driver.Device{}, "is not a block device"},
		"character device": {"tty", berth.VolumeMount{Volume: "w", Destination: "/x"}, driver.Device{}, "is not a block device"},
		"directory":        {".", berth.VolumeMount{Volume: "w", Destination: "/x"}, driver.Device{}, "is not a block device"},
		"leads out":        {"disk", berth.VolumeMount{Volume: "w", Destination: "/dev/../../x"}, driver.Device{}, "must be a path without .."},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, c.at)
			at := &attempt{alloc: a, task: g.Tasks[0], place: samplePlace(), driver: mounter{mock.New(true)}, out: &driver.Task{Name: "app"}, csi: map[string]string{"w": path, "r": path}}
			g.Tasks[0].VolumeMounts = []berth.VolumeMount{c.mount}
			err := makeMounts(t.Context(), at)
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("%v; want %q", err, c.fails)
				}
				return
			}
			if err != nil || !slices.Equal(at.out.Devices, []driver.Device{c.want}) || len(at.out.Mounts) > 0 {
				t.Errorf("devices %+v, mounts %+v, %v; want %+v", at.out.Devices, at.out.Mounts, err, c.want)
			}
		})
	}
}

// A task finds its directories where its driver puts them, and nothing of the
// host's environment reaches an image.
func TestDirectoriesAreWhereTheTaskFindsThem(t *testing.T) {
	a := sampleAlloc(t, `{"Name":"app","Driver":"mock_driver","Env":{"WHERE":"${NOMAD_SECRETS_DIR}/key"}}`)
	for isolation, want := range map[driver.Isolation]string{
		"":                    "/allocs/a/alloc /allocs/a/app/local /allocs/a/app/secrets /allocs/a/app/tmp /usr/bin /allocs/a/app/secrets/key",
		driver.NoIsolation:    "/allocs/a/alloc /allocs/a/app/local /allocs/a/app/secrets /allocs/a/app/tmp /usr/bin /allocs/a/app/secrets/key",
		driver.Isolated:       "/alloc /local /secrets /tmp /usr/bin /secrets/key",
		driver.ImageIsolation: "/alloc /local /secrets   /secrets/key",
	} {
		place := samplePlace()
		place.AllocDir, place.Host, place.Isolation = "/allocs/a", map[string]string{"PATH": "/usr/bin"}, isolation
		env := Environment(a, a.Job.TaskGroups[0].Tasks[0], place)
		var got []string
		for _, name := range []string{"NOMAD_ALLOC_DIR", "NOMAD_TASK_DIR", "NOMAD_SECRETS_DIR", "TMPDIR", "PATH", "WHERE"} {
			got = append(got, env[name])
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("isolation %q: %s, want %s", isolation, s, want)
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
