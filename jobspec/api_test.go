package jobspec

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"berth/internal/admit"
	"berth/internal/decode"

	"github.com/hashicorp/nomad/api"
	"golang.org/x/tools/txtar"

	"berth"
)

// The public client's structs say what a job file may hold: their hcl tags name
// each attribute, block and label. Ours must name the same.
func TestFileNames(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var walk func(ours, theirs reflect.Type)
	walk = func(ours, theirs reflect.Type) {
		if seen[ours] {
			return
		}
		seen[ours] = true
		s := shapeOf(ours)
		names := map[string]bool{}
		for f := range theirs.Fields() {
			tag, ok := f.Tag.Lookup("hcl")
			name, kind, _ := strings.Cut(tag, ",")
			if !ok || !f.IsExported() || name == "-" {
				continue
			}
			switch where := fmt.Sprintf("%s.%s %q", theirs.Name(), f.Name, tag); {
			case kind == "label":
				if ours == reflect.TypeFor[berth.VolumeRequest]() {
					continue // the key of its map
				}
				if s.label == nil || s.label.key != f.Name {
					t.Errorf("%s is a label; ours is %v", where, s.label)
				}
			case s.fields[name] == nil:
				t.Errorf("%s is not in %s", where, ours)
			case s.fields[name].key != f.Name:
				t.Errorf("%s is %s.%s with us", where, ours, s.fields[name].key)
			default:
				names[name] = true
				slot := s.fields[name]
				if (kind == "block") != (slot.form != attribute) && slot.form != textMap && slot.form != freeMap {
					t.Errorf("%s is form %d with us", where, slot.form)
				}
				if slot.elem != nil {
					walk(slot.elem, structOf(f.Type))
				}
			}
		}
		for _, name := range s.names {
			if !names[name] && s.fields[name].within == "" && !oursAlone[ours.Name()+"."+name] {
				t.Errorf("%s.%s is %q in a job file, which the client's %s does not know", ours, s.fields[name].key, name, theirs.Name())
			}
		}
	}
	walk(reflect.TypeFor[berth.Job](), reflect.TypeFor[api.Job]())
	if len(seen) < 30 {
		t.Errorf("only %d structs were compared", len(seen))
	}
}

// oursAlone are words that job files have with us only, beside the blocks of
// stream jobs.
var oursAlone = map[string]bool{"MigrateStrategy.start_first": true, "Task.connectivity": true, "Template.rolling": true, "TaskGroup.depends_on": true, "TaskGroup.once": true}

func structOf(t reflect.Type) reflect.Type {
	for t.Kind() != reflect.Struct {
		t = t.Elem()
	}
	return t
}

// Every field of the client's job means the same to us: a job with all fields
// set reads without a problem, and says the same in our JSON.
func TestClientJobReads(t *testing.T) {
	var theirs api.Job
	fill(reflect.ValueOf(&theirs).Elem(), 0)
	tree := treeFrom(t, theirs)

	var ours berth.Job
	for _, p := range admit.Fill(&ours, tree, "job") {
		t.Error(p)
	}
	back := treeFrom(t, ours)
	same(t, "job", tree, back)
}

// obsolete is what the client still sends and nothing follows from.
var obsolete = map[string]bool{"Status": true, "StatusDescription": true, "NomadTokenID": true}

// same wants all that theirs says in ours.
func same(t *testing.T, path string, theirs, ours any) {
	switch a := theirs.(type) {
	case decode.Tree:
		b, _ := ours.(decode.Tree)
		for k, v := range a {
			if !obsolete[k] {
				same(t, path+"."+k, v, b[k])
			}
		}
	case []any:
		b, _ := ours.([]any)
		if len(a) != len(b) {
			t.Errorf("%s: %d items, ours has %d", path, len(a), len(b))
			return
		}
		for i := range a {
			same(t, fmt.Sprintf("%s[%d]", path, i), a[i], b[i])
		}
	default:
		if !reflect.DeepEqual(theirs, ours) {
			t.Errorf("%s: %v, ours has %v", path, theirs, ours)
		}
	}
}

