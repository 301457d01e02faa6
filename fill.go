package berth

import (
	"encoding"
	"encoding/base64"
	"fmt"
	"maps"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Fill decodes src over what dst points to and returns all that does not fit,
// each with its place. Absent and null leave what dst holds, which is how
// defaults and the values of a parent come in; zero is zero. Field names match
// without regard to case. path names dst in errors, in job-file words.
//
// A name that dst has no field for is a problem if its value says something;
// null, false, 0, "" and empty objects and lists say nothing, and newer
// clients send such for what we do not know.
func Fill(dst any, src Tree, path string) Problems {
	d := decoder{}
	d.structure(reflect.ValueOf(dst).Elem(), src, path)
	return d.problems
}

// decoder fills values from trees. With loose set it converts between strings,
// numbers and bools as HCL does.
type decoder struct {
	problems Problems
	loose    bool
}

// field is one field of a struct as trees and job files name it.
type field struct {
	index []int
	file  string // the name in a job file, and in errors
	label bool   // a block's label

	inline bool // a job file has its fields among those of the struct around it
}

var fieldsOf sync.Map // reflect.Type → map[string]field, by lower-case name

// fields returns the fields of a struct type, those of embedded structs
// included, by their names in lower case.
func fields(t reflect.Type) map[string]field {
	if m, ok := fieldsOf.Load(t); ok {
		return m.(map[string]field)
	}
	m := map[string]field{}
	for _, f := range reflect.VisibleFields(t) {
		if !f.IsExported() || f.Anonymous || f.Tag.Get("json") == "-" {
			continue
		}
		name, label := FileName(f)
		m[strings.ToLower(f.Name)] = field{f.Index, name, label, Inline(f)}
	}
	fieldsOf.Store(t, m)
	return m
}

// Inline says whether a job file has the fields of this field's struct among
// those of the struct around it.
func Inline(f reflect.StructField) bool { return f.Tag.Get("hcl") == ",inline" }

// FileName returns the name that a job file gives the field of a block, and
// whether it is the block's label. Without a tag it is the field's name in
// snake case. "-" is a field that has no name in a job file.
func FileName(f reflect.StructField) (name string, label bool) {
	if Inline(f) {
		return "-", false
	}
	tag := f.Tag.Get("hcl")
	name, rest, _ := strings.Cut(tag, ",")
	if name == "" {
		name = snake(f.Name)
	}
	return name, rest == "label"
}

// snake turns MaxFileSizeMB into max_file_size_mb.
func snake(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		upper := c >= 'A' && c <= 'Z'
		if upper && i > 0 {
			lowerBefore := s[i-1] >= 'a' && s[i-1] <= 'z'
			lowerAfter := i+1 < len(s) && s[i+1] >= 'a' && s[i+1] <= 'z'
			if lowerBefore || lowerAfter {
				b.WriteByte('_')
			}
		}
		if upper {
			c += 'a' - 'A'
		}
		b.WriteByte(c)
	}
	return b.String()
}

