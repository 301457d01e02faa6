package diff

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"berth"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// drawJob is a job with anything in any field, whether it makes sense or not,
// but for names that must differ.
func drawJob(t *rapid.T) *berth.Job {
	j := &berth.Job{}
	fill(t, reflect.ValueOf(j).Elem(), 0)
	j.ID = "web"
	for i, g := range j.TaskGroups {
		g.Name = fmt.Sprint("g", i)
		for k, task := range g.Tasks {
			task.Name = fmt.Sprint("t", k)
		}
	}
	return j
}

func fill(t *rapid.T, v reflect.Value, depth int) {
	some := func(of int) bool { return rapid.IntRange(0, of).Draw(t, "some") == 0 }
	switch v.Kind() {
	case reflect.String:
		v.SetString(rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "text"))
	case reflect.Bool:
		v.SetBool(some(1))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(rapid.IntRange(0, 1).Draw(t, "number")))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(rapid.IntRange(0, 1).Draw(t, "number")))
	case reflect.Interface:
		values := []any{"1", int64(1), float64(1), true, nil, []any{"x", int64(2)}, map[string]any{"k": "v"}, []any{map[string]any{"k": int64(1)}}}
		if x := rapid.SampledFrom(values).Draw(t, "any"); x != nil {
			v.Set(reflect.ValueOf(x))
		}
	case reflect.Pointer:
		if some(1) {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem(), depth+1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && !unseen[v.Type()][f.Name] || f.Name == "Tasks" || f.Name == "TaskGroups" {
				fill(t, v.Field(i), depth+1)
			}
		}
	case reflect.Slice:
		for range rapid.IntRange(0, 2).Draw(t, "items") {
			item := reflect.New(v.Type().Elem()).Elem()
			if item.Kind() == reflect.Pointer {
				item.Set(reflect.New(item.Type().Elem()))
				fill(t, item.Elem(), depth+1)
			} else {
				fill(t, item, depth+1)
			}
			v.Set(reflect.Append(v, item))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for _, k := range []string{"k1", "k2"} {
			if some(1) {
				item := reflect.New(v.Type().Elem()).Elem()
				fill(t, item, depth+1)
				v.SetMapIndex(reflect.ValueOf(k).Convert(v.Type().Key()), item)
			}
		}
	default:
		panic(v.Type().String())
	}
}

// other is a job with one thing changed, somewhere, or the same one.
func other(t *rapid.T, j *berth.Job) *berth.Job {
	fresh := drawJob(t)
	out := *j
	swap(t, reflect.ValueOf(&out).Elem(), reflect.ValueOf(fresh).Elem())
	return &out
}

// swap takes one field from another value, at any depth.
func swap(t *rapid.T, v, from reflect.Value) {
	var fields []int
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; !unseen[v.Type()][name] || name == "TaskGroups" || name == "Tasks" {
			fields = append(fields, i)
		}
	}
	i := rapid.SampledFrom(fields).Draw(t, "field")
	f, x := v.Field(i), from.Field(i)
	deeper := rapid.IntRange(0, 3).Draw(t, "deeper") > 0
	switch {
	case deeper && f.Kind() == reflect.Pointer && !f.IsNil() && !x.IsNil() && f.Elem().Kind() == reflect.Struct:
		own := reflect.New(f.Type().Elem())
		own.Elem().Set(f.Elem())
		swap(t, own.Elem(), x.Elem())
		f.Set(own)
	case deeper && f.Kind() == reflect.Slice && f.Len() > 0 && x.Len() > 0 && reflect.Indirect(f.Index(0)).Kind() == reflect.Struct:
		list := reflect.MakeSlice(f.Type(), f.Len(), f.Len())
		reflect.Copy(list, f)
		own := reflect.New(reflect.Indirect(f.Index(0)).Type())
		own.Elem().Set(reflect.Indirect(f.Index(0)))
		swap(t, own.Elem(), reflect.Indirect(x.Index(0)))
		if f.Index(0).Kind() == reflect.Pointer {
			list.Index(0).Set(own)
		} else {
			list.Index(0).Set(own.Elem())
		}
		f.Set(list)
	default:
		f.Set(x)
	}
}

// Whatever changes shows, and nothing else; the difference is the same from
// the other side, in order, and the same again.
func TestTheTreeTellsAll(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		old := drawJob(t)
		new := old
		for range rapid.IntRange(0, 3).Draw(t, "changes") {
			new = other(t, new)
		}
		d := Jobs(old, new)
		seen[d.Type]++
		if same := Equal(old, new); same != (d.Type == None) {
			t.Fatalf("the job is %s, and these differ: %s\n%s", d.Type, show(Between(old, new)), cmp.Diff(&JobDiff{}, d))
		}
		if diff := cmp.Diff(d, Jobs(old, new)); diff != "" {
			t.Fatalf("again it is another: %s", diff)
		}
		if diff := cmp.Diff(side{}.job(d), side{true}.job(Jobs(new, old))); diff != "" {
			t.Fatalf("from the other side: %s", diff)
		}
		if d := Jobs(old, old); d.Type != None || len(d.Fields)+len(d.Objects) > 0 {
			t.Fatalf("it differs from itself: %s", cmp.Diff(&JobDiff{}, d))
		}
		if d := Jobs(nil, new); d.Type != Added || len(d.TaskGroups) != len(new.TaskGroups) {
			t.Fatalf("a new job is %s, with %d groups", d.Type, len(d.TaskGroups))
		}
		if d := Jobs(old, nil); d.Type != Deleted || d.ID != "web" {
			t.Fatalf("a job that went is %s %q", d.Type, d.ID)
		}
	})
	if seen[None] == 0 || seen[Edited] == 0 {
		t.Errorf("seen: %v", seen)
	}
}

