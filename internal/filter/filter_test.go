package filter_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"berth"
	"berth/internal/filter"

	"pgregory.net/rapid"
)

// thing has a field of every kind that the API shows.
type thing struct {
	ID      berth.NodeID
	Name    string
	Secret  string `json:"-"`
	Level   int
	Size    uint64
	Load    float32
	On      bool
	Tags    []string
	Sizes   []int
	Meta    map[string]string
	Block   *block
	Blocks  map[string]*block
	List    []block
	Free    map[string]any
	Renamed string `json:"other_name,omitempty"`
	unshown string
	Embedded
}

// Embedded is shown as part of what embeds it.
type Embedded struct{ Deep string }

type block struct {
	Enabled bool
	Names   []string
	Inner   *block
}

// computed is a second part of the object.
type computed struct {
	Status string
	Name   int // hidden by the first part
}

var full = &thing{
	ID: berth.NodeID{1}, Name: "web", Secret: "s", Level: -3, Size: 7, Load: 0.5, On: true, Tags: []string{"a", "b"}, Sizes: []int{1, 2},
	Meta: map[string]string{"kernel.name": "linux", "x": ""}, Block: &block{Enabled: true, Names: []string{"n"}},
	Blocks: map[string]*block{"one": {Enabled: true}, "none": nil}, List: []block{{}, {Names: []string{"z"}}},
	Free: map[string]any{"n": 3.0, "s": "text", "l": []any{"p", 2.0}, "m": map[string]any{"deep": true}}, Renamed: "r", Embedded: Embedded{"d"}, unshown: "s",
}

// match compiles and evaluates an expression, and returns the error as text.
func match(text string, v *thing) string {
	f, err := filter.Compile(text, filter.Part{Type: reflect.TypeFor[*thing]()}, filter.Part{Type: reflect.TypeFor[computed]()})
	if err != nil {
		return err.Error()
	}
	ok, err := f.Match(func(i int) any { return []any{v, computed{Status: "ready", Name: 1}}[i] })
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(ok)
}

