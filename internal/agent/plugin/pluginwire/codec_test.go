package pluginwire

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// TestKnownBytes compares with what Protocol Buffers' own library writes, of its own
// messages that have the kinds of fields that plugins use.
func TestKnownBytes(t *testing.T) {
	at := time.Unix(-5, 999)
	for _, c := range []struct {
		theirs proto.Message
		ours   any
	}{
		{timestamppb.New(at), NewTime(at)},
		{durationpb.New(-1500 * time.Millisecond), NewDuration(-1500 * time.Millisecond)},
		{structpb.NewNumberValue(0), &value{Number: ptr(0.0)}},
		{structpb.NewStringValue("ä"), &value{String: ptr("ä")}},
		{structpb.NewBoolValue(false), &value{Bool: ptr(false)}},
		{&structpb.Struct{Fields: map[string]*structpb.Value{"a": structpb.NewNumberValue(1.5), "b": structpb.NewBoolValue(true)}},
			&object{map[string]*value{"a": {Number: ptr(1.5)}, "b": {Bool: ptr(true)}}}},
	} {
		want, err := proto.MarshalOptions{Deterministic: true}.Marshal(c.theirs)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Marshal(c.ours)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%v: %x, want %x, %v", c.theirs, got, want, err)
		}
		back := reflect.New(reflect.TypeOf(c.ours).Elem()).Interface()
		if err := Unmarshal(want, back); err != nil || !reflect.DeepEqual(back, c.ours) {
			t.Errorf("%v: %+v, %v", c.theirs, back, err)
		}
	}
}

// value and object are google.protobuf.Value and Struct.
type value struct {
	Number *float64 `pb:"2"`
	String *string  `pb:"3"`
	Bool   *bool    `pb:"4"`
}

type object struct {
	Fields map[string]*value `pb:"1"`
}

func ptr[T any](v T) *T { return &v }

// TestHostileBytes reads what no honest plugin writes: an error, and never more
// memory than the bytes ask for.
func TestHostileBytes(t *testing.T) {
	deep, err := Marshal(&Schema{nested(200)})
	if err == nil {
		t.Errorf("a schema of 200 messages one in another was written: %d bytes", len(deep))
	}
	// The same by hand: field 3 of Block in field 4 of Spec, again and again.
	in := []byte{}
	for range 200 {
		in = append([]byte{0x1a, byte(len(in) & 0x7f)}, in...)
		if len(in) > 100 {
			in = in[:100]
		}
	}
	for _, text := range []string{
		"0a", "0aff", "0affffffffffffffffff01", "08", "80808080808080808080", "0b", "0c", "0f", "ff", "00", "12026161ff", "1801ff", hex.EncodeToString(in),
	} {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range []any{&TaskConfig{}, &Schema{}, &DeviceStatsResponse{}, &DriverFingerprint{}, &StartedTask{}} {
			_ = Unmarshal(b, v) // must not panic
		}
	}
	for _, c := range []struct {
		text string
		v    any
	}{{"0801", &TaskConfig{}}, {"0a0161", &WaitedTask{}}, {"0d00000000", &PluginInfo{}}, {"0a", &TaskID{}}, {"2203ffffff", &TaskConfig{}}} {
		b, _ := hex.DecodeString(c.text)
		if err := Unmarshal(b, c.v); err == nil {
			t.Errorf("%s was read as %T", c.text, c.v)
		}
	}
}

func nested(n int) *Spec {
	s := &Spec{Attr: &Attr{Name: "a"}}
	for range n {
		s = &Spec{Block: &Block{Nested: s}}
	}
	return s
}

func FuzzUnmarshal(f *testing.F) {
	b, err := Marshal(&StartTask{&TaskConfig{ID: "a", Env: map[string]string{"k": "v"}, Resources: &TaskResources{Ports: []*Port{{Label: "p", Value: -1}}}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var s StartTask
		if Unmarshal(b, &s) != nil {
			return
		}
		again, err := Marshal(&s)
		if err != nil {
			t.Fatal(err)
		}
		var back StartTask
		if err := Unmarshal(again, &back); err != nil {
			t.Error(err)
		}
	})
}
