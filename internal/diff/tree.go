package diff

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"berth/internal/decode"

	"berth"
)

// The kinds of a difference.
const (
	None    = "None" // stands there so that what differs beside it can be read
	Added   = "Added"
	Deleted = "Deleted"
	Edited  = "Edited"
)

// JobDiff is what differs between two versions of a job, in the shape of the
// HTTP API. Everything is in order of name.
type JobDiff struct {
	Type       string
	ID         string
	Fields     []*FieldDiff
	Objects    []*ObjectDiff
	TaskGroups []*GroupDiff
}

// GroupDiff is what differs in a group. All groups are listed, those included
// in which nothing does.
type GroupDiff struct {
	Type    string
	Name    string
	Fields  []*FieldDiff
	Objects []*ObjectDiff
	Tasks   []*TaskDiff
	Updates map[string]uint64 // what becomes of how many allocations: "create": 2
}

// TaskDiff is what differs in a task. All tasks of a group are listed.
type TaskDiff struct {
	Type        string
	Name        string
	Fields      []*FieldDiff
	Objects     []*ObjectDiff
	Annotations []string // what follows from it: "forces create"
}

// FieldDiff is a value that differs. Old or New is "" where there was, or is,
// none. Durations are nanoseconds.
type FieldDiff struct {
	Type        string
	Name        string
	Old, New    string
	Annotations []string
}

// ObjectDiff is a block in which something differs. Of one that was edited all
// fields with a value are listed.
type ObjectDiff struct {
	Type    string
	Name    string
	Fields  []*FieldDiff
	Objects []*ObjectDiff
}

// Jobs returns what differs between two versions of a job; nil is no job. What
// only servers set does not count, but for whether the job is stopped.
func Jobs(old, new *berth.Job) *JobDiff {
	d := &JobDiff{}
	var groups pairs
	a, b := reflect.ValueOf(old), reflect.ValueOf(new)
	if old != nil {
		d.ID = string(old.ID)
		groups.add(old.TaskGroups)
	}
	if new != nil {
		d.ID = string(new.ID)
		groups.addNew(new.TaskGroups)
	}
	d.Type, d.Fields, d.Objects = top(a, b)
	for _, name := range groups.names() {
		p := groups.by[name]
		g := group(name, p[0], p[1])
		d.TaskGroups = append(d.TaskGroups, g)
		if g.Type != None && d.Type == None {
			d.Type = Edited
		}
	}
	return d
}

// pairs are groups or tasks by name, old and new.
type pairs struct{ by map[string][2]reflect.Value }

// add puts in the old items, addNew the new ones: slices of pointers to structs
// with a field Name.
func (p *pairs) add(list any)    { p.put(0, reflect.ValueOf(list)) }
func (p *pairs) addNew(list any) { p.put(1, reflect.ValueOf(list)) }

// put adds a list to one side: 0 is old, 1 is new. Of two items with one name
// the last counts.
func (p *pairs) put(side int, list reflect.Value) {
	if p.by == nil {
		p.by = map[string][2]reflect.Value{}
	}
	for i := range list.Len() {
		item := list.Index(i)
		name := item.Elem().FieldByName("Name").String()
		pair := p.by[name]
		pair[side] = item
		p.by[name] = pair
	}
}

// names returns the names of both sides in order.
func (p *pairs) names() []string { return slices.Sorted(maps.Keys(p.by)) }

// group compares two versions of a group. An invalid value is a group that is
// absent. A change in a task makes its group edited.
func group(name string, old, new reflect.Value) *GroupDiff {
	d := &GroupDiff{Name: name}
	d.Type, d.Fields, d.Objects = top(old, new)
	var tasks pairs
	if old.IsValid() {
		tasks.add(old.Interface().(*berth.TaskGroup).Tasks)
	}
	if new.IsValid() {
		tasks.addNew(new.Interface().(*berth.TaskGroup).Tasks)
	}
	for _, name := range tasks.names() {
		p := tasks.by[name]
		t := &TaskDiff{Name: name}
		t.Type, t.Fields, t.Objects = top(p[0], p[1])
		d.Tasks = append(d.Tasks, t)
		if t.Type != None && d.Type == None {
			d.Type = Edited
		}
	}
	return d
}

// top compares a job, group or task by itself. Of those only what differs is
// listed.
func top(old, new reflect.Value) (kind string, fields []*FieldDiff, objects []*ObjectDiff) {
	b := compare(old, new)
	b.fields = slices.DeleteFunc(b.fields, func(f *FieldDiff) bool { return f.Type == None })
	return b.kind(), b.fields, b.objects
}

// block gathers what differs between two structs, of which one may be invalid:
// then there is none.
type block struct {
	old, new bool // is there
	fields   []*FieldDiff
	objects  []*ObjectDiff
}