// blockDefaults are what a block starts from when its text says nothing more.
var blockDefaults = map[reflect.Type]any{
	reflect.TypeFor[Affinity]():            Affinity{Operand: OpEqual, Weight: 50},
	reflect.TypeFor[Constraint]():          Constraint{Operand: OpEqual},
	reflect.TypeFor[Spread]():              Spread{Weight: 50},
	reflect.TypeFor[EphemeralDisk]():       EphemeralDisk{SizeMB: 300},
	reflect.TypeFor[LogConfig]():           LogConfig{MaxFiles: 10, MaxFileSizeMB: 10},
	reflect.TypeFor[Resources]():           Resources{CPU: 100, MemoryMB: 300},
	reflect.TypeFor[UpdateStrategy]():      defaultUpdate(),
	reflect.TypeFor[MigrateStrategy]():     defaultMigrate(),
	reflect.TypeFor[DisconnectStrategy]():  DisconnectStrategy{Replace: true, Reconcile: KeepBestScore},
	reflect.TypeFor[RequestedDevice]():     RequestedDevice{Count: 1},
	reflect.TypeFor[NUMAResource]():        NUMAResource{Affinity: NUMANone},
	reflect.TypeFor[PeriodicConfig]():      PeriodicConfig{Enabled: true, SpecType: "cron", TimeZone: "UTC"},
	reflect.TypeFor[ParameterizedConfig](): ParameterizedConfig{Payload: PayloadOptional},
	reflect.TypeFor[ScalingPolicy]():       ScalingPolicy{Enabled: true},
	reflect.TypeFor[Template]():            Template{ChangeMode: "restart", Perms: "0644", LeftDelim: "{{", RightDelim: "}}", Splay: 5 * time.Second},
	reflect.TypeFor[Vault]():               Vault{Env: true, ChangeMode: "restart"},
	reflect.TypeFor[VolumeMount]():         VolumeMount{PropagationMode: "private"},
	reflect.TypeFor[Service]():             Service{AddressMode: AddressAuto, OnUpdate: OnUpdateRequireHealthy},
	reflect.TypeFor[CheckRestart]():        CheckRestart{Grace: defaultGrace},
	reflect.TypeFor[StreamSpec]():          defaultStream(),
	reflect.TypeFor[StreamGroup]():         defaultStreamGroup(),
	reflect.TypeFor[HostPoolSpec]():        HostPoolSpec{Mode: PoolShared},
	reflect.TypeFor[RegionSpec]():          RegionSpec{Width: 1},
	reflect.TypeFor[StreamEdge]():          StreamEdge{Distribution: DistributionBroadcast},
	reflect.TypeFor[ExportSpec]():          ExportSpec{AllowFilter: true, Congestion: CongestionWait},
	reflect.TypeFor[ImportSpec]():          ImportSpec{Scope: DefaultScope},
	reflect.TypeFor[TaskConnectivity]():    TaskConnectivity{ChangeMode: ConnectivityNoop},
}

// IsBlock says whether values of the type are blocks with fields of their own.
func isBlock(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t != reflect.TypeFor[time.Time]()
}

func (d *decoder) structure(dst reflect.Value, src Tree, path string, skip ...string) {
	known := fields(dst.Type())
	spelt := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(src)) {
		v := src[name]
		lower := strings.ToLower(name)
		if other, twice := spelt[lower]; twice && known[lower].index != nil {
			d.problems.Addf(join(path, known[lower].file), "is there twice, as %q and %q", other, name)
			continue
		}
		spelt[lower] = name
		if v == nil || slices.ContainsFunc(skip, func(s string) bool { return strings.EqualFold(s, name) }) {
			continue
		}
		f, ok := known[lower]
		switch {
		case ok && f.inline:
			d.value(dst.FieldByIndex(f.index), v, path)
		case ok:
			d.value(dst.FieldByIndex(f.index), v, join(path, f.file))
		case says(v) && !obsolete[lower]:
			d.problems.Addf(join(path, clip(name, 64)), "there is no such field")
		}
	}
}

// obsolete are fields that older clients still send and that nothing follows
// from.
var obsolete = map[string]bool{
	"status": true, "statusdescription": true, "nomadtokenid": true, "consultoken": true, "vaulttoken": true,
	"regionalvaultnamespace": true,
}

// says reports whether a value carries any meaning.
func says(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case Number:
		f, err := strconv.ParseFloat(string(v), 64)
		return err != nil || f != 0
	case []any:
		return len(v) > 0
	case Tree:
		for _, x := range v {
			if says(x) {
				return true
			}
		}
		return false
	}
	return true
}

