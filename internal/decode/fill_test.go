package decode

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"berth"

	"github.com/google/go-cmp/cmp"
)

// bag has a field of each kind that Fill supports.
type bag struct {
	Text     string
	Flag     bool
	Int      int
	Small    int8
	Uint     uint64
	Byte     uint8
	Float    float64
	Time     time.Duration
	Wait     *time.Duration
	Bytes    []byte
	Texts    []string
	Map      map[string]string
	Lists    map[string][]string
	Any      map[string]any
	Block    *berth.LogConfig
	Blocks   []berth.Port
	Pointers []*berth.Task
	Keyed    map[string]berth.VolumeRequest
	ID       berth.NodeID
	Stamp    time.Time
	Tagged   int `hcl:"other_name"`
	Hidden   int `json:"-"`
}

// defaults are the initial values of the bag's blocks.
var defaults = map[reflect.Type]any{reflect.TypeFor[berth.LogConfig](): berth.LogConfig{MaxFiles: 10, MaxFileSizeMB: 10}}

func TestFill(t *testing.T) {
	n := func(s string) Number { return Number(s) }
	tests := []struct {
		name    string
		src     Tree
		loose   bool
		want    bag
		problem string // all of them, joined by "; "
	}{
		{"text", Tree{"Text": "a"}, false, bag{Text: "a"}, ""},
		{"case does not matter", Tree{"tEXT": "a", "BYTE": n("7")}, false, bag{Text: "a", Byte: 7}, ""},
		{"one field twice", Tree{"Text": "a", "text": "b"}, false, bag{Text: "a"}, `at.text: is given twice, as "Text" and "text"`},
		{"number for text", Tree{"Text": n("1")}, false, bag{}, `at.text: must be a string, got 1`},
		{"number for text, loose", Tree{"Text": n("1.5")}, true, bag{Text: "1.5"}, ""},
		{"bool for text", Tree{"Text": true}, false, bag{}, `at.text: must be a string, got true`},
		{"bool for text, loose", Tree{"Text": true}, true, bag{Text: "true"}, ""},
		{"list for text, loose", Tree{"Text": []any{}}, true, bag{}, `at.text: must be a string, got a list`},
		{"object for text", Tree{"Text": Tree{"a": "b"}}, false, bag{}, `at.text: must be a string, got an object`},

		{"bool", Tree{"Flag": true}, false, bag{Flag: true}, ""},
		{"text for bool", Tree{"Flag": "true"}, false, bag{}, `at.flag: must be true or false, got "true"`},
		{"text for bool, loose", Tree{"Flag": "true"}, true, bag{Flag: true}, ""},
		{"odd text for bool, loose", Tree{"Flag": "yes"}, true, bag{}, `at.flag: must be true or false, got "yes"`},
		{"number for bool, loose", Tree{"Flag": n("1")}, true, bag{}, `at.flag: must be true or false, got 1`},

		{"whole", Tree{"Int": n("-3")}, false, bag{Int: -3}, ""},
		{"exponent", Tree{"Int": n("1e3")}, false, bag{Int: 1000}, ""},
		{"point zero", Tree{"Int": n("2.50e1")}, false, bag{Int: 25}, ""},
		{"minus zero", Tree{"Int": n("-0")}, false, bag{}, ""},
		{"fraction", Tree{"Int": n("1.5")}, false, bag{}, `at.int: must be an integer, got 1.5`},
		{"huge exponent", Tree{"Int": n("1e400")}, false, bag{}, `at.int: must be an integer, got 1e400`},
		{"huge negative exponent", Tree{"Int": n("1e-400")}, false, bag{}, `at.int: must be an integer, got 1e-400`},
		{"largest", Tree{"Int": n("9223372036854775807")}, false, bag{Int: math.MaxInt64}, ""},
		{"one more", Tree{"Int": n("9223372036854775808")}, false, bag{}, `at.int: must be an integer of at most 64 bits, got 9223372036854775808`},
		{"exact beyond floats", Tree{"Int": n("9007199254740993.0")}, false, bag{Int: 9007199254740993}, ""},
		{"text for number", Tree{"Int": "3"}, false, bag{}, `at.int: must be an integer, got "3"`},
		{"text for number, loose", Tree{"Int": "3"}, true, bag{Int: 3}, ""},
		{"odd text for number, loose", Tree{"Int": "0x10"}, true, bag{}, `at.int: must be an integer, got "0x10"`},
		{"text with spaces, loose", Tree{"Int": " 3"}, true, bag{}, `at.int: must be an integer, got " 3"`},
		{"text of infinity, loose", Tree{"Int": "Inf"}, true, bag{}, `at.int: must be an integer, got "Inf"`},
		{"text of NaN, loose", Tree{"Int": "NaN"}, true, bag{}, `at.int: must be an integer, got "NaN"`},
		{"bool for number, loose", Tree{"Int": true}, true, bag{}, `at.int: must be an integer, got true`},
		{"too large for its field", Tree{"Small": n("128")}, false, bag{}, `at.small: must be -128 to 127, got 128`},
		{"fits its field", Tree{"Small": n("-128")}, false, bag{Small: -128}, ""},
		{"unsigned", Tree{"Uint": n("18446744073709551615")}, false, bag{Uint: math.MaxUint64}, ""},
		{"unsigned, too large", Tree{"Uint": n("18446744073709551616")}, false, bag{}, `at.uint: must be an integer of at most 64 bits, got 18446744073709551616`},
		{"unsigned, negative", Tree{"Uint": n("-1")}, false, bag{}, `at.uint: must be 0 to 18446744073709551615, got -1`},
		{"byte, too large", Tree{"Byte": n("256")}, false, bag{}, `at.byte: must be 0 to 255, got 256`},
		{"byte, exponent", Tree{"Byte": n("2e2")}, false, bag{Byte: 200}, ""},
		{"float", Tree{"Float": n("1.5e2")}, false, bag{Float: 150}, ""},
		{"text for float", Tree{"Float": "1.5"}, true, bag{}, `at.float: must be a number, got "1.5"`},

		{"nanoseconds", Tree{"Time": n("5000000000")}, false, bag{Time: 5 * time.Second}, ""},
		{"duration", Tree{"Time": "1h30m"}, false, bag{Time: 90 * time.Minute}, ""},
		{"not a duration", Tree{"Time": "5 minutes"}, false, bag{}, `at.time: must be a duration such as "90s" or "1h30m", got "5 minutes"`},
		{"bare number in text", Tree{"Time": "5"}, true, bag{}, `at.time: must be a duration such as "90s" or "1h30m", got "5"`},
		{"bool for duration", Tree{"Time": true}, true, bag{}, `at.time: must be a duration such as "90s", got true`},
		{"part of a nanosecond", Tree{"Time": n("0.5")}, false, bag{}, `at.time: must be an integer, got 0.5`},
		{"duration behind a pointer", Tree{"Wait": "5s"}, false, bag{Wait: new(5 * time.Second)}, ""},

		{"bytes", Tree{"Bytes": "aGk="}, false, bag{Bytes: []byte("hi")}, ""},
		{"not base64", Tree{"Bytes": "?"}, false, bag{}, `at.bytes: must be base64: illegal base64 data at input byte 0`},
		{"list for bytes", Tree{"Bytes": []any{n("1")}}, false, bag{}, `at.bytes: must be base64 text, got a list`},

		{"list", Tree{"Texts": []any{"a", "b"}}, false, bag{Texts: []string{"a", "b"}}, ""},
		{"empty list is nil", Tree{"Texts": []any{}}, false, bag{}, ""},
		{"null in a list", Tree{"Texts": []any{"a", nil}}, false, bag{Texts: []string{"a"}}, `at.texts[1]: must not be null`},
		{"text for a list", Tree{"Texts": "a"}, true, bag{}, `at.texts: must be a list, got "a"`},
		{"wrong items", Tree{"Texts": []any{n("1"), true}}, false, bag{Texts: []string{"", ""}}, `at.texts[0]: must be a string, got 1; at.texts[1]: must be a string, got true`},

		{"map", Tree{"Map": Tree{"a": "b"}}, false, bag{Map: map[string]string{"a": "b"}}, ""},
		{"empty map is nil", Tree{"Map": Tree{}}, false, bag{}, ""},
		{"null in a map", Tree{"Map": Tree{"a": nil}}, false, bag{Map: map[string]string{}}, `at.map[a]: must not be null`},
		{"list for a map", Tree{"Map": []any{}}, false, bag{}, `at.map: must be an object, got a list`},
		{"map of lists", Tree{"Lists": Tree{"a": []any{"b"}}}, false, bag{Lists: map[string][]string{"a": {"b"}}}, ""},
		{"map of anything", Tree{"Any": Tree{"a": n("1"), "b": n("1.5"), "c": []any{n("2"), nil}, "d": Tree{"e": true}, "f": nil, "g": "x"}}, false,
			bag{Any: map[string]any{"a": int64(1), "b": 1.5, "c": []any{int64(2), nil}, "d": map[string]any{"e": true}, "f": nil, "g": "x"}}, ""},
		{"whole numbers however written", Tree{"Any": Tree{"a": n("1.0"), "b": n("1e3"), "c": n("1e300"), "d": n("-0.0")}}, false,
			bag{Any: map[string]any{"a": int64(1), "b": int64(1000), "c": 1e300, "d": int64(0)}}, ""},

		{"block", Tree{"Block": Tree{"MaxFiles": n("3")}}, false, bag{Block: &berth.LogConfig{MaxFiles: 3, MaxFileSizeMB: 10}}, ""},
		{"empty block", Tree{"Block": Tree{}}, false, bag{Block: &berth.LogConfig{MaxFiles: 10, MaxFileSizeMB: 10}}, ""},
		{"text for a block", Tree{"Block": "x"}, false, bag{Block: &berth.LogConfig{MaxFiles: 10, MaxFileSizeMB: 10}}, `at.block: must be an object, got "x"`},
		{"blocks", Tree{"Blocks": []any{Tree{"Label": "a", "Value": n("80")}}}, false, bag{Blocks: []berth.Port{{Label: "a", Value: 80}}}, ""},
		{"problem in a named block", Tree{"Blocks": []any{Tree{"Label": "a", "Value": "80"}}}, false, bag{Blocks: []berth.Port{{Label: "a"}}}, `at.blocks[a].static: must be an integer, got "80"`},
		{"null block", Tree{"Blocks": []any{nil}}, false, bag{Blocks: []berth.Port{}}, `at.blocks[0]: must not be null`},
		{"keyed blocks", Tree{"Keyed": Tree{"v": Tree{"ReadOnly": true}}}, false, bag{Keyed: map[string]berth.VolumeRequest{"v": {ReadOnly: true}}}, ""},

		{"id", Tree{"ID": "11111111-2222-3333-4444-555555555555"}, false, bag{ID: must(berth.ParseID[berth.Node]("11111111-2222-3333-4444-555555555555"))}, ""},
		{"not an id", Tree{"ID": "x"}, false, bag{}, `at.id: "x" is not a UUID (8-4-4-4-12 hexadecimal digits)`},
		{"time", Tree{"Stamp": "2020-01-02T03:04:05Z"}, false, bag{Stamp: time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)}, ""},

		{"null keeps the value", Tree{"Text": nil, "Block": nil}, false, bag{}, ""},
		{"name from the tag", Tree{"Tagged": "x"}, false, bag{}, `at.other_name: must be an integer, got "x"`},
		{"the tag is not a name in trees", Tree{"other_name": n("1")}, false, bag{}, `at.other_name: unknown field`},
		{"hidden fields are unknown", Tree{"Hidden": n("1")}, false, bag{}, `at.Hidden: unknown field`},
		{"unknown and empty", Tree{"a": nil, "b": false, "c": n("0"), "d": "", "e": []any{}, "f": Tree{"x": nil}, "g": n("0e5")}, false, bag{}, ""},
		{"unknown and not empty", Tree{"a": Tree{"x": Tree{"y": true}}}, false, bag{}, `at.a: unknown field`},
		{"unknown with a long name", Tree{strings.Repeat("x", 1000): true}, false, bag{}, "at." + strings.Repeat("x", 64) + `…: unknown field`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got bag
			d := Decoder{Loose: tt.loose, Defaults: defaults}
			d.Fill(&got, tt.src, "at")
			if problem := joined(d.Problems); problem != tt.problem {
				t.Errorf("problems\n%s\nwant\n%s", problem, tt.problem)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func joined(ps berth.Problems) string {
	var out []string
	for _, p := range ps {
		out = append(out, p.String())
	}
	return strings.Join(out, "; ")
}

// Fill keeps values that are absent or null, and replaces lists and maps.
func TestFillOver(t *testing.T) {
	got := bag{Text: "old", Int: 5, Texts: []string{"a", "b"}, Map: map[string]string{"a": "1"}, Block: &berth.LogConfig{MaxFiles: 7, MaxFileSizeMB: 8}}
	shared := got.Block
	var d Decoder
	d.Fill(&got, Tree{"Text": nil, "Int": Number("0"), "Texts": []any{"c"}, "Map": Tree{"b": "2"}, "Block": Tree{"MaxFiles": Number("1")}}, "at")
	if len(d.Problems) > 0 {
		t.Fatal(d.Problems)
	}
	want := bag{Text: "old", Texts: []string{"c"}, Map: map[string]string{"b": "2"}, Block: &berth.LogConfig{MaxFiles: 1, MaxFileSizeMB: 8}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if shared.MaxFiles != 7 {
		t.Error("Fill wrote to a block that may be shared")
	}
}

// Fill supports every type in jobs, nodes and other rows.
func TestFillKnowsAllTypes(t *testing.T) {
	for _, root := range []any{berth.Job{}, berth.Node{}, berth.Eval{}, berth.Deployment{}, berth.Namespace{}} {
		walkTypes(reflect.TypeOf(root), map[reflect.Type]bool{}, func(v reflect.Value, src any) {
			d := Decoder{Loose: true}
			d.value(v, src, "at") // a type without a rule panics
		})
	}
}

func walkTypes(t reflect.Type, seen map[reflect.Type]bool, try func(reflect.Value, any)) {
	if seen[t] {
		return
	}
	seen[t] = true
	for _, src := range []any{"x", true, Number("1"), []any{}, Tree{}} {
		try(reflect.New(t).Elem(), src)
	}
	switch t.Kind() {
	case reflect.Struct:
		if !isBlock(t) {
			return
		}
		for f := range t.Fields() {
			if f.IsExported() && f.Tag.Get("json") != "-" {
				walkTypes(f.Type, seen, try)
			}
		}
	case reflect.Pointer, reflect.Slice, reflect.Map:
		walkTypes(t.Elem(), seen, try)
	}
}

func TestSnake(t *testing.T) {
	for in, want := range map[string]string{
		"ID": "id", "CPU": "cpu", "MaxFileSizeMB": "max_file_size_mb", "TLSServerName": "tls_server_name",
		"Uid": "uid", "MemoryMaxMB": "memory_max_mb", "A": "a", "GRPCUseTLS": "grpc_use_tls", "": "",
	} {
		if got := snake(in); got != want {
			t.Errorf("snake(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestProblems(t *testing.T) {
	var none berth.Problems
	if err := none.Err(); err != nil {
		t.Errorf("no problems are an error: %v", err)
	}
	one := berth.Problems{{Path: "job.id", Text: "is bad", Pos: "web.nomad:1,2-3"}}
	if got := one.Err().Error(); got != "web.nomad:1,2-3: job.id: is bad" {
		t.Errorf("got %q", got)
	}
	var many berth.Problems
	for i := range 60 {
		many.Addf("", "problem %d", i)
	}
	got := many.Error()
	if !strings.HasPrefix(got, "60 problems:\n  * problem 0\n") || !strings.HasSuffix(got, "\n  * (and 10 more problems)") {
		t.Errorf("got %q", got)
	}
	wrapped := fmt.Errorf("read the job: %w", many.Err())
	if berth.KindOf(wrapped) != berth.Invalid {
		t.Errorf("kind %q", berth.KindOf(wrapped))
	}
}