// side tells a difference as text, in an order that is the same from both
// sides; with back set as it is seen from the other one.
type side struct{ back bool }

func (s side) job(d *JobDiff) string {
	out := s.block(d.Type, d.ID, d.Fields, d.Objects)
	for _, g := range d.TaskGroups {
		out += s.block(g.Type, g.Name, g.Fields, g.Objects)
		for _, t := range g.Tasks {
			out += s.block(t.Type, t.Name, t.Fields, t.Objects)
		}
	}
	return out
}

func (s side) block(kind, name string, fields []*FieldDiff, objects []*ObjectDiff) string {
	var lines []string
	for _, f := range fields {
		old, new := f.Old, f.New
		if s.back {
			old, new = new, old
		}
		lines = append(lines, fmt.Sprintf("%s %s %q %q\n", s.kind(f.Type), f.Name, old, new))
	}
	for _, o := range objects {
		lines = append(lines, s.block(o.Type, o.Name, o.Fields, o.Objects))
	}
	slices.Sort(lines)
	return s.kind(kind) + " " + name + " {\n" + strings.Join(lines, "") + "}\n"
}

func (s side) kind(k string) string {
	if s.back {
		return map[string]string{Added: Deleted, Deleted: Added, Edited: Edited, None: None}[k]
	}
	return k
}

// The names of blocks that file, field and API call by different names, and the
// shapes that lists and maps take.
func TestNamesInTheTree(t *testing.T) {
	old := &berth.Job{ID: "web", TaskGroups: []*berth.TaskGroup{{Name: "g", Tasks: []*berth.Task{{Name: "t"}}}}}
	uid := 5
	g := &berth.TaskGroup{
		Name: "g", Networks: []berth.NetworkResource{{ReservedPorts: []berth.Port{{Label: "a", Value: 80}}, DynamicPorts: []berth.Port{{Label: "b"}}}},
		Services: []berth.Service{{Name: "s", Checks: []berth.ServiceCheck{{Type: "http", Header: map[string][]string{"H": {"v"}}}}}},
		Volumes:  map[string]berth.VolumeRequest{"data": {Name: "data", Source: "disk"}},
		Scaling:  &berth.ScalingPolicy{Policy: map[string]any{"check": []any{map[string]any{"query": "q"}}}, ID: "x"},
		Spreads:  []berth.Spread{{Attribute: "a", SpreadTarget: []berth.SpreadTarget{{Value: "v", Percent: 50}}}}, ShutdownDelay: time.Second,
		Tasks: []*berth.Task{{
			Name: "t", Templates: []berth.Template{{DestPath: "d", Uid: &uid}}, Artifacts: []berth.TaskArtifact{{GetterOptions: map[string]string{"k": "v"}}},
			Identities: []berth.WorkloadIdentity{{Name: "i", Audience: []string{"aud"}}}, Resources: &berth.Resources{Devices: []berth.RequestedDevice{{Name: "gpu"}}},
		}},
	}
	new := &berth.Job{ID: "web", Meta: map[string]string{"k": ""}, Affinities: []berth.Affinity{{Weight: -5}}, TaskGroups: []*berth.TaskGroup{g}}
	var got []string
	for _, w := range paths(Jobs(old, new)) {
		if !strings.HasSuffix(w, `"0"`) && !strings.HasSuffix(w, `"false"`) {
			got = append(got, w)
		}
	}
	want := []string{
		`Meta[k] ""`, `Affinity.Weight "-5"`, `g.ShutdownDelay "1000000000"`, `g.Network.Dynamic Port.Label "b"`,
		`g.Network.Static Port.Label "a"`, `g.Network.Static Port.Value "80"`, `g.Scaling.Policy.check[0][query] "q"`,
		`g.Service.Name "s"`, `g.Service.Check.Type "http"`, `g.Service.Check.Header.H[0] "v"`, `g.Spread.Attribute "a"`,
		`g.Spread.SpreadTarget.Percent "50"`, `g.Spread.SpreadTarget.Value "v"`, `g.Volume.Name "data"`, `g.Volume.Source "disk"`,
		`g.t.Artifact.GetterOptions[k] "v"`, `g.t.Identity.Name "i"`, `g.t.Identity.Audience.Audience "aud"`,
		`g.t.Resources.Device.Name "gpu"`, `g.t.Template.DestPath "d"`, `g.t.Template.Uid "5"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// paths lists what is new, in words.
func paths(d *JobDiff) (out []string) {
	block := func(at string, fields []*FieldDiff, objects []*ObjectDiff) {
		var tell func(string, []*FieldDiff, []*ObjectDiff)
		tell = func(at string, fields []*FieldDiff, objects []*ObjectDiff) {
			for _, f := range fields {
				out = append(out, fmt.Sprintf("%s%s %q", at, f.Name, f.New))
			}
			for _, o := range objects {
				tell(at+o.Name+".", o.Fields, o.Objects)
			}
		}
		tell(at, fields, objects)
	}
	block("", d.Fields, d.Objects)
	for _, g := range d.TaskGroups {
		block(g.Name+".", g.Fields, g.Objects)
		for _, t := range g.Tasks {
			block(g.Name+"."+t.Name+".", t.Fields, t.Objects)
		}
	}
	return out
}
