// Package wire_test compares codecs on the answer that servers encode most: a
// node's allocations, each with its whole job. The page
// docs/decisions/0004-wire-codec.md holds what it printed.
package wire_test

import (
	"bytes"
	"fmt"
	"reflect"
	"runtime"
	"testing"
	"time"

	"berth"
	"berth/internal/admit"
	"berth/internal/decode"
	"berth/internal/msgpack"
	"berth/op"

	"github.com/hashicorp/go-msgpack/v2/codec"
	v5 "github.com/vmihailenco/msgpack/v5"
)

// theirs is go-msgpack as Nomad's protocol wants it: field names as they are,
// the old form of msgpack.
func theirs() *codec.MsgpackHandle {
	h := &codec.MsgpackHandle{}
	h.TypeInfos = codec.NewTypeInfos([]string{"codec"})
	h.MapType = reflect.TypeFor[map[string]any]()
	h.RawToString = true
	h.TimeNotBuiltin = true
	return h
}

// job is a small job as a user writes it.
func job(t testing.TB) *berth.Job {
	j, err := admit.DecodeJob(decode.Tree{
		"ID": "web", "Meta": decode.Tree{"team": "red"},
		"TaskGroups": []any{decode.Tree{
			"Name": "g", "Count": decode.Number("50"),
			"Networks": []any{decode.Tree{"DynamicPorts": []any{decode.Tree{"Label": "http"}}}},
			"Tasks": []any{decode.Tree{
				"Name": "t", "Driver": "raw_exec", "Env": decode.Tree{"A": "b"},
				"Config": decode.Tree{"command": "/bin/sh", "args": []any{"-c", "exec httpd -p $NOMAD_PORT_http"}},
			}},
		}},
	}, admit.FromJSON)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// answer is the answer to a node that fetches 50 allocations of one job.
func answer(t testing.TB) *op.GetAllocsAnswer {
	a := &op.GetAllocsAnswer{Meta: op.Meta{Index: 9}}
	j := job(t)
	at := time.Date(2026, 11, 21, 5, 0, 0, 0, time.UTC)
	for i := range uint32(50) {
		a.Allocs = append(a.Allocs, &op.Alloc{
			ID: berth.AllocID{1, byte(i)}, EvalID: berth.EvalID{2}, NodeID: berth.NodeID{3}, NodeName: "n1",
			Namespace: "default", Name: berth.AllocName("web", "g", i), JobID: "web", Job: j, TaskGroup: "g",
			AllocatedResources: &op.AllocatedResources{
				Tasks:  map[string]*op.AllocatedTask{"t": {Cpu: op.AllocatedCPU{CpuShares: 100}, Memory: op.AllocatedMemory{MemoryMB: 300}}},
				Shared: op.AllocatedShared{DiskMB: 300, Ports: []berth.PortMapping{{Label: "http", Value: 20000 + int(i), HostIP: "10.0.0.1"}}},
			},
			TaskStates:  map[string]*berth.TaskState{"t": {State: berth.TaskRunning, StartedAt: at, Events: []berth.TaskEvent{berth.NewTaskEvent(berth.EventStarted, at)}}},
			UID:         fmt.Sprintf("a-%016x-%02x", 9, i),
			CreateIndex: 8, ModifyIndex: 9, AllocModifyIndex: 8, CreateTime: at.UnixNano(), ModifyTime: at.UnixNano(),
		})
	}
	return a
}

// codecs are the candidates. Each encoder keeps what it can keep between
// calls.
var codecs = []struct {
	name   string
	encode func() func(buf []byte, v any) ([]byte, error)
	decode func(buf []byte, v any) error
}{
	{"wire", func() func([]byte, any) ([]byte, error) { return ours(msgpack.NewProtocol()) }, decodeOurs},
	{"wire-once", func() func([]byte, any) ([]byte, error) { return ours(msgpack.NewProtocol(msgpack.Once[berth.Job]())) }, decodeOurs},
	{"go-msgpack", encodeTheirs, decodeTheirs},
	{"vmihailenco", encodeV5, v5.Unmarshal},
}

func ours(c *msgpack.Codec) func([]byte, any) ([]byte, error) {
	return func(buf []byte, v any) ([]byte, error) { return c.Append(buf[:0], v) }
}

func decodeOurs(buf []byte, v any) error { return msgpack.Decode(buf, v) }

func encodeTheirs() func([]byte, any) ([]byte, error) {
	e := codec.NewEncoderBytes(new([]byte), theirs())
	return func(buf []byte, v any) ([]byte, error) {
		buf = buf[:0]
		e.ResetBytes(&buf)
		err := e.Encode(v)
		return buf, err
	}
}

var handle = theirs()

func decodeTheirs(buf []byte, v any) error { return codec.NewDecoderBytes(buf, handle).Decode(v) }

func encodeV5() func([]byte, any) ([]byte, error) {
	var out bytes.Buffer
	e := v5.NewEncoder(&out)
	e.UseCompactInts(true)
	return func(buf []byte, v any) ([]byte, error) {
		out.Reset()
		err := e.Encode(v)
		return append(buf[:0], out.Bytes()...), err
	}
}

func BenchmarkEncode(b *testing.B) {
	a := answer(b)
	for _, c := range codecs {
		b.Run(c.name, func(b *testing.B) {
			encode := c.encode()
			var buf []byte
			var err error
			b.ReportAllocs()
			for b.Loop() {
				if buf, err = encode(buf, a); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(buf)), "frame-B")
		})
	}
}

