package admit

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/decode"

	"github.com/google/go-cmp/cmp"
)

// The ways in which a level of a job can set a field that it could inherit.
type way string

const (
	noBlock way = "no block"
	absent  way = "absent" // the block is there and does not say
	null    way = "null"
	zero    way = "zero"
	set     way = "set"
)

var ways = []way{noBlock, absent, null, zero, set}

// say returns a block that sets the field in this way, or nil for no block.
func (w way) say(field string, value any) any {
	switch w {
	case noBlock:
		return nil
	case absent:
		return decode.Tree{}
	case null:
		return decode.Tree{field: nil}
	case zero:
		return decode.Tree{field: zeroOf(value)}
	}
	return decode.Tree{field: value}
}

func zeroOf(v any) any {
	switch v.(type) {
	case decode.Number:
		return decode.Number("0")
	case bool:
		return false
	}
	return ""
}

// inherited are the blocks that a level inherits from the one above it.
var inherited = []struct {
	upper, lower string // levels
	upperKey     string
	lowerKey     string
	pick         func(*berth.Job, string) any // the block of a level, as a struct or nil
	start        func(jobType string) any
}{
	{"group", "task", "RestartPolicy", "RestartPolicy",
		func(j *berth.Job, level string) any {
			if level == "group" {
				return deref(j.TaskGroups[0].RestartPolicy)
			}
			return deref(j.TaskGroups[0].Tasks[0].RestartPolicy)
		},
		func(typ string) any { return defaultRestart(typ) }},
	{"job", "group", "Reschedule", "ReschedulePolicy",
		func(j *berth.Job, level string) any {
			if level == "job" {
				return deref(j.Reschedule)
			}
			return deref(j.TaskGroups[0].ReschedulePolicy)
		},
		func(typ string) any { return deref(defaultReschedule(typ)) }},
	{"job", "group", "Update", "Update",
		func(j *berth.Job, level string) any {
			if level == "job" {
				return deref(j.Update)
			}
			return deref(j.TaskGroups[0].Update)
		},
		func(string) any { return defaultUpdate() }},
	{"job", "group", "Migrate", "Migrate",
		func(j *berth.Job, level string) any {
			if level == "job" {
				return deref(j.Migrate)
			}
			return deref(j.TaskGroups[0].Migrate)
		},
		func(string) any { return berth.DefaultMigrate() }},
}

func deref(p any) any {
	v := reflect.ValueOf(p)
	if v.IsNil() {
		return nil
	}
	return v.Elem().Interface()
}

// Every field of every inherited block is set in every way at both levels: a
// value that a level sets counts, zero included; all else is inherited.
func TestInheritance(t *testing.T) {
	for _, typ := range []string{berth.TypeService, berth.TypeBatch} {
		for _, b := range inherited {
			start := b.start(typ)
			for f := range reflect.TypeOf(start).Fields() {
				for _, up := range ways {
					for _, down := range ways {
						name := fmt.Sprintf("%s/%s.%s/%s %s/%s %s", typ, b.lowerKey, f.Name, b.upper, up, b.lower, down)
						t.Run(name, func(t *testing.T) {
							upper, upperGo := sample(f.Type, 7)
							lower, lowerGo := sample(f.Type, 9)
							j := levels(t, typ, b.upper, b.upperKey, up.say(f.Name, upper), b.lowerKey, down.say(f.Name, lower))

							above := apply(start, up, f.Name, upperGo)
							if up == noBlock && b.upper == "job" {
								above = nil // only a job that says something has the block
								if b.upperKey == "Update" && typ == berth.TypeService {
									above = start
								}
							}
							if up == noBlock && b.upper == "group" {
								above = start
							}
							if diff := cmp.Diff(above, b.pick(j, b.upper)); diff != "" {
								t.Errorf("%s: -want +got\n%s", b.upper, diff)
							}
							below := above
							if below == nil && (down != noBlock || b.lowerKey == "ReschedulePolicy") {
								below = start
							}
							if down != noBlock {
								below = apply(below, down, f.Name, lowerGo)
							}
							if diff := cmp.Diff(below, b.pick(j, b.lower)); diff != "" {
								t.Errorf("%s: -want +got\n%s", b.lower, diff)
							}
						})
					}
				}
			}
		}
	}
}

