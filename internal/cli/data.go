package cli

import (
	"context"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"text/template"
	"time"

	"berth"
	"berth/client"
	"berth/op"
)

// dataFlags are the flags for machine-readable output.
type dataFlags struct {
	json     *bool
	template *string
}

// data declares -json and -t. Their action must call check before it calls a
// server.
func (f *flags) data() dataFlags {
	return dataFlags{
		f.Bool("json", "Print the API response as JSON."),
		f.String("t", "Format the API response with this Go `template`. Field names are those of -json."),
	}
}

// wanted reports whether data was asked for instead of text.
func (d dataFlags) wanted() bool { return *d.json || *d.template != "" }

// check rejects -json together with -t.
func (d dataFlags) check(c *call) error {
	if *d.json && *d.template != "" {
		return c.usagef("-json and -t cannot be used together")
	}
	return nil
}

// write prints v in the format that was asked for.
func (d dataFlags) write(c *call, v any) error {
	// Templates see plain values; JSON is the API's own.
	if *d.json {
		return c.json(v)
	}
	t, err := template.New("-t").Option("missingkey=default").Parse(*d.template)
	if err != nil {
		return c.usagef("-t: %s", templateFault(err))
	}
	var out strings.Builder
	if err := t.Execute(&out, plain(reflect.ValueOf(v))); err != nil {
		return c.usagef("-t: %s", templateFault(err))
	}
	_, err = fmt.Fprintln(c.Out, out.String())
	return err
}

// answer is the action of a command that prints one value: as data if that was
// asked for, otherwise with show.
func answer[T any](data dataFlags, read func(context.Context, *call) (T, error), show func(*call, *page, T)) action {
	return func(ctx context.Context, c *call) error {
		if err := data.check(c); err != nil {
			return err
		}
		v, err := read(ctx, c)
		if err != nil {
			return err
		}
		if data.wanted() {
			return data.write(c, v)
		}
		p := c.page()
		show(c, p, v)
		return c.show(p)
	}
}

// reading is the read function of an operation whose input is always the same.
func reading[In, Out any](o op.Op[In, Out], in In) func(context.Context, *call) (Out, error) {
	return func(ctx context.Context, c *call) (Out, error) {
		out, _, err := client.Call(ctx, c.client, o, in)
		return out, err
	}
}

// json prints a value as indented JSON.
func (c *call) json(v any) error {
	enc := json.NewEncoder(c.Out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "    ")
	return enc.Encode(v)
}

// noField matches the error of package text/template for an unknown field.
var noField = regexp.MustCompile(`can't evaluate field (\w+)`)

// templateFault describes an error in a template. The text of the library would
// print the whole type that lacks a field.
func templateFault(err error) string {
	if m := noField.FindStringSubmatch(err.Error()); m != nil {
		return fmt.Sprintf("unknown field %q; -json shows the available fields", m[1])
	}
	if place, ok := strings.CutPrefix(err.Error(), "template: -t:"); ok {
		return "line " + place
	}
	return strings.TrimPrefix(err.Error(), "template: ")
}

// plain returns v in the form that templates written for Nomad's command line
// expect: IDs and statuses are strings, because templates compare them with
// strings; times and durations are Go's; numbers are int64 or float64. Structs
// stay structs, so that an unknown field is an error.
func plain(v reflect.Value) any {
	if !v.IsValid() {
		return nil
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		return plain(v.Elem())
	}
	// Types with a text of their own come before their kind.
	switch x := v.Interface().(type) {
	case time.Time, time.Duration, []byte:
		return x
	case berth.UID:
		return x.Text('j')
	case encoding.TextMarshaler:
		text, _ := x.MarshalText()
		return string(text)
	}
	switch v.Kind() {
	case reflect.Struct:
		return plainStruct(v)
	case reflect.Map:
		return plainMap(v)
	case reflect.Slice, reflect.Array:
		out := make([]any, v.Len())
		for i := range out {
			out[i] = plain(v.Index(i))
		}
		return out
	case reflect.String:
		return v.String()
	case reflect.Bool:
		return v.Bool()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return int64(v.Uint())
	case reflect.Float32, reflect.Float64:
		return v.Float()
	}
	return v.Interface()
}

// plainMap is plain for maps. Keys become text, as in JSON.
func plainMap(v reflect.Value) any {
	if v.Type().Elem().Kind() == reflect.String { // a missing key then reads as ""
		return v.Interface()
	}
	out := make(map[string]any, v.Len())
	for it := v.MapRange(); it.Next(); {
		out[fmt.Sprint(plain(it.Key()))] = plain(it.Value())
	}
	return out
}

// plainTypes keeps the types that plainStruct makes: reflect.StructOf is slow,
// and lists have many rows of one type.
var plainTypes sync.Map // reflect.Type → reflect.Type

// plainStruct copies a struct into one with the same field names, of type any.
func plainStruct(v reflect.Value) any {
	fields := visible(v.Type())
	t, ok := plainTypes.Load(v.Type())
	if !ok {
		list := make([]reflect.StructField, len(fields))
		for i, f := range fields {
			list[i] = reflect.StructField{Name: f.Name, Type: reflect.TypeFor[any]()}
		}
		t, _ = plainTypes.LoadOrStore(v.Type(), reflect.StructOf(list))
	}
	out := reflect.New(t.(reflect.Type)).Elem()
	for i, f := range fields {
		x, err := v.FieldByIndexErr(f.Index)
		if err != nil {
			continue // promoted from a nil pointer
		}
		if p := plain(x); p != nil {
			out.Field(i).Set(reflect.ValueOf(p))
		}
	}
	return out.Interface()
}

// visible are the fields of a struct that JSON includes.
func visible(t reflect.Type) (out []reflect.StructField) {
	seen := map[string]bool{}
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous || !f.IsExported() || f.Tag.Get("json") == "-" || seen[f.Name] {
			continue
		}
		seen[f.Name] = true
		out = append(out, f)
	}
	return out
}