func (d *decoder) value(dst reflect.Value, src any, path string) {
	if src == nil {
		return
	}
	t := dst.Type()
	switch {
	case t == reflect.TypeFor[RawTree]():
		if tree, ok := src.(Tree); ok {
			dst.Set(reflect.ValueOf(RawTree(tree)))
		} else {
			d.mismatch(path, "an object", src)
		}
		return
	case t == reflect.TypeFor[time.Duration]():
		d.duration(dst, src, path)
		return
	case t.Kind() == reflect.Pointer:
		d.pointer(dst, src, path)
		return
	case dst.CanAddr() && dst.Addr().Type().Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		s, ok := d.text(src, path)
		if ok {
			if err := dst.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(s)); err != nil {
				d.problems.Addf(path, "%v", err)
			}
		}
		return
	}
	switch t.Kind() {
	case reflect.String:
		if s, ok := d.text(src, path); ok {
			dst.SetString(s)
		}
	case reflect.Bool:
		d.boolean(dst, src, path)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if n, ok := d.integer(src, path); ok {
			if dst.OverflowInt(n) {
				d.problems.Addf(path, "%d is out of range", n)
				return
			}
			dst.SetInt(n)
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		d.unsigned(dst, src, path)
	case reflect.Float64:
		if n, ok := src.(Number); ok {
			f, _ := strconv.ParseFloat(string(n), 64)
			dst.SetFloat(f)
			return
		}
		d.mismatch(path, "a number", src)
	case reflect.Slice:
		d.list(dst, src, path)
	case reflect.Map:
		d.mapping(dst, src, path)
	case reflect.Struct:
		if tree, ok := src.(Tree); ok {
			d.structure(dst, tree, path)
			return
		}
		d.mismatch(path, "an object", src)
	case reflect.Interface:
		dst.Set(reflect.ValueOf(plain(src)))
	default:
		panic("berth.Fill: no rule for " + t.String())
	}
}

func (d *decoder) mismatch(path, want string, src any) {
	d.problems.Addf(path, "%s is wanted, not %s", want, describe(src))
}

// describe names a value in an error without repeating all of it.
func describe(src any) string {
	switch v := src.(type) {
	case nil:
		return "null"
	case string:
		return strconv.Quote(clip(v, 40))
	case Number:
		return clip(string(v), 40)
	case bool:
		return strconv.FormatBool(v)
	case []any:
		return "a list"
	case Tree:
		return "an object"
	}
	return fmt.Sprintf("%T", src)
}

func (d *decoder) text(src any, path string) (string, bool) {
	switch v := src.(type) {
	case string:
		return v, true
	case Number:
		if d.loose {
			return string(v), true
		}
	case bool:
		if d.loose {
			return strconv.FormatBool(v), true
		}
	}
	d.mismatch(path, "a string", src)
	return "", false
}

func (d *decoder) boolean(dst reflect.Value, src any, path string) {
	switch v := src.(type) {
	case bool:
		dst.SetBool(v)
		return
	case string:
		if d.loose && (v == "true" || v == "false") {
			dst.SetBool(v == "true")
			return
		}
	}
	d.mismatch(path, "true or false", src)
}

// integer accepts whole numbers however they are written: 3, 3.0, 3e2.
func (d *decoder) integer(src any, path string) (int64, bool) {
	s, ok := src.(Number)
	if str, is := src.(string); is && d.loose {
		s, ok = Number(str), true
	}
	if !ok {
		d.mismatch(path, "a whole number", src)
		return 0, false
	}
	if n, err := strconv.ParseInt(string(s), 10, 64); err == nil {
		return n, true
	}
	// big.Rat would expand 1e999999; a float says first that it is too large.
	if f, err := strconv.ParseFloat(string(s), 64); err != nil || math.Abs(f) > 1<<63 || f != math.Trunc(f) {
		d.mismatch(path, "a whole number", src)
		return 0, false
	}
	r, ok := new(big.Rat).SetString(string(s))
	if !ok || !r.IsInt() || !r.Num().IsInt64() {
		d.mismatch(path, "a whole number", src)
		return 0, false
	}
	return r.Num().Int64(), true
}

func (d *decoder) unsigned(dst reflect.Value, src any, path string) {
	if s, ok := src.(Number); ok {
		if n, err := strconv.ParseUint(string(s), 10, 64); err == nil && !dst.OverflowUint(n) {
			dst.SetUint(n)
			return
		}
	}
	n, ok := d.integer(src, path)
	if !ok {
		return
	}
	if n < 0 || dst.OverflowUint(uint64(n)) {
		d.problems.Addf(path, "%d is out of range", n)
		return
	}
	dst.SetUint(uint64(n))
}