// apply states the rule.
func apply(from any, w way, field string, value any) any {
	out := reflect.New(reflect.TypeOf(from)).Elem()
	out.Set(reflect.ValueOf(from))
	switch f := out.FieldByName(field); w {
	case set:
		f.Set(reflect.ValueOf(value).Convert(f.Type()))
	case zero:
		f.SetZero()
	}
	return out.Interface()
}

// sample returns the value of a field in a tree and in the struct.
func sample(t reflect.Type, n int) (tree, value any) {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		d := time.Duration(n) * time.Minute
		return decode.Number(fmt.Sprint(int64(d))), d
	case t.Kind() == reflect.Bool:
		return true, true
	case t.Kind() == reflect.String:
		return fmt.Sprintf("text%d", n), fmt.Sprintf("text%d", n)
	}
	return decode.Number(fmt.Sprint(n)), n
}

// levels decodes a job with one group and one task, with a block at two levels.
func levels(t *testing.T, typ, upper, upperKey string, upperBlock any, lowerKey string, lowerBlock any) *berth.Job {
	t.Helper()
	task := decode.Tree{"Name": "t"}
	group := decode.Tree{"Name": "g", "Tasks": []any{task}}
	job := decode.Tree{"ID": "j", "Type": typ, "TaskGroups": []any{group}}
	if upper == "job" {
		job[upperKey], group[lowerKey] = upperBlock, lowerBlock
	} else {
		group[upperKey], task[lowerKey] = upperBlock, lowerBlock
	}
	d := newDecoder(FromJSON)
	j := d.job(job)
	if len(d.Problems) > 0 {
		t.Fatal(d.Problems)
	}
	return j
}

// A child's block is a copy: neither its parent nor its siblings see its values.
func TestInheritanceSharesNothingWritable(t *testing.T) {
	d := newDecoder(FromJSON)
	j := d.job(decode.Tree{
		"ID": "j", "Type": berth.TypeBatch,
		"Reschedule": decode.Tree{"Attempts": decode.Number("5")},
		"TaskGroups": []any{
			decode.Tree{"Name": "a", "ReschedulePolicy": decode.Tree{"Attempts": decode.Number("6")}, "RestartPolicy": decode.Tree{"Attempts": decode.Number("7")}, "Tasks": []any{
				decode.Tree{"Name": "x", "RestartPolicy": decode.Tree{"Attempts": decode.Number("8")}},
				decode.Tree{"Name": "y"},
			}},
			decode.Tree{"Name": "b"},
		},
	})
	a, b := j.TaskGroups[0], j.TaskGroups[1]
	got := []int{
		j.Reschedule.Attempts, a.ReschedulePolicy.Attempts, b.ReschedulePolicy.Attempts,
		a.RestartPolicy.Attempts, b.RestartPolicy.Attempts, a.Tasks[0].RestartPolicy.Attempts, a.Tasks[1].RestartPolicy.Attempts,
	}
	if diff := cmp.Diff([]int{5, 6, 5, 7, 3, 8, 7}, got); diff != "" {
		t.Error(diff)
	}
}