// compare compares two structs, or pointers to structs, field by field. An
// invalid or nil side is an absent block.
func compare(old, new reflect.Value) *block {
	old, new = there(old), there(new)
	b := &block{old: old.IsValid(), new: new.IsValid()}
	switch {
	case b.old:
		b.structure(old.Type(), old, new)
	case b.new:
		b.structure(new.Type(), old, new)
	}
	slices.SortStableFunc(b.fields, func(x, y *FieldDiff) int { return strings.Compare(x.Name, y.Name) })
	slices.SortStableFunc(b.objects, func(x, y *ObjectDiff) int { return strings.Compare(x.Name, y.Name) })
	return b
}

// there follows pointers and interfaces; what they lead to nothing is invalid.
func there(v reflect.Value) reflect.Value {
	for v.IsValid() && (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) {
		v = v.Elem()
	}
	return v
}

// kind returns whether the block was added, deleted, edited or none of these.
func (b *block) kind() string {
	switch {
	case b.old && !b.new:
		return Deleted
	case b.new && !b.old:
		return Added
	case len(b.objects) > 0 || slices.ContainsFunc(b.fields, func(f *FieldDiff) bool { return f.Type != None }):
		return Edited
	}
	return None
}

// structure adds the fields of a struct of type t. Inline structs count as part
// of the outer one; fields that the API does not show are skipped.
func (b *block) structure(t reflect.Type, old, new reflect.Value) {
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() || unseen[t][f.Name] {
			continue
		}
		x, y := at2(old, i), at2(new, i)
		if decode.Inline(f) {
			if x, y = there(x), there(y); x.IsValid() || y.IsValid() {
				b.structure(f.Type.Elem(), x, y)
			}
			continue
		}
		absent := absent[t][f.Name]
		if name := inFile[t][f.Name]; name != "" {
			f.Name = name
		}
		b.value(f, x, y, absent)
	}
}

// at2 returns field i; the zero Value of an absent struct.
func at2(v reflect.Value, i int) reflect.Value {
	if !v.IsValid() {
		return v
	}
	return v.Field(i)
}

// value adds what differs in one field of a struct.
func (b *block) value(f reflect.StructField, old, new reflect.Value, zeroIsNone bool) {
	name, t := f.Name, f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
		old, new = there(old), there(new)
	}
	switch t.Kind() {
	case reflect.Struct:
		b.object(objectName(name, false), old, new)
	case reflect.Slice:
		if e := t.Elem(); e.Kind() == reflect.Struct || e.Kind() == reflect.Pointer {
			b.items(objectName(name, true), old, new)
		} else {
			b.set(name, old, new)
		}
	case reflect.Map:
		switch t.Elem().Kind() {
		case reflect.Struct:
			b.keyed(objectName(name, true), mapItems(old), mapItems(new))
		case reflect.String:
			b.flat(name, old, new)
		default:
			// A map of free values shows as a block with one field
			// per key.
			inner := &block{old: size(old) > 0, new: size(new) > 0}
			inner.flat("", old, new)
			b.sub(name, inner)
		}
	default:
		if zeroIsNone {
			old, new = unlessZero(old), unlessZero(new)
		}
		b.field(name, leaf(old), leaf(new), false)
	}
}

// unlessZero returns v, or the zero Value if v is its type's zero.
func unlessZero(v reflect.Value) reflect.Value {
	if v.IsValid() && v.IsZero() {
		return reflect.Value{}
	}
	return v
}

// size returns the length, 0 for an absent list.
func size(v reflect.Value) int {
	if !v.IsValid() {
		return 0
	}
	return v.Len()
}

// field adds a value. Where presence does not count, "" is no value.
func (b *block) field(name string, old, new *string, presence bool) {
	if !presence {
		old, new = full(old), full(new)
	}
	f := &FieldDiff{Name: name}
	if old != nil {
		f.Old = *old
	}
	if new != nil {
		f.New = *new
	}
	switch {
	case old == nil && new == nil:
		return
	case old == nil:
		f.Type = Added
	case new == nil:
		f.Type = Deleted
	case *old == *new:
		f.Type = None
	default:
		f.Type = Edited
	}
	b.fields = append(b.fields, f)
}

// full returns s, or nil if it points to an empty text: Nomad shows no such
// field.
func full(s *string) *string {
	if s != nil && *s == "" {
		return nil
	}
	return s
}

// object adds a block, if it is another one.
func (b *block) object(name string, old, new reflect.Value) { b.sub(name, compare(old, new)) }

// sub adds an inner block if something in it changed.
func (b *block) sub(name string, inner *block) {
	slices.SortStableFunc(inner.fields, func(x, y *FieldDiff) int { return strings.Compare(x.Name, y.Name) })
	if kind := inner.kind(); kind != None {
		b.objects = append(b.objects, &ObjectDiff{Type: kind, Name: name, Fields: inner.fields, Objects: inner.objects})
	}
}