func treeFrom(t *testing.T, v any) decode.Tree {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := decode.ParseJSON(b)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// fill sets everything that v holds.
func fill(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(7)
	case reflect.Float64:
		v.SetFloat(1.5)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth+1)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		e := reflect.New(v.Type().Elem()).Elem()
		fill(e, depth+1)
		v.SetMapIndex(reflect.ValueOf("key"), e)
	case reflect.Interface:
		v.Set(reflect.ValueOf("anything"))
	case reflect.Struct:
		for f := range v.Type().Fields() {
			if f.IsExported() && f.Tag.Get("json") != "-" {
				fill(v.FieldByIndex(f.Index), depth+1)
			}
		}
	default:
		panic(v.Type().String())
	}
}

// A job that we decoded reads in the client with equal values.
func TestOurJobReadsInClient(t *testing.T) {
	text, err := os.ReadFile("testdata/complete.txt")
	if err != nil {
		t.Fatal(err)
	}
	arc := txtar.Parse(text)
	ours, err := Parse(context.Background(), File{"web.nomad", arc.Files[0].Data}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(ours)
	if err != nil {
		t.Fatal(err)
	}
	var theirs api.Job
	d := json.NewDecoder(bytes.NewReader(bytes.Replace(b, []byte(`,"UID":""`), nil, 1))) // UID is ours alone
	d.DisallowUnknownFields()
	if err := d.Decode(&theirs); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	if *theirs.ID != "web" || *theirs.TaskGroups[0].Count != 3 || theirs.TaskGroups[0].Tasks[0].KillTimeout.String() != "30s" {
		t.Errorf("the client reads %+v", theirs)
	}
	same(t, "job", nonZero(treeFrom(t, ours)), treeFrom(t, theirs))
}

// nonZero leaves out what is zero: the client omits some of it.
func nonZero(tree decode.Tree) decode.Tree {
	for k, v := range tree {
		switch v := v.(type) {
		case decode.Tree:
			nonZero(v)
		case []any:
			for _, x := range v {
				if inner, is := x.(decode.Tree); is {
					nonZero(inner)
				}
			}
			if len(v) == 0 {
				delete(tree, k)
			}
		case nil:
			delete(tree, k)
		case string:
			if v == "" {
				delete(tree, k)
			}
		case bool:
			if !v {
				delete(tree, k)
			}
		case decode.Number:
			if v == "0" {
				delete(tree, k)
			}
		}
	}
	return tree
}

// A job built with the client decodes; one that the client has canonicalized
// does too, but for the blocks it adds that this build does not run.
func TestClientBuiltJob(t *testing.T) {
	build := func() *api.Job {
		task := api.NewTask("app", "raw_exec").SetConfig("command", "/bin/true").SetConfig("args", []string{"-a"}).
			Require(&api.Resources{CPU: new(500), MemoryMB: new(64)}).Constrain(api.NewConstraint("${attr.kernel.name}", "=", "linux"))
		task.Env = map[string]string{"A": "b"}
		group := api.NewTaskGroup("web", 3).AddTask(task).SetMeta("k", "v")
		group.RestartPolicy = &api.RestartPolicy{Attempts: new(1)}
		group.Networks = []*api.NetworkResource{{DynamicPorts: []api.Port{{Label: "http", To: 80}}}}
		return api.NewServiceJob("web", "web", "global", 60).AddDatacenter("dc1").AddTaskGroup(group)
	}
	job, err := admit.DecodeJob(treeFrom(t, build()), admit.FromJSON)
	if err != nil {
		t.Fatal(err)
	}
	g := job.TaskGroups[0]
	if job.Priority != 60 || g.Count != 3 || g.RestartPolicy.Attempts != 1 || g.RestartPolicy.Delay != 15*time.Second ||
		g.Tasks[0].Resources.CPU != 500 || g.Networks[0].DynamicPorts[0].To != 80 || g.Tasks[0].Constraints[0].RTarget != "linux" {
		t.Errorf("got %+v", job)
	}

	canonical := build()
	canonical.Canonicalize()
	_, err = admit.DecodeJob(treeFrom(t, canonical), admit.FromJSON)
	ps, _ := errors.AsType[berth.Problems](err)
	for _, p := range ps {
		if !strings.HasSuffix(p.Path, ".update") && !strings.HasSuffix(p.Path, ".migrate") {
			t.Error(p)
		}
	}
}