func TestMatch(t *testing.T) {
	for text, want := range map[string]string{
		`Name == "web"`: "true",
		`Name != "web"`: "false",
		`ID == "01000000-0000-0000-0000-000000000000"`:        "true",
		`ID matches "^0100"`:                                  "true",
		`Level == -3 and Size == 7 and Load == 0.5 and On`:    "failed to read filter expression",
		`Level == -3 and Size == 7 and Load == 0.5`:           "true",
		`On == true and not On == false`:                      "true",
		`Level == 1 or Name == "web"`:                         "true",
		`Meta["kernel.name"] == "linux"`:                      "true",
		`Meta["kernel.name"] != "linux"`:                      "false",
		`Meta.x is empty and Meta is not empty`:               "true",
		`Meta.nobody == "x"`:                                  "false",
		`Meta.nobody != "x"`:                                  "true",
		`Meta.nobody is nil`:                                  "true",
		`"x" in Meta and "y" not in Meta`:                     "true",
		`Meta contains "x"`:                                   "true",
		`"a" in Tags and "c" not in Tags and Tags contains b`: "true",
		`2 in Sizes`:   "true",
		`"we" in Name`: "true",
		`Name matches "^w.b$" and Name not matches "x"`:      "true",
		`Block is not nil and Block.Inner is nil`:            "true",
		`Block.Enabled == true`:                              "true",
		`Block.Inner.Enabled == true`:                        "false",
		`Block.Inner.Enabled != true`:                        "true",
		`Block.Inner is empty and Block is not empty`:        "true",
		`Blocks.one.Enabled == true`:                         "true",
		`Blocks.none.Enabled == true`:                        "false",
		`List.1.Names.0 == "z"`:                              "true",
		`List.7.Enabled == true`:                             "false",
		`Free.n == 3 and Free.s == "text" and "p" in Free.l`: "true",
		`Free.m.deep == true and Free.m.none is nil`:         "true",
		`Free.s == 3 or Free.l == 1`:                         "false",
		`other_name == "r" and Deep == "d"`:                  "true",
		`Status == "ready"`:                                  "true",
		`any Tags as t { t == "b" }`:                         "true",
		`all Tags as t { t == "b" }`:                         "false",
		`all Tags as i, t { i == 0 or t == "b" }`:            "true",
		`any Meta as k { k == "x" }`:                         "true",
		`any Meta as k, v { v == "linux" and k != "x" }`:     "true",
		`any Blocks as _, b { b.Enabled == true }`:           "true",
		`any List as b { any b.Names as n { n == "z" } }`:    "true",
		`all Block.Inner.Names as n { n == "z" }`:            "true",
		`any Free.l as x { x == "p" }`:                       "true",

		`Secret == "s"`:               `filter: unknown field "Secret"`,
		`unshown == "s"`:              `filter: unknown field "unshown"`,
		`Renamed == "r"`:              `filter: unknown field "Renamed"`,
		`Nobody == "s"`:               `filter: unknown field "Nobody"`,
		`Block.Nobody == 1`:           `filter: Block: unknown field "Nobody"`,
		`Block.Inner.Nobody == 1`:     `filter: Block.Inner: unknown field "Nobody"`,
		`Name.x == "s"`:               `filter: Name: is text and has no field "x"`,
		`Level.x == "s"`:              `filter: Level: has no field "x"`,
		`Tags.x == "s"`:               `filter: Tags: is a list: "x" is not an index`,
		`Level == "high"`:             `filter: Level: must be compared with an integer, got "high"`,
		`Size == -1`:                  `filter: Size: must be compared with a positive integer, got "-1"`,
		`Load == x`:                   `filter: Load: must be compared with a number, got "x"`,
		`On == maybe`:                 `filter: On: must be compared with true or false, got "maybe"`,
		`Block == true`:               `filter: Block: is a block and cannot be compared with "true"`,
		`x in Level`:                  `filter: Level: is a number and contains nothing`,
		`x in Sizes`:                  `filter: Sizes: must be compared with an integer, got "x"`,
		`Level is empty`:              `filter: Level: is a number, which is never empty`,
		`Name is nil`:                 `filter: Name: is a text, which is never nil`,
		`Level matches "x"`:           `filter: Level: is a number and not text`,
		`Name matches "(("`:           `filter: Name: "((" is not a regular expression`,
		`any Name as n { n == "a" }`:  `filter: Name is a text, not a list or a map`,
		`any Tags as t { t.x == "a"}`: `filter: t: is text and has no field "x"`,
		strings.Repeat("x", 3000):     `filter: 3000 bytes is too long: the limit is 2048`,
	} {
		if got := match(text, full); got != want && !(len(want) > 5 && strings.HasPrefix(got, want)) {
			t.Errorf("%s\n is %s\nnot %s", text, got, want)
		}
	}
}

// Nothing in an empty object makes an expression fail: what is absent is empty, nil
// and equal to nothing.
func TestAnEmptyObject(t *testing.T) {
	for text, want := range map[string]string{
		`Block is nil and Blocks is nil and Meta is nil and List is nil`: "true",
		`Block is empty and Blocks is empty and Tags is empty`:           "true",
		`Block.Inner.Enabled == false`:                                   "false",
		`Block.Names contains "n"`:                                       "false",
		`Free.m.deep == true or Meta["x"] == "y"`:                        "false",
		`all Tags as t { t == "b" }`:                                     "true",
		`any Free.l as t { t == "b" }`:                                   "false",
		`ID == "" and ID is empty and Level == 0`:                        "true",
	} {
		if got := match(text, &thing{}); got != want {
			t.Errorf("%s is %s, not %s", text, got, want)
		}
	}
}

// Loops within loops end with an error rather than taking for ever.
func TestStepsAreBounded(t *testing.T) {
	long := &thing{Tags: make([]string, 1000)}
	text := `Name == "x"`
	for i := range 5 {
		text = fmt.Sprintf(`any Tags as t%d { %s }`, i, text)
	}
	if got := match(text, long); got != "filter: the expression takes too many steps on one object" {
		t.Error(got)
	}
}