// set adds a list of plain values, as an object that holds each of them. If
// only their order differs, or how often one is there, they are told by place.
func (b *block) set(name string, old, new reflect.Value) {
	o, n := texts(old), texts(new)
	if slices.Equal(o, n) {
		return
	}
	inner := &block{old: len(o) > 0, new: len(n) > 0}
	before, after := counts(o), counts(n)
	if maps.Equal(before, after) {
		for i := range o {
			inner.field(fmt.Sprintf("%s[%d]", name, i), &o[i], &n[i], true)
		}
		b.sub(name, inner)
		return
	}
	all := maps.Clone(before)
	maps.Copy(all, after)
	for _, text := range slices.Sorted(maps.Keys(all)) {
		for range min(before[text], after[text]) {
			inner.field(name, &text, &text, true)
		}
		for range before[text] - after[text] {
			inner.field(name, &text, nil, true)
		}
		for range after[text] - before[text] {
			inner.field(name, nil, &text, true)
		}
	}
	b.sub(name, inner)
}

// texts returns the elements as text.
func texts(v reflect.Value) (out []string) {
	for i := range size(v) {
		out = append(out, *leaf(v.Index(i)))
	}
	return out
}

// counts returns how often each text is in the list.
func counts(list []string) map[string]int {
	m := map[string]int{}
	for _, s := range list {
		m[s]++
	}
	return m
}

// items adds a list of blocks. Those that can be told apart by a name are
// compared by it; of the others, what is equal on both sides drops out. Where
// that leaves nothing and the lists differ all the same, their order does, and
// they are compared by place.
func (b *block) items(name string, old, new reflect.Value) {
	if size(old) == 0 && size(new) == 0 || old.IsValid() && new.IsValid() && Equal(old.Interface(), new.Interface()) {
		return
	}
	before := len(b.objects)
	t := itemType(old, new)
	o, n := byKey(t, old), byKey(t, new)
	switch {
	case o != nil && n != nil:
		b.keyed(name, o, n)
	case !byPlace[t]:
		b.unkeyed(name, old, new)
	}
	if len(b.objects) > before {
		return
	}
	for i := range max(size(old), size(new)) {
		b.object(name, nth(old, i), nth(new, i))
	}
}

// nth returns element i; the zero Value beyond the end or of an absent list.
func nth(v reflect.Value, i int) reflect.Value {
	if i < size(v) {
		return v.Index(i)
	}
	return reflect.Value{}
}

// itemType returns the struct type of a list's elements. One side must exist.
func itemType(old, new reflect.Value) reflect.Type {
	t := cmp.Or(typeOf(old), typeOf(new)).Elem()
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// typeOf returns the type, nil for an absent value; v.Type would panic.
func typeOf(v reflect.Value) reflect.Type {
	if !v.IsValid() {
		return nil
	}
	return v.Type()
}

// byKey returns the items of a list by what tells them apart, nil if nothing
// does.
func byKey(t reflect.Type, list reflect.Value) map[string]reflect.Value {
	key := keys[t]
	for _, name := range []string{"Name", "Label"} {
		if _, ok := t.FieldByName(name); ok && key == "" {
			key = name
		}
	}
	if key == "" {
		return nil
	}
	out := map[string]reflect.Value{}
	for i := range size(list) {
		k := there(list.Index(i)).FieldByName(key).String()
		if _, twice := out[k]; twice {
			return nil
		}
		out[k] = list.Index(i)
	}
	return out
}

// mapItems returns the entries of a map with string keys.
func mapItems(v reflect.Value) map[string]reflect.Value {
	out := map[string]reflect.Value{}
	if v.IsValid() {
		for _, k := range v.MapKeys() {
			out[k.String()] = v.MapIndex(k)
		}
	}
	return out
}

// keyed compares blocks that have a key, each with that of the same key.
func (b *block) keyed(name string, old, new map[string]reflect.Value) {
	all := maps.Clone(old)
	maps.Copy(all, new)
	for _, k := range slices.Sorted(maps.Keys(all)) {
		b.object(name, old[k], new[k])
	}
}

// unkeyed compares lists of blocks without a key: equal ones cancel each other,
// wherever they are; the others are deleted or added, never edited.
func (b *block) unkeyed(name string, old, new reflect.Value) {
	var gone []reflect.Value
	left := map[int]bool{}
	for i := range size(new) {
		left[i] = true
	}
next:
	// Each old block cancels the first equal new one that is left.
	for i := range size(old) {
		for k := range size(new) {
			if left[k] && Equal(old.Index(i).Interface(), new.Index(k).Interface()) {
				delete(left, k)
				continue next
			}
		}
		gone = append(gone, old.Index(i))
	}
	for _, v := range gone {
		b.object(name, v, reflect.Value{})
	}
	for _, k := range slices.Sorted(maps.Keys(left)) {
		b.object(name, reflect.Value{}, new.Index(k))
	}
}
