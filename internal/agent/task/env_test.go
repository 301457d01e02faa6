package task

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"berth"
	"berth/internal/admit"
	"berth/internal/agent/driver"
	"berth/internal/agent/driver/mock"
	"berth/internal/agent/driver/raw"
	"berth/internal/decode"
	"berth/internal/saferoot"
	"berth/op"
)

func sampleAlloc(t testing.TB, tasks string) *op.Alloc {
	t.Helper()
	tree, err := decode.ParseJSON([]byte(`{"ID":"web-job","Name":"Web","Meta":{"owner":"job","a.b":"dotted"},"TaskGroups":[{"Name":"g","Count":5,
		"Meta":{"owner":"group","dc":"in ${node.datacenter}"},
		"Networks":[{"DynamicPorts":[{"Label":"http"},{"Label":"my-port"}]}],
		"Tasks":[` + tasks + `]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	job, err := admit.DecodeJob(tree, admit.FromJSON)
	if err != nil {
		t.Fatal(err)
	}
	id, _ := berth.ParseID[berth.Alloc]("0a1b2c3d-0000-4000-8000-00000000000f")
	return &op.Alloc{
		ID: id, Namespace: "team", Name: "web-job.g[3]", JobID: job.ID, Job: job, TaskGroup: "g",
		AllocatedResources: &op.AllocatedResources{
			Tasks: map[string]*op.AllocatedTask{"app": {Cpu: op.AllocatedCPU{CpuShares: 250}, Memory: op.AllocatedMemory{MemoryMB: 128, MemoryMaxMB: 256}}},
			Shared: op.AllocatedShared{Ports: []berth.PortMapping{
				{Label: "http", Value: 23456, HostIP: "127.0.0.1"}, {Label: "my-port", Value: 23457, To: 80, HostIP: "::1"},
			}},
		},
	}
}

func samplePlace() *Place {
	id, _ := berth.ParseID[berth.Node]("11111111-2222-4333-8444-555555555555")
	return &Place{
		AllocDir: "/data/alloc/x", Region: "global", Cgroup: "berth.slice",
		Host: HostEnv([]string{"PATH=/bin", "HOME=/root", "LC_ALL=C", "AWS_SECRET=x", "NOMAD_TOKEN=y", "BERTH_TOKEN=z", "LD_PRELOAD=evil.so"}),
		Node: &berth.Node{
			ID: id, Name: "n1", Datacenter: "dc9", NodeClass: "big", NodePool: "default",
			Attributes: map[string]string{"cpu.arch": "amd64", "kernel.name": "linux"}, Meta: map[string]string{"rack": "r1"},
		},
	}
}

func TestEnvironmentIsTheDocumentedOne(t *testing.T) {
	a := sampleAlloc(t, `{"Name":"app","Driver":"raw_exec","Config":{"command":"/bin/true"},"Meta":{"owner":"task","version":"v${NOMAD_ALLOC_INDEX}"},
		"Env":{"ADDR":"${NOMAD_ADDR_http}","RACK":"${meta.rack}","HOME":"/tmp","NOMAD_ALLOC_ID":"forged","LATE":"${ADDR}","SHELLY":"${HOSTNAME} $HOME"}}`)
	got := Environment(a, a.Job.TaskGroups[0].Tasks[0], samplePlace())
	want := `ADDR=127.0.0.1:23456
HOME=/tmp
LATE=${ADDR}
LC_ALL=C
NOMAD_ADDR_app_http=127.0.0.1:23456
NOMAD_ADDR_app_my-port=[::1]:80
NOMAD_ADDR_app_my_port=[::1]:80
NOMAD_ADDR_http=127.0.0.1:23456
NOMAD_ADDR_my-port=[::1]:80
NOMAD_ADDR_my_port=[::1]:80
NOMAD_ALLOC_DIR=/data/alloc/x/alloc
NOMAD_ALLOC_ID=0a1b2c3d-0000-4000-8000-00000000000f
NOMAD_ALLOC_INDEX=3
NOMAD_ALLOC_NAME=web-job.g[3]
NOMAD_CPU_LIMIT=250
NOMAD_DC=dc9
NOMAD_GROUP_NAME=g
NOMAD_HOST_ADDR_app_http=127.0.0.1:23456
NOMAD_HOST_ADDR_app_my-port=[::1]:23457
NOMAD_HOST_ADDR_app_my_port=[::1]:23457
NOMAD_HOST_ADDR_http=127.0.0.1:23456
NOMAD_HOST_ADDR_my-port=[::1]:23457
NOMAD_HOST_ADDR_my_port=[::1]:23457
NOMAD_HOST_IP_app_http=127.0.0.1
NOMAD_HOST_IP_app_my-port=::1
NOMAD_HOST_IP_app_my_port=::1
NOMAD_HOST_IP_http=127.0.0.1
NOMAD_HOST_IP_my-port=::1
NOMAD_HOST_IP_my_port=::1
NOMAD_HOST_PORT_app_http=23456
NOMAD_HOST_PORT_app_my-port=23457
NOMAD_HOST_PORT_app_my_port=23457
NOMAD_HOST_PORT_http=23456
NOMAD_HOST_PORT_my-port=23457
NOMAD_HOST_PORT_my_port=23457
NOMAD_IP_app_http=127.0.0.1
NOMAD_IP_app_my-port=::1
NOMAD_IP_app_my_port=::1
NOMAD_IP_http=127.0.0.1
NOMAD_IP_my-port=::1
NOMAD_IP_my_port=::1
NOMAD_JOB_ID=web-job
NOMAD_JOB_NAME=Web
NOMAD_MEMORY_LIMIT=128
NOMAD_MEMORY_MAX_LIMIT=256
NOMAD_META_A_B=dotted
NOMAD_META_DC=in dc9
NOMAD_META_OWNER=task
NOMAD_META_VERSION=v3
NOMAD_META_a_b=dotted
NOMAD_META_dc=in dc9
NOMAD_META_owner=task
NOMAD_META_version=v3
NOMAD_NAMESPACE=team
NOMAD_PARENT_CGROUP=berth.slice
NOMAD_PORT_app_http=23456
NOMAD_PORT_app_my-port=80
NOMAD_PORT_app_my_port=80
NOMAD_PORT_http=23456
NOMAD_PORT_my-port=80
NOMAD_PORT_my_port=80
NOMAD_REGION=global
NOMAD_SECRETS_DIR=/data/alloc/x/app/secrets
NOMAD_SHORT_ALLOC_ID=0a1b2c3d
NOMAD_TASK_DIR=/data/alloc/x/app/local
NOMAD_TASK_NAME=app
PATH=/bin
RACK=r1
SHELLY=${HOSTNAME} $HOME
TMPDIR=/data/alloc/x/app/tmp`
	lines := list(got)
	sort.Strings(lines)
	wanted := strings.Split(want, "\n")
	sort.Strings(wanted)
	for _, l := range lines {
		if i := sort.SearchStrings(wanted, l); i == len(wanted) || wanted[i] != l {
			t.Errorf("not wanted: %s", l)
		}
	}
	for _, l := range wanted {
		if i := sort.SearchStrings(lines, l); i == len(lines) || lines[i] != l {
			t.Errorf("missing: %s", l)
		}
	}
}

// A task finds its own ports by their plain labels, and those of others by task.
func TestPortsOfTasksAreInTheirEnvironment(t *testing.T) {
	a := sampleAlloc(t, `{"Name":"app","Driver":"docker","Config":{"image":"x","port_map":[{"db":5432}]},"Resources":{"Networks":[{"DynamicPorts":[{"Label":"http"},{"Label":"db"}]}]}},
		{"Name":"side","Driver":"raw_exec","Config":{"command":"x"},"Resources":{"Networks":[{"DynamicPorts":[{"Label":"http"}]}]}}`)
	network := func(ports ...berth.Port) *op.AllocatedTask {
		return &op.AllocatedTask{Networks: []berth.NetworkResource{{IP: "10.1.1.1", DynamicPorts: ports}}}
	}
	a.AllocatedResources.Tasks["app"] = network(berth.Port{Label: "http", Value: 30001}, berth.Port{Label: "db", Value: 30002})
	a.AllocatedResources.Tasks["side"] = network(berth.Port{Label: "http", Value: 30003})
	tasks := a.Job.TaskGroups[0].Tasks
	for _, c := range []struct {
		task *berth.Task
		want map[string]string
	}{
		{tasks[0], map[string]string{
			"NOMAD_PORT_http": "30001", "NOMAD_IP_http": "10.1.1.1", "NOMAD_ADDR_http": "10.1.1.1:30001", "NOMAD_ADDR_side_http": "10.1.1.1:30003",
			"NOMAD_PORT_app_http": "30001", "NOMAD_PORT_db": "5432", "NOMAD_HOST_PORT_db": "30002", "NOMAD_PORT_my_port": "80",
		}},
		{tasks[1], map[string]string{
			"NOMAD_PORT_http": "30003", "NOMAD_ADDR_app_http": "10.1.1.1:30001", "NOMAD_HOST_ADDR_app_db": "10.1.1.1:30002", "NOMAD_PORT_db": "",
			"NOMAD_ADDR_my_port": "[::1]:80",
		}},
	} {
		env := Environment(a, c.task, samplePlace())
		for k, want := range c.want {
			if env[k] != want {
				t.Errorf("task %s: %s is %q, want %q", c.task.Name, k, env[k], want)
			}
		}
	}
}

func TestInterpolation(t *testing.T) {
	p := samplePlace()
	n := Names{Node: p.Node, Region: "eu", Env: map[string]string{"A": "1", "dotted.name": "2", "odd...name": "3", "SELF": "${A}", "kernel": "4"}}
	for in, want := range map[string]string{
		"":                                 "",
		"plain $A $(A) {A}":                "plain $A $(A) {A}",
		"${A}":                             "1",
		"x${A}${A}y":                       "x11y",
		"${node.unique.id}":                "11111111-2222-4333-8444-555555555555",
		"${node.datacenter}/${node.class}": "dc9/big",
		"${node.unique.name} ${node.pool} ${node.region}":      "n1 default eu",
		"${attr.cpu.arch}-${meta.rack}":                        "amd64-r1",
		`${env["odd...name"]}${env["A"]}`:                      "31",
		"${dotted.name}":                                       "2",
		"${attr.no.such} ${meta.no} ${NO_SUCH} ${env[\"no\"]}": "${attr.no.such} ${meta.no} ${NO_SUCH} ${env[\"no\"]}",
		"${node.secret} ${node.unique.secret}":                 "${node.secret} ${node.unique.secret}",
		"${SELF}":                                              "${A}", // once
		"${A":                                                  "${A",
		"${":                                                   "${",
		"${}":                                                  "${}",
		"${${A}}":                                              "${${A}}", // the name is "${A", which stands for nothing
		`${env["A`:                                             `${env["A`,
		"$${A}":                                                "$1",
		"${VAR:-x}":                                            "${VAR:-x}", // a shell's
	} {
		if got := n.Replace(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
	v := n.Value(map[string]any{"${A}": "${A}", "l": []any{"${A}", int64(5), []byte("${A}")}, "m": map[string]any{"x": true, "y": []string{"${A}"}}})
	if got := fmt.Sprint(v); got != "map[${A}:1 l:[1 5 1] m:map[x:true y:[1]]]" {
		t.Errorf("%s", got)
	}
}

func FuzzReplace(f *testing.F) {
	n := Names{Node: samplePlace().Node, Env: map[string]string{"A": "1"}}
	for _, s := range []string{"${A}", "${env[\"A\"]}", "${${", "${node.unique.id}", "$${}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := n.Replace(s)
		if !strings.Contains(s, "${") && got != s {
			t.Errorf("%q became %q", s, got)
		}
	})
}

func prepared(t *testing.T, a *op.Alloc, task int, d driver.Driver) (*attempt, string, error) {
	t.Helper()
	path := t.TempDir()
	root, err := saferoot.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	place := samplePlace()
	place.AllocDir = path
	tk := a.Job.TaskGroups[0].Tasks[task]
	at := &attempt{alloc: a, task: tk, place: place, driver: d, names: Names{Node: place.Node}, out: &driver.Task{Name: tk.Name, AllocDir: root}}
	return at, path, at.prepare(t.Context())
}

func TestHooksMakeAStart(t *testing.T) {
	a := sampleAlloc(t, `{"Name":"app","Driver":"raw_exec","User":"${meta.user}","Config":{"command":"/bin/${attr.kernel.name}","args":["${NOMAD_PORT_http}","${env[\"X\"]}"]},
		"Env":{"X":"y"},"LogConfig":{"MaxFiles":3,"MaxFileSizeMB":2}}`)
	_, _, err := prepared(t, a, 0, raw.New(raw.Config{Enabled: true}))
	if err == nil || !strings.Contains(err.Error(), "${meta.user}") {
		t.Fatalf("a user that stands for nothing: %v", err)
	}
	a.Job.TaskGroups[0].Tasks[0].User = ""
	at, path, err := prepared(t, a, 0, raw.New(raw.Config{Enabled: true}))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(at.out.Config, at.out.Logs); got != "map[args:[23456 y] command:/bin/linux] {false 3 2097152}" {
		t.Errorf("%s", got)
	}
	for p, want := range map[string]string{
		"alloc": "drwxr-xr-x", "alloc/data": "drwxrwxrwx", "alloc/logs": "drwxr-xr-x", "alloc/tmp": "dtrwxrwxrwx",
		"app": "drwx--x--x", "app/local": "drwxr-xr-x", "app/secrets": "drwx------", "app/tmp": "drwx------",
	} {
		if st, err := os.Lstat(filepath.Join(path, p)); err != nil || st.Mode().String() != want {
			t.Errorf("%s is %v, %v; want %s", p, st.Mode(), err, want)
		}
	}
}

// S-24, C45: whatever a server sent.
func TestAdvisory_C45_HostileTaskNamesAreRefused(t *testing.T) {
	for _, name := range []string{
		"", ".", "..", "alloc", "Alloc", "ALLOC", ".supervise", ".Supervise", "a/b", "../x", "/etc", "a\\b", "a\x00", "a\nb", "tésk", "аlloc", // with a Cyrillic a
		" x", "x ", strings.Repeat("x", 129), "\u202ex",
	} {
		a := sampleAlloc(t, `{"Name":"app","Driver":"mock_driver"}`)
		a.Job.TaskGroups[0].Tasks[0].Name = name
		if _, path, err := prepared(t, a, 0, mock.New(true)); berth.KindOf(err) != berth.Invalid {
			t.Errorf("%q: %v", name, err)
		} else if made, _ := os.ReadDir(path); len(made) > 0 {
			t.Errorf("%q: made %v", name, made)
		}
	}
	a := sampleAlloc(t, `{"Name":"app","Driver":"mock_driver"},{"Name":"other","Driver":"mock_driver"}`)
	a.Job.TaskGroups[0].Tasks[1].Name = "APP"
	if _, _, err := prepared(t, a, 0, mock.New(true)); err == nil {
		t.Error("twins but for case were taken")
	}
}

func TestWhatIsNotBuiltIsRefusedByName(t *testing.T) {
	a := sampleAlloc(t, `{"Name":"app","Driver":"mock_driver"}`)
	tk := a.Job.TaskGroups[0].Tasks[0]
	tk.Consul = &berth.Consul{}
	tk.Vault = &berth.Vault{}
	_, _, err := prepared(t, a, 0, mock.New(true))
	for _, want := range []string{"consul", "vault"} {
		if err == nil || !strings.Contains(err.Error(), "task[app]."+want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	a = sampleAlloc(t, `{"Name":"app","Driver":"mock_driver"}`)
	if _, _, err := prepared(t, a, 0, nil); err == nil || !strings.Contains(err.Error(), `driver "mock_driver" is not one`) {
		t.Errorf("%v", err)
	}
}

// C37: what interpolation makes of a value is checked as if it had been there.
func TestAdvisory_C37_InterpolatedValuesAreChecked(t *testing.T) {
	for _, user := range []string{"../root", "a:b", "a b", "a\x00", strings.Repeat("u", 200)} {
		a := sampleAlloc(t, `{"Name":"app","Driver":"mock_driver","User":"${NOMAD_META_u}"}`)
		a.Job.Meta = map[string]string{"u": user}
		if _, _, err := prepared(t, a, 0, mock.New(true)); berth.KindOf(err) != berth.Invalid {
			t.Errorf("user %q: %v", user, err)
		}
	}
	a := sampleAlloc(t, `{"Name":"app","Driver":"raw_exec","Config":{"command":"/bin/true","work_dir":"${NOMAD_META_w}"}}`)
	a.Job.Meta = map[string]string{"w": "../../etc"}
	at, _, err := prepared(t, a, 0, raw.New(raw.Config{Enabled: true}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := raw.New(raw.Config{Enabled: true}).Start(t.Context(), at.out); err == nil || !strings.Contains(err.Error(), "work_dir") {
		t.Errorf("work_dir: %v", err)
	}
}

// C28: a directory that a task of the allocation put a link in place of is not
// followed by the hooks of the next start.
func TestDirectoriesAreNotMadeThroughLinks(t *testing.T) {
	outside := t.TempDir()
	for _, p := range []string{"alloc", "alloc/logs", "app", "app/local", "app/secrets"} {
		a := sampleAlloc(t, `{"Name":"app","Driver":"mock_driver"}`)
		at, path, err := prepared(t, a, 0, mock.New(true))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.RemoveAll(filepath.Join(path, p)), os.Symlink(outside, filepath.Join(path, p))); err != nil {
			t.Fatal(err)
		}
		if err := at.prepare(t.Context()); err == nil {
			t.Errorf("%s: a link was taken for a directory", p)
		}
	}
	if made, _ := os.ReadDir(outside); len(made) > 0 {
		t.Errorf("made outside: %v", made)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	at := &attempt{}
	if err := at.prepare(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled start went on: %v", err)
	}
}