// BenchmarkDecode reads what each candidate wrote.
func BenchmarkDecode(b *testing.B) {
	a := answer(b)
	for _, c := range codecs {
		if c.name == "wire-once" { // encodes otherwise, decodes the same
			continue
		}
		b.Run(c.name, func(b *testing.B) {
			buf, err := c.encode()(nil, a)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				var out op.GetAllocsAnswer
				if err := c.decode(buf, &out); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestCodecs prints what each candidate makes of cases that matter to a port
// that strangers can reach.
func TestCodecs(t *testing.T) {
	a := answer(t)
	for _, c := range codecs {
		if c.name == "wire-once" {
			continue
		}
		buf, err := c.encode()(nil, a)
		if err != nil {
			t.Fatal(c.name, err)
		}
		var back, crossed op.GetAllocsAnswer
		fmt.Printf("%-12s reads what it wrote: %s\n", c.name, verdict(c.decode(buf, &back), same(&back, a)))
		fmt.Printf("%-12s go-msgpack reads what it wrote: %s\n", c.name, verdict(decodeTheirs(buf, &crossed), same(&crossed, a)))
		fmt.Printf("%-12s two entries of a map share a pointer: %v\n", c.name, shares(t, c.decode))
		text, err := c.encode()(nil, "a text of forty bytes, which is over 31..")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("%-12s a string of %d bytes begins with 0x%02x\n", c.name, 41, text[0])
		for _, bomb := range bombs {
			took, err := cost(c.decode, bomb.frame)
			fmt.Printf("%-12s %-34s %8d bytes in, %11d bytes allocated, error: %v\n", c.name, bomb.name, len(bomb.frame), took, short(err))
		}
	}
}

// same compares answers; the zone of a time does not count.
func same(got, want *op.GetAllocsAnswer) bool {
	for _, a := range got.Allocs {
		for _, s := range a.TaskStates {
			s.StartedAt = s.StartedAt.UTC()
		}
	}
	return reflect.DeepEqual(got, want)
}

func verdict(err error, same bool) string {
	switch {
	case err != nil:
		return "no: " + short(err)
	case !same:
		return "yes, but it is not equal"
	}
	return "yes"
}

func short(err error) string {
	if err == nil {
		return "none"
	}
	s := err.Error()
	return s[:min(len(s), 90)]
}

// shares reports whether the values of one map, which are structs that hold
// pointers, come to point to the same.
func shares(t *testing.T, decode func([]byte, any) error) bool {
	type holder struct{ P *int64 }
	// {"a": {"P": 1}, "b": {"P": 2}}
	frame := []byte{0x82, 0xa1, 'a', 0x81, 0xa1, 'P', 1, 0xa1, 'b', 0x81, 0xa1, 'P', 2}
	var m map[string]holder
	if err := decode(frame, &m); err != nil {
		t.Fatal(err)
	}
	return m["a"].P == m["b"].P
}

// bombs are small or dull frames that claim to be much.
var bombs = []struct {
	name  string
	frame []byte
}{
	{"a list that claims 16 M values", []byte{0x81, 0xa6, 'A', 'l', 'l', 'o', 'c', 's', 0xdd, 0, 0xff, 0xff, 0xff}},
	{"a string that claims 256 MiB", []byte{0x81, 0xa4, 'N', 'o', 'd', 'y', 0xdb, 0x10, 0, 0, 0}},
	{"1 M empty maps in a list of structs", append([]byte{0x81, 0xa6, 'A', 'l', 'l', 'o', 'c', 's', 0xdd, 0, 0x10, 0, 0}, bytes.Repeat([]byte{0x80}, 1<<20)...)},
}

// cost returns how many bytes decoding takes. What the process then holds is
// not more.
func cost(decode func([]byte, any) error, frame []byte) (took uint64, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var out op.GetAllocsAnswer
	err = decode(frame, &out)
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, err
}
