package agent

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"berth"
	"berth/op"
)

// What servers took is not told again, unless they say that they do not know;
// then also if it is taken a second time meanwhile.
func TestReportAgain(t *testing.T) {
	r := newReporter()
	report := func() *op.AllocReport {
		return &op.AllocReport{ID: berth.AllocID{1}, ClientStatus: berth.ClientRunning}
	}
	tells := func(want int) (batch []*op.AllocReport) {
		t.Helper()
		if batch, _ = r.next(time.Now()); len(batch) != want {
			t.Fatalf("%d reports are to be sent, want %d", len(batch), want)
		}
		return batch
	}
	r.put(report())
	r.accepted(tells(1))
	r.put(report())
	tells(0)
	r.again(report())
	underway := tells(1)
	r.again(report())
	r.accepted(underway)
	r.accepted(tells(1))
	tells(0)
}

// What servers took of an earlier agent is not told again either.
func TestReportAfterARestart(t *testing.T) {
	n := &op.AllocReport{ID: berth.AllocID{1}, ClientStatus: berth.ClientRunning, TaskStates: map[string]*berth.TaskState{"t": {StartedAt: time.Now()}}}
	for _, c := range []struct {
		name string
		now  op.AllocReport
		told int
	}{
		{"the same", *n, 0},
		{"another", op.AllocReport{ID: n.ID, ClientStatus: berth.ClientComplete}, 1},
	} {
		before, r := newReporter(), newReporter()
		r.taken(n.ID.String(), before.accepted([]*op.AllocReport{n})[n.ID.String()])
		for range 2 {
			r.put(&c.now)
			if batch, _ := r.next(time.Now()); len(batch) != c.told {
				t.Errorf("%s: %d reports are to be sent, want %d", c.name, len(batch), c.told)
			}
		}
		r.forget(n.ID.String())
		r.put(&c.now)
		if r.unsent() != 1 {
			t.Errorf("%s: it is not told after it was forgotten", c.name)
		}
	}
}

// Whatever differs in two reports is news: a field that is added to them has to
// be compared.
func TestEveryFieldOfAReportIsCompared(t *testing.T) {
	full := func() *op.AllocReport {
		n := new(op.AllocReport)
		set(reflect.ValueOf(n).Elem(), 1)
		return n
	}
	if !same(full(), full()) || !same(new(op.AllocReport), new(op.AllocReport)) {
		t.Fatal("what is the same is news")
	}
	seen := map[string]bool{}
	walk("", reflect.TypeFor[op.AllocReport](), func(path string, change func(reflect.Value)) {
		n := full()
		change(reflect.ValueOf(n).Elem())
		if a, _ := json.Marshal(full()); same(full(), n) || same(n, full()) {
			t.Errorf("%s does not count in %s", path, a)
		}
		seen[path] = true
	})
	for _, path := range []string{".ID", ".TaskStates.Events.Details", ".TaskStates.FinishedAt", ".DeploymentStatus.Healthy", ".NetworkStatus.DNS.Servers"} {
		if !seen[path] {
			t.Errorf("%s was not looked at: %v", path, seen)
		}
	}
}

// set fills a value with something that depends on n, one element of each kind.
func set(v reflect.Value, n int) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Unix(int64(n), 0)))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(string(rune('a' + n)))
	case reflect.Bool:
		v.SetBool(n == 1)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(n))
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(uint64(n))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		set(v.Elem(), n)
	case reflect.Array:
		set(v.Index(0), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		set(v.Index(0), n)
	case reflect.Map:
		e := reflect.New(v.Type().Elem()).Elem()
		set(e, n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("k").Convert(v.Type().Key()), e)
	case reflect.Struct:
		for i := range v.NumField() {
			set(v.Field(i), n)
		}
	default:
		panic(v.Type())
	}
}

// walk visits each field below a type, with a function that changes just that
// in a value that set has filled.
func walk(path string, typ reflect.Type, visit func(path string, change func(reflect.Value))) {
	switch k := typ.Kind(); {
	case typ == reflect.TypeFor[time.Time]() || k != reflect.Struct && k != reflect.Pointer && k != reflect.Map && k != reflect.Slice:
		visit(path, func(v reflect.Value) { set(v, 2) })
	case k == reflect.Struct:
		for i := range typ.NumField() {
			walk(path+"."+typ.Field(i).Name, typ.Field(i).Type, func(path string, change func(reflect.Value)) {
				visit(path, func(v reflect.Value) { change(v.Field(i)) })
			})
		}
	case k == reflect.Pointer:
		walk(path, typ.Elem(), func(path string, change func(reflect.Value)) {
			visit(path, func(v reflect.Value) { change(v.Elem()) })
		})
	case k == reflect.Slice:
		walk(path, typ.Elem(), func(path string, change func(reflect.Value)) {
			visit(path, func(v reflect.Value) { change(v.Index(0)) })
		})
	case k == reflect.Map:
		walk(path, typ.Elem(), func(path string, change func(reflect.Value)) {
			visit(path, func(v reflect.Value) {
				key := v.MapKeys()[0]
				e := reflect.New(typ.Elem()).Elem()
				e.Set(v.MapIndex(key))
				change(e)
				v.SetMapIndex(key, e)
			})
		})
	}
}

// BenchmarkNews asks again and again whether what servers took is news.
func BenchmarkNews(b *testing.B) {
	report := func() *op.AllocReport {
		s := &berth.TaskState{State: berth.TaskRunning, StartedAt: time.Unix(5, 6)}
		for i := range berth.TaskEventsKept {
			s.Events = append(s.Events, berth.TaskEvent{Type: berth.EventStarted, Time: int64(i), DisplayMessage: "Task started by client", Details: map[string]string{"a": "b"}})
		}
		return &op.AllocReport{ID: berth.AllocID{1}, ClientStatus: berth.ClientRunning, TaskStates: map[string]*berth.TaskState{"t": s}}
	}
	r, n := newReporter(), report()
	r.accepted([]*op.AllocReport{report()})
	b.ReportAllocs()
	for b.Loop() {
		r.put(n)
	}
	if r.unsent() > 0 {
		b.Error("it was news")
	}
}