// duration accepts nanoseconds, and text such as "90s" or "1h30m".
func (d *decoder) duration(dst reflect.Value, src any, path string) {
	if s, ok := src.(string); ok {
		v, err := time.ParseDuration(s)
		if err != nil {
			d.problems.Addf(path, "%q is not a duration (such as \"90s\" or \"1h30m\")", clip(s, 40))
			return
		}
		dst.SetInt(int64(v))
		return
	}
	if _, ok := src.(Number); !ok {
		d.mismatch(path, "a duration (such as \"90s\")", src)
		return
	}
	if n, ok := d.integer(src, path); ok {
		dst.SetInt(n)
	}
}

// pointer fills the block that dst points to, making it if it is absent. What
// it points to so far may be shared with a parent, so it is copied first.
func (d *decoder) pointer(dst reflect.Value, src any, path string) {
	t := dst.Type().Elem()
	fresh := reflect.New(t)
	switch {
	case !dst.IsNil():
		fresh.Elem().Set(dst.Elem())
	case isBlock(t):
		setDefaults(fresh.Elem())
	}
	d.value(fresh.Elem(), src, path)
	dst.Set(fresh)
}

func setDefaults(v reflect.Value) {
	if def, ok := blockDefaults[v.Type()]; ok {
		v.Set(reflect.ValueOf(def))
	}
}

// list replaces what dst holds. An empty list is nil, so that equal values are
// equal however they were written.
func (d *decoder) list(dst reflect.Value, src any, path string) {
	t := dst.Type()
	if t.Elem().Kind() == reflect.Uint8 {
		s, ok := src.(string)
		if !ok {
			d.mismatch(path, "base64 text", src)
			return
		}
		b, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			d.problems.Addf(path, "is not base64: %v", err)
			return
		}
		dst.SetBytes(b)
		return
	}
	items, ok := src.([]any)
	if !ok {
		d.mismatch(path, "a list", src)
		return
	}
	if len(items) == 0 {
		dst.SetZero()
		return
	}
	out := reflect.MakeSlice(t, 0, len(items))
	for i, item := range items {
		v := reflect.New(t.Elem()).Elem()
		at := fmt.Sprintf("%s[%s]", path, itemName(item, i))
		if item == nil {
			d.problems.Addf(at, "is null")
			continue
		}
		if isBlock(v.Type()) {
			setDefaults(v)
		}
		d.value(v, item, at)
		out = reflect.Append(out, v)
	}
	dst.Set(out)
}

// itemName is the name of a list's item if it has one, else its place.
func itemName(item any, i int) string {
	if tree, ok := item.(Tree); ok {
		for _, key := range []string{"Name", "Label"} {
			if s, ok := tree[key].(string); ok && s != "" {
				return clip(s, 64)
			}
		}
	}
	return strconv.Itoa(i)
}

// mapping replaces what dst holds; an empty map is nil.
func (d *decoder) mapping(dst reflect.Value, src any, path string) {
	tree, ok := src.(Tree)
	if !ok {
		d.mismatch(path, "an object", src)
		return
	}
	if len(tree) == 0 {
		dst.SetZero()
		return
	}
	t := dst.Type()
	out := reflect.MakeMapWithSize(t, len(tree))
	for _, k := range slices.Sorted(maps.Keys(tree)) {
		v := reflect.New(t.Elem()).Elem()
		at := fmt.Sprintf("%s[%s]", path, clip(k, 64))
		if isBlock(v.Type()) {
			setDefaults(v)
		}
		if tree[k] == nil && t.Elem().Kind() != reflect.Interface {
			d.problems.Addf(at, "is null")
			continue
		}
		if tree[k] != nil {
			d.value(v, tree[k], at)
		}
		out.SetMapIndex(reflect.ValueOf(k).Convert(t.Key()), v)
	}
	dst.Set(out)
}

// plain turns a tree into the values that an any-typed field holds: strings,
// bools, int64, float64, []any and map[string]any.
func plain(src any) any {
	switch v := src.(type) {
	case Number:
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return n
		}
		f, _ := strconv.ParseFloat(string(v), 64)
		if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return int64(f) // 1e3 and 1000 are equal values
		}
		return f
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = plain(v[i])
		}
		return out
	case Tree:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[k] = plain(x)
		}
		return out
	}
	return src
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
