package driverconfig

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"berth"
)

var update = flag.Bool("update", false, "rewrite docs/drivers.md")

var all = &Schema{"d", []Setting{
	{Key: "n", Kind: Integer, High: 10}, {Key: "f", Kind: Integer, High: 10}, {Key: "huge", Kind: Integer, High: 10}, {Key: "t"}, {Key: "missing"},
	{Key: "l", Kind: Strings}, {Key: "m", Kind: Strings}, {Key: "k", Kind: Strings}, {Key: "b", Kind: Bool}, {Key: "d", Kind: Duration}, {Key: "must", Required: true},
}}

// read returns the values of a config with all required settings.
func read(t *testing.T, key string, v any) Values {
	t.Helper()
	values, err := all.Read(map[string]any{key: v, "must": "x"})
	if err != nil {
		t.Errorf("%T: %v", v, err)
	}
	return values
}

// A setting can be read as JSON, msgpack or interpolation produced it.
func TestValuesHoweverTheyAreWritten(t *testing.T) {
	for _, v := range []any{5, int8(5), int16(5), int32(5), int64(5), uint8(5), uint16(5), uint32(5), uint64(5), 5.0, "5", []byte("5")} {
		if n := read(t, "n", v).Integer("n"); n != 5 {
			t.Errorf("%T: %d", v, n)
		}
	}
	for _, v := range []any{"90s", []byte("1m30s"), int64(90 * time.Second), 9e10} {
		if d := read(t, "d", v).Duration("d"); d != 90*time.Second {
			t.Errorf("%T: %v", v, d)
		}
	}
	for _, v := range []any{true, "true", []byte("1")} {
		if !read(t, "b", v).Bool("b") {
			t.Errorf("%T", v)
		}
	}
	s := read(t, "l", []any{"x", []byte("y")})
	if got := fmt.Sprint(s.Strings("l"), read(t, "m", []string{"z"}).Strings("m"), read(t, "k", nil).Strings("k"), s.String("missing")); got != "[x y] [z] []" {
		t.Error(got)
	}
}

// A misspelled setting is one problem, not two.
func TestReadSuggestsSettings(t *testing.T) {
	_, err := Of("raw_exec").Read(map[string]any{"comand": "/bin/true"})
	const want = `config.comand: unknown setting of the driver raw_exec; did you mean "command"?`
	if err == nil || err.Error() != want {
		t.Errorf("got %v; want %s", err, want)
	}
}

func TestReadTellsAllThatIsWrong(t *testing.T) {
	_, err := all.Read(map[string]any{"n": 11, "f": 1.5, "t": 1, "l": []any{1}, "m": "x", "b": "maybe", "d": "-1s", "more": 1, "huge": uint64(1 << 63), "must": ""})
	if berth.KindOf(err) != berth.Invalid {
		t.Fatal(err)
	}
	for _, want := range []string{
		"config.n: must be 0 to 10, got 11", "config.f: must be an integer", "config.huge: must be an integer", "config.t: must be a string", "config.l[0]: must be a string",
		"config.m: must be a list of strings", "config.b: must be true or false", "config.d: must be a duration", "config.more: unknown setting of the driver d",
		"config.must: is missing; the driver d requires it",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing from\n%v", want, err)
		}
	}
}

// A string to be interpolated passes at registration and is checked when the
// driver reads it.
func TestInterpolationIsCheckedLate(t *testing.T) {
	config := map[string]any{"n": "${meta.n}", "must": "x"}
	if ps := all.Check("config", config); len(ps) > 0 {
		t.Error(ps)
	}
	if _, err := all.Read(config); err == nil {
		t.Error("a driver reads what was not interpolated")
	}
}

func TestReadingWhatIsNotDeclaredPanics(t *testing.T) {
	for _, key := range []string{"none", "n"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s was read", key)
				}
			}()
			Values{settings: all.Settings}.String(key)
		}()
	}
}

// docs/drivers.md has every setting of every driver.
func TestDocs(t *testing.T) {
	const file = "../../docs/drivers.md"
	var b strings.Builder
	b.WriteString("# Drivers\n\nWhat the `config` block of a task may hold, by its `driver`. Written by `go test ./internal/driverconfig -update`.\n")
	for _, name := range Drivers() {
		fmt.Fprintf(&b, "\n## %s\n\n| Key | Type | Description |\n|---|---|---|\n", name)
		row(&b, "", Of(name).Settings)
	}
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != b.String() {
		t.Errorf("%s differs from the schemas (%v); run the test with -update", file, err)
	}
}

// row writes a row for each setting, and below a block those for its own.
func row(b *strings.Builder, above string, settings []Setting) {
	for _, set := range settings {
		kind := set.Kind.String()
		if set.Kind == Integer {
			kind += fmt.Sprintf(", %d to %d", set.Low, set.High)
		}
		if set.Required {
			kind += ", required"
		}
		fmt.Fprintf(b, "| `%s%s` | %s | %s |\n", above, set.Key, kind, set.Doc)
		row(b, above+set.Key+".", set.Settings)
	}
}