// Parts are only put together if the expression looks at them.
func TestPartsAreAskedForOnce(t *testing.T) {
	f, err := filter.Compile(`Name == "web" and Level == -3 and Status == "x"`, filter.Part{Type: reflect.TypeFor[thing](), Without: []string{"Level"}},
		filter.Part{Type: reflect.TypeFor[thing]()}, filter.Part{Type: reflect.TypeFor[computed]()})
	if err != nil {
		t.Fatal(err)
	}
	asked := [3]int{}
	parts := []any{*full, full, computed{Status: "x"}}
	if ok, err := f.Match(func(i int) any { asked[i]++; return parts[i] }); !ok || err != nil || asked != [3]int{1, 1, 1} {
		t.Error(ok, err, asked)
	}
	asked = [3]int{}
	if ok, _ := f.Match(func(i int) any { asked[i]++; return &thing{} }); ok || asked != [3]int{1, 0, 0} {
		t.Error(ok, asked)
	}
}

// An expression and its negation are never both true, and no expression makes
// evaluation panic.
func TestNegation(t *testing.T) {
	fields := []string{"ID", "Name", "Level", "Size", "Load", "On", "Tags", "Sizes", "Meta", "Meta.x", "Block", "Block.Inner", "Block.Inner.Enabled", "Blocks.one.Names", "List.0", "Free", "Free.n", "Free.l", "Free.m.deep", "Nobody"}
	rapid.Check(t, func(t *rapid.T) {
		field := rapid.SampledFrom(fields).Draw(t, "field")
		value := rapid.SampledFrom([]string{"", "web", "3", "-3", "true", "0.5", "x"}).Draw(t, "value")
		pair := rapid.SampledFrom([][2]string{
			{`%s == "%s"`, `%s != "%s"`}, {`%[1]s is empty`, `%[1]s is not empty`}, {`%[1]s is nil`, `%[1]s is not nil`},
			{`"%[2]s" in %[1]s`, `"%[2]s" not in %[1]s`}, {`%s matches "%s"`, `%s not matches "%s"`},
		}).Draw(t, "operator")
		object := rapid.SampledFrom([]*thing{full, {}}).Draw(t, "object")
		fill := func(form string) string {
			if strings.Contains(form, "is ") {
				return fmt.Sprintf(form, field)
			}
			return fmt.Sprintf(form, field, value)
		}
		yes, no := match(fill(pair[0]), object), match(fill(pair[1]), object)
		if (yes == "true") != (no == "false") || (yes == "false") != (no == "true") {
			if !strings.HasPrefix(field, "Free.") { // what a test does not apply to fails it either way
				t.Fatalf("%s is %s, %s is %s", fill(pair[0]), yes, fill(pair[1]), no)
			}
		}
	})
}

func FuzzCompile(f *testing.F) {
	for _, s := range []string{`Name == "web"`, `any Meta as k, v { v == "linux" and k != "x" }`, `not (Block.Inner is nil or 2 in Sizes)`, `all List as b { b.Names.0 matches "z" }`, `"/Meta/x" == 1`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if first, again := match(text, full), match(text, full); first != again {
			t.Fatalf("%q differs from itself", text)
		}
		match(text, &thing{})
	})
}

// What a row costs: a comparison, a map lookup, and a loop.
func BenchmarkMatch(b *testing.B) {
	for _, text := range []string{`Level == -3`, `Meta["kernel.name"] == "linux"`, `ID == "01000000-0000-0000-0000-000000000000"`, `any Blocks as _, b { b.Enabled == true }`} {
		b.Run(text, func(b *testing.B) {
			f, err := filter.Compile(text, filter.Part{Type: reflect.TypeFor[*thing]()})
			if err != nil {
				b.Fatal(err)
			}
			part := func(int) any { return full }
			b.ReportAllocs()
			for b.Loop() {
				if ok, err := f.Match(part); !ok || err != nil {
					b.Fatal(ok, err)
				}
			}
		})
	}
}
