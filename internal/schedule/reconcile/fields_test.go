package reconcile

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"berth"

	"github.com/cockroachdb/datadriven"
)

// What becomes of a running allocation when one field of its job, group or
// task changes is listed in testdata, so that a new field shows up in the
// difference and is decided on.
func TestEveryField(t *testing.T) {
	datadriven.RunTest(t, "testdata/fields.golden", func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd != "fields" || len(d.CmdArgs) != 1 {
			d.Fatalf(t, "unknown directive: want fields job, group or task")
		}
		var out strings.Builder
		fieldsOf(&out, d.CmdArgs[0].Key)
		return out.String()
	})
}

func fieldsOf(out *strings.Builder, of string) {
	pick := func(j *berth.Job) reflect.Value {
		switch of {
		case "job":
			return reflect.ValueOf(j)
		case "group":
			return reflect.ValueOf(j.TaskGroups[0])
		}
		return reflect.ValueOf(j.TaskGroups[0].Tasks[0])
	}
	for f := range pick(sample()).Elem().Type().Fields() {
		old, new := sample(), sample()
		if f.Name == "TaskGroups" { // other groups do not matter to one
			continue
		}
		change(pick(new).Elem().FieldByIndex(f.Index))
		verdict := "in place"
		if mustReplace(old, old.TaskGroups[0], new, new.TaskGroups[0]) {
			verdict = "replaced"
		}
		fmt.Fprintf(out, "%-26s %s\n", f.Name, verdict)
	}
}

func sample() *berth.Job {
	return &berth.Job{ID: "web", TaskGroups: []*berth.TaskGroup{{
		Name: "g", Count: 1, Tasks: []*berth.Task{{Name: "task", Driver: "mock_driver", Resources: &berth.Resources{CPU: 100}}},
	}}}
}

// change makes a value another one.
func change(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(v.Uint() + 1)
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Pointer:
		fresh := reflect.New(v.Type().Elem())
		if !v.IsNil() {
			fresh.Elem().Set(v.Elem())
		}
		change(fresh.Elem())
		v.Set(fresh)
	case reflect.Struct:
		change(v.Field(0))
	case reflect.Slice:
		item := reflect.New(v.Type().Elem()).Elem()
		change(item)
		v.Set(reflect.Append(v, item))
	case reflect.Map:
		item := reflect.New(v.Type().Elem()).Elem()
		change(item)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("x").Convert(v.Type().Key()), item)
	case reflect.Interface:
		v.Set(reflect.ValueOf("x"))
	default:
		panic(v.Type().String())
	}
}
