package diff

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"berth"

	"pgregory.net/rapid"
)

func show(changes []Change) string {
	var out []string
	for _, c := range changes {
		out = append(out, fmt.Sprintf("%s: %v -> %v", c.Path, c.Old, c.New))
	}
	return strings.Join(out, "; ")
}

type item struct {
	Name string
	Size int
}

type label struct {
	Label string
	Value int
}

type thing struct {
	Text   string
	Count  int
	Wait   time.Duration
	When   time.Time
	Env    map[string]string
	Any    map[string]any
	Words  []string
	Items  []item
	Ptrs   []*item
	Ports  []label
	Block  *item
	ID     berth.NodeID
	hidden int
}

func TestBetween(t *testing.T) {
	at := time.Unix(100, 0)
	for _, c := range []struct {
		name     string
		old, new thing
		want     string
	}{
		{"nothing", thing{Text: "a", Env: map[string]string{"A": "1"}}, thing{Text: "a", Env: map[string]string{"A": "1"}}, ""},
		{"what is not exported does not count", thing{hidden: 1}, thing{hidden: 2}, ""},
		{"leaves, in order of field", thing{Text: "a", Count: 1}, thing{Text: "b", Count: 2}, "Text: a -> b; Count: 1 -> 2"},
		{"a time", thing{When: at}, thing{When: at.Add(time.Second)}, fmt.Sprintf("When: %v -> %v", at, at.Add(time.Second))},
		{"the same time elsewhere", thing{When: at}, thing{When: at.UTC()}, ""},
		{"a duration", thing{Wait: time.Second}, thing{Wait: time.Minute}, "Wait: 1s -> 1m0s"},
		{"an ID, as one", thing{}, thing{ID: berth.NodeID{1}}, "ID:  -> 01000000-0000-0000-0000-000000000000"},
		{"keys of a map", thing{Env: map[string]string{"A": "1", "B": "2"}}, thing{Env: map[string]string{"B": "3", "C": "4"}},
			"Env[A]: 1 -> <nil>; Env[B]: 2 -> 3; Env[C]: <nil> -> 4"},
		{"nil and empty maps and lists are the same", thing{Env: map[string]string{}, Words: []string{}, Items: []item{}}, thing{}, ""},
		{"items of a plain list by place", thing{Words: []string{"a", "b"}}, thing{Words: []string{"b"}}, "Words[0]: a -> b; Words[1]: b -> <nil>"},
		{"items with names by name", thing{Items: []item{{"a", 1}, {"b", 2}}}, thing{Items: []item{{"b", 2}, {"a", 3}}}, "Items[a].Size: 1 -> 3"},
		{"items that have one name by place", thing{Items: []item{{"a", 1}, {"a", 2}}}, thing{Items: []item{{"a", 1}, {"a", 3}}}, "Items[1].Size: 2 -> 3"},
		{"items that are pointers", thing{Ptrs: []*item{{"a", 1}}}, thing{Ptrs: []*item{{"b", 1}, {"a", 1}}}, "Ptrs[b].Name: <nil> -> b; Ptrs[b].Size: <nil> -> 1"},
		{"items with labels", thing{Ports: []label{{"http", 1}}}, thing{Ports: []label{{"http", 2}}}, "Ports[http].Value: 1 -> 2"},
		{"a block that came, leaf by leaf", thing{}, thing{Block: &item{"a", 0}}, "Block.Name: <nil> -> a"},
		{"a block that went and said nothing", thing{Block: &item{}}, thing{}, "Block: {} -> <nil>"},
		{"a block that is equal", thing{Block: &item{"a", 1}}, thing{Block: &item{"a", 1}}, ""},
		{"values of any type", thing{Any: map[string]any{"a": "1", "b": []any{"x"}}}, thing{Any: map[string]any{"a": int64(1), "b": []any{"y"}}},
			"Any[a]: 1 -> 1; Any[b][0]: x -> y"},
		{"a null in a map is as good as absent", thing{Any: map[string]any{"a": nil}}, thing{}, ""},
		// A number in a job's config comes from a job file as int64 and from
		// the log as whatever the codec found shortest.
		{"equal numbers of other types", thing{Any: map[string]any{"a": int64(300), "b": 1.0, "c": uint64(1 << 63)}},
			thing{Any: map[string]any{"a": uint64(300), "b": int64(1), "c": float64(1 << 63)}}, ""},
		{"unequal numbers of other types", thing{Any: map[string]any{"a": int64(-1), "b": 1.5}}, thing{Any: map[string]any{"a": uint64(1<<64 - 1), "b": int64(1)}},
			"Any[a]: -1 -> 18446744073709551615; Any[b]: 1.5 -> 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "a block that went and said nothing" {
				c.want = fmt.Sprintf("Block: %v -> <nil>", item{})
			}
			if got := show(Between(c.old, c.new)); got != c.want {
				t.Errorf("is  %s\nnot %s", got, c.want)
			}
			if Equal(c.old, c.new) != (c.want == "") {
				t.Errorf("Equal says otherwise")
			}
		})
	}
}

func drawThing(t *rapid.T) thing {
	texts := rapid.MapOfN(rapid.SampledFrom([]string{"A", "B"}), rapid.SampledFrom([]string{"", "1"}), 0, 2)
	items := rapid.Custom(func(t *rapid.T) item {
		return item{rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "name"), rapid.IntRange(0, 1).Draw(t, "size")}
	})
	x := thing{
		Text: rapid.SampledFrom([]string{"", "x"}).Draw(t, "text"), Count: rapid.IntRange(0, 1).Draw(t, "count"),
		When: time.Unix(int64(rapid.IntRange(0, 1).Draw(t, "when")), 0), Env: texts.Draw(t, "env"),
		Words: rapid.SliceOfN(rapid.SampledFrom([]string{"", "w"}), 0, 2).Draw(t, "words"), Items: rapid.SliceOfN(items, 0, 3).Draw(t, "items"),
	}
	if rapid.Bool().Draw(t, "block") {
		b := items.Draw(t, "block")
		x.Block = &b
	}
	return x
}

// Changes are the same seen from the other side, Equal agrees with Between,
// every path leads somewhere, and a value does not differ from itself.
func TestBetweenIsFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawThing(t), drawThing(t)
		there, back := Between(a, b), Between(b, a)
		for i := range back {
			back[i].Old, back[i].New = back[i].New, back[i].Old
		}
		if !slices.EqualFunc(there, back, func(x, y Change) bool { return reflect.DeepEqual(x, y) }) {
			t.Fatalf("there %s\nback %s", show(there), show(back))
		}
		if Equal(a, b) != (len(there) == 0) {
			t.Fatalf("Equal is %v, but %s", Equal(a, b), show(there))
		}
		seen := map[string]bool{}
		for _, c := range there {
			if p := c.Path.String(); p == "" || seen[p] {
				t.Fatalf("path %q", p)
			}
			seen[c.Path.String()] = true
			if c.Old == nil && c.New == nil {
				t.Fatalf("%s says nothing", c.Path)
			}
		}
		if d := Between(a, a); len(d) > 0 {
			t.Fatalf("differs from itself: %s", show(d))
		}
	})
}