func TestDefaults(t *testing.T) {
	j := mustDecode(t, `{"ID": "j", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "raw_exec", "Config": {"command": "/bin/true"}}]}]}`)
	service := defaultReschedule(berth.TypeService)
	restart, update := defaultRestart(berth.TypeService), defaultUpdate()
	want := &berth.Job{
		ID: "j", Name: "j", Region: "global", Namespace: "default", Type: "service", Priority: 50,
		Datacenters: []string{"*"}, NodePool: "default", Update: &update,
		TaskGroups: []*berth.TaskGroup{{
			Name: "g", Count: 1, RestartPolicy: &restart, ReschedulePolicy: service, EphemeralDisk: &berth.EphemeralDisk{SizeMB: 300}, Update: &update,
			Tasks: []*berth.Task{{
				Name: "t", Driver: "raw_exec", Config: map[string]any{"command": "/bin/true"}, RestartPolicy: &restart,
				KillTimeout: 5 * time.Second, Resources: &berth.Resources{CPU: 100, MemoryMB: 300}, LogConfig: &berth.LogConfig{MaxFiles: 10, MaxFileSizeMB: 10},
			}},
		}},
	}
	if diff := cmp.Diff(want, j); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// Blocks with defaults keep them for fields that are not set.
func TestBlockDefaults(t *testing.T) {
	tests := []struct {
		name, task string
		want       any
		got        func(*berth.Task) any
	}{
		{"resources, memory said", `"Resources": {"MemoryMB": 64}`, berth.Resources{CPU: 100, MemoryMB: 64}, func(t *berth.Task) any { return *t.Resources }},
		{"resources null", `"Resources": null`, berth.Resources{CPU: 100, MemoryMB: 300}, func(t *berth.Task) any { return *t.Resources }},
		{"resources zero", `"Resources": {"CPU": 0, "MemoryMB": 0}`, berth.Resources{}, func(t *berth.Task) any { return *t.Resources }},
		{"cores stand for cpu", `"Resources": {"Cores": 2}`, berth.Resources{Cores: 2, MemoryMB: 300}, func(t *berth.Task) any { return *t.Resources }},
		{"cores null is absent", `"Resources": {"Cores": null}`, berth.Resources{CPU: 100, MemoryMB: 300}, func(t *berth.Task) any { return *t.Resources }},
		{"cores and cpu", `"Resources": {"Cores": 2, "CPU": 500}`, berth.Resources{Cores: 2, CPU: 500, MemoryMB: 300}, func(t *berth.Task) any { return *t.Resources }},
		{"logs, files said", `"LogConfig": {"MaxFiles": 1}`, berth.LogConfig{MaxFiles: 1, MaxFileSizeMB: 10}, func(t *berth.Task) any { return *t.LogConfig }},
		{"logs not enabled", `"LogConfig": {"Enabled": false}`, berth.LogConfig{MaxFiles: 10, MaxFileSizeMB: 10, Disabled: true}, func(t *berth.Task) any { return *t.LogConfig }},
		{"logs enabled", `"LogConfig": {"Enabled": true}`, berth.LogConfig{MaxFiles: 10, MaxFileSizeMB: 10}, func(t *berth.Task) any { return *t.LogConfig }},
		{"kill timeout zero", `"KillTimeout": 0`, time.Duration(0), func(t *berth.Task) any { return t.KillTimeout }},
		{"kill timeout null", `"KillTimeout": null`, 5 * time.Second, func(t *berth.Task) any { return t.KillTimeout }},
		{"constraint", `"Constraints": [{"LTarget": "${attr.a}", "RTarget": "b"}]`,
			[]berth.Constraint{{LTarget: "${attr.a}", RTarget: "b", Operand: "="}}, func(t *berth.Task) any { return t.Constraints }},
		{"affinity", `"Affinities": [{"LTarget": "${attr.a}", "RTarget": "b"}]`,
			[]berth.Affinity{{LTarget: "${attr.a}", RTarget: "b", Operand: "=", Weight: 50}}, func(t *berth.Task) any { return t.Affinities }},
		{"template", `"Templates": [{"DestPath": "x", "Splay": 0}]`,
			[]berth.Template{{DestPath: "x", ChangeMode: "restart", Perms: "0644", LeftDelim: "{{", RightDelim: "}}"}}, func(t *berth.Task) any { return t.Templates }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tree, err := decode.ParseJSON([]byte(`{"ID": "j", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", ` + tt.task + `}]}]}`))
			if err != nil {
				t.Fatal(err)
			}
			d := newDecoder(FromJSON)
			j := d.job(tree)
			if len(d.Problems) > 0 {
				t.Fatal(d.Problems)
			}
			if diff := cmp.Diff(tt.want, tt.got(j.TaskGroups[0].Tasks[0])); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestGroupDefaults(t *testing.T) {
	tests := []struct {
		name, group string
		want        any
		got         func(*berth.TaskGroup) any
	}{
		{"count absent", ``, 1, func(g *berth.TaskGroup) any { return g.Count }},
		{"count null", `, "Count": null`, 1, func(g *berth.TaskGroup) any { return g.Count }},
		{"count zero", `, "Count": 0`, 0, func(g *berth.TaskGroup) any { return g.Count }},
		{"count from scaling", `, "Scaling": {"Min": 3, "Max": 5}`, 3, func(g *berth.TaskGroup) any { return g.Count }},
		{"count beats scaling", `, "Count": 4, "Scaling": {"Min": 3}`, 4, func(g *berth.TaskGroup) any { return g.Count }},
		{"disk, sticky said", `, "EphemeralDisk": {"Sticky": true}`, berth.EphemeralDisk{Sticky: true, SizeMB: 300}, func(g *berth.TaskGroup) any { return *g.EphemeralDisk }},
		{"disk zero", `, "EphemeralDisk": {"SizeMB": 0}`, berth.EphemeralDisk{}, func(g *berth.TaskGroup) any { return *g.EphemeralDisk }},
		{"empty meta is none", `, "Meta": {}`, map[string]string(nil), func(g *berth.TaskGroup) any { return g.Meta }},
		{"network mode", `, "Networks": [{}]`, []berth.NetworkResource{{Mode: "host"}}, func(g *berth.TaskGroup) any { return g.Networks }},
		{"ports by number", `, "Networks": [{"Mode": "", "DynamicPorts": [{"Label": "a", "Value": 80}, {"Label": "b"}], "ReservedPorts": [{"Label": "c"}, {"Label": "d", "Value": 81}]}]`,
			[]berth.NetworkResource{{Mode: "host", ReservedPorts: []berth.Port{{Label: "d", Value: 81}, {Label: "a", Value: 80}}, DynamicPorts: []berth.Port{{Label: "c"}, {Label: "b"}}}},
			func(g *berth.TaskGroup) any { return g.Networks }},
		{"disconnect", `, "Disconnect": {"LostAfter": 1000000000}`, berth.DisconnectStrategy{LostAfter: time.Second, Replace: true, Reconcile: "best_score"},
			func(g *berth.TaskGroup) any { return *g.Disconnect }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tree, err := decode.ParseJSON([]byte(`{"ID": "j", "TaskGroups": [{"Name": "g"` + tt.group + `}]}`))
			if err != nil {
				t.Fatal(err)
			}
			d := newDecoder(FromJSON)
			j := d.job(tree)
			if len(d.Problems) > 0 {
				t.Fatal(d.Problems)
			}
			if diff := cmp.Diff(tt.want, tt.got(j.TaskGroups[0])); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// All problems of decoding and of validation are returned at once.
func TestAllProblemsAtOnce(t *testing.T) {
	tree, err := decode.ParseJSON([]byte(`{"ID": "", "Priority": "x", "Nope": 1, "TaskGroups": [5, {"Name": "g", "Count": -1, "Tasks": [null, {"Name": "t", "Driver": ""}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	_, err = DecodeJob(tree, FromJSON)
	if berth.KindOf(err) != berth.Invalid {
		t.Fatalf("kind %q", berth.KindOf(err))
	}
	for _, want := range []string{
		`job.Nope: unknown field`,
		`job.priority: must be an integer, got "x"`,
		`job.group[0]: must be an object, got 5`,
		`job.group[g].task[0]: must be an object, got`,
		`job.id: is missing: want the ID of the job`,
		`job.group[g].count: must be 0 to 50000, got -1`,
		`job.group[g].task[t].driver: is missing`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("lacks %q:\n%v", want, err)
		}
	}
}

func mustDecode(t testing.TB, text string) *berth.Job {
	t.Helper()
	tree, err := decode.ParseJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	j, err := DecodeJob(tree, FromJSON)
	if err != nil {
		t.Fatal(err)
	}
	return j
}
