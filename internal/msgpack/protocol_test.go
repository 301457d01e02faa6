package msgpack

import (
	"fmt"
	"reflect"
	"runtime"
	"testing"

	"berth"
	"berth/op"
)

func TestFields(t *testing.T) {
	type inner struct{ A, B int }
	type Shadow struct{ A, C int }
	type outer struct {
		*inner
		Shadow
		B      string
		Secret string `json:"-"`
		Raw    Raw
		Any    any
		Bytes  []byte
	}
	type deep struct {
		Name string
		Down []deep
	}
	for _, c := range []struct {
		in   any
		want string
	}{
		{nil, "<nil>"},
		{(*outer)(nil), "<nil>"},
		{outer{Shadow: Shadow{C: 3}, B: "b", Secret: "s"}, "map[Any:<nil> B:b Bytes:<nil> C:3 Raw:<nil> Secret:s]"}, // two A of equal depth: neither, as in Go
		{outer{Raw: Raw{0x81, 0xa1, 'x', 0x07}, Any: Raw{0xc3}, Bytes: []byte{}}, "map[Any:true B: Bytes: C:0 Raw:map[x:7] Secret:]"},
		{deep{Name: "a", Down: []deep{{Name: "b"}}}, "map[Down:[map[Down:<nil> Name:b]] Name:a]"},
		{op.Node{}, ""},
		{map[berth.NodeID]int8{{1}: -3}, "map[01000000-0000-0000-0000-000000000000:-3]"},
		{[]any{int8(-128), int16(-32768), int32(-1 << 31), int64(-1 << 63), uint64(1<<64 - 1), float32(1.5), -32, -33}, "[-128 -32768 -2147483648 -9223372036854775808 18446744073709551615 1.5 -32 -33]"},
	} {
		b, err := Append(nil, c.in)
		if err != nil {
			t.Fatal(err)
		}
		var got any
		if err := Decode(b, &got); err != nil {
			t.Fatal(err)
		}
		if c.want != "" && fmt.Sprint(got) != c.want {
			t.Errorf("%+v is encoded as %v, not %v", c.in, got, c.want)
		}
	}
	// What is taken as it comes can be read later, or passed on.
	var late struct{ Job Raw }
	b, _ := Append(nil, map[string]any{"Job": map[string]any{"ID": "web"}})
	if err := Decode(b, &late); err != nil {
		t.Fatal(err)
	}
	var job berth.Job
	if err := late.Job.Decode(&job); err != nil || job.ID != "web" {
		t.Errorf("%x is read as %+v, %v", late.Job, job, err)
	}
	for _, bad := range []any{make(chan int), map[string]any{"f": func() {}}, []float64{nan()}, struct{ C complex64 }{}} {
		if _, err := Append(nil, bad); err == nil {
			t.Errorf("%v can be encoded", bad)
		}
	}
}

func nan() float64 { var zero float64; return zero / zero }

// Each value is encoded once, and its bytes are kept for as long as it lives.
func TestOnce(t *testing.T) {
	type job struct{ ID string }
	c := NewProtocol(Once[job]())
	jobs := []*job{{"web"}, nil, {"db"}}
	jobs[1] = jobs[0]
	for range 2 {
		b, err := c.Append(nil, jobs)
		if err != nil {
			t.Fatal(err)
		}
		var got []*job
		if err := Decode(b, &got); err != nil || !reflect.DeepEqual(got, jobs) {
			t.Fatalf("it is read as %v, %v", got, err)
		}
	}
	m := c.memos[reflect.TypeFor[*job]()]
	if len(m.bytes) != 2 || m.size == 0 {
		t.Errorf("%d jobs are kept in %d bytes", len(m.bytes), m.size)
	}
	jobs = nil
	for kept := 2; kept > 0; { // until the collector has found them
		runtime.GC()
		runtime.Gosched()
		m.mu.Lock()
		if kept = len(m.bytes); kept == 0 && m.size != 0 {
			t.Errorf("no job is kept, in %d bytes", m.size)
		}
		m.mu.Unlock()
	}
}

func TestUint(t *testing.T) {
	for _, c := range []struct {
		value []byte
		want  uint64
		ok    bool
	}{
		{[]byte{0x05}, 5, true},
		{[]byte{0xcc, 0xff}, 255, true},
		{[]byte{0xcd, 1, 0}, 256, true},
		{[]byte{0xd1, 1, 0}, 256, true},
		{[]byte{0xd3, 0, 0, 0, 0, 0, 0, 1, 0}, 256, true},
		{[]byte{0xcf, 255, 255, 255, 255, 255, 255, 255, 255}, 1<<64 - 1, true},
		{[]byte{0xff}, 0, false},
		{[]byte{0xd0, 0x80}, 0, false},
		{[]byte{0xa1, '1'}, 0, false},
		{nil, 0, false},
	} {
		if got, ok := Uint(c.value); ok != c.ok || ok && got != c.want {
			t.Errorf("%x is %d, %v", c.value, got, ok)
		}
	}
}
