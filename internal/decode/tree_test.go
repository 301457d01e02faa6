package decode

import (
	"strings"
	"testing"

	"berth"

	"github.com/google/go-cmp/cmp"
)

func TestParseJSON(t *testing.T) {
	deep := func(n int) string { return `{"a":` + strings.Repeat("[", n) + strings.Repeat("]", n) + "}" }
	tests := []struct {
		name, text string
		want       Tree
		fault      string
	}{
		{"empty object", `{}`, Tree{}, ""},
		{"all kinds", ` {"n": null, "b": [true, false], "s": "x\u00e9\n", "i": -12.50e+3, "o": {"a": {}}, "l": []} `,
			Tree{"n": nil, "b": []any{true, false}, "s": "xé\n", "i": Number("-12.50e+3"), "o": Tree{"a": Tree{}}, "l": []any{}}, ""},
		{"names by case differ", `{"a": 1, "A": 2}`, Tree{"a": Number("1"), "A": Number("2")}, ""},
		{"deep enough", deep(63), nil, ""},
		{"too deep", deep(64), nil, "JSON: line 1, column 70: nested deeper than 64"},
		{"much too deep", deep(5000), nil, "JSON: line 1, column 70: nested deeper than 64"},
		{"too deep in objects", strings.Repeat(`{"a":`, 65) + "1" + strings.Repeat("}", 65), nil, "JSON: line 1, column 322: nested deeper than 64"},

		{"nothing", ``, nil, "JSON: line 1, column 1: unexpected end of text"},
		{"spaces", " \n ", nil, "JSON: line 1, column 1: unexpected end of text"},
		{"list", `[1]`, nil, "JSON: must be an object, got a list"},
		{"text", `"x"`, nil, "JSON: must be an object, got a string"},
		{"number", `1`, nil, "JSON: must be an object, got a number"},
		{"null", `null`, nil, "JSON: must be an object, got null"},
		{"cut off", "{\n\"a\": [1,", nil, "JSON: line 2, column 9 at /a: unexpected end of text"},
		{"more after it", `{} x`, nil, "JSON: line 1, column 3: unexpected text after the object"},
		{"another after it", `{}{}`, nil, "JSON: line 1, column 4: unexpected text after the object"},
		{"a name twice", `{"a": {"b": 1, "b": 2}}`, nil, "JSON: line 1, column 16 at /a/b: duplicate object member name"},
		{"not UTF-8", "{\"a\": \"x\xff\"}", nil, "JSON: line 1, column 9 at /a: invalid UTF-8"},
		{"half a surrogate", `{"a": "\ud800"}`, nil, "JSON: line 1, column 8 at /a: invalid surrogate pair `\\ud800\"}` in string"},
		{"NaN", `{"a": NaN}`, nil, "JSON: line 1, column 7 at /a: invalid character 'N' at start of value"},
		{"too large", `{"a": 1e400}`, nil, "JSON: line 1, column 12: number 1e400 is out of range"},
		{"too large and long", `{"a": 1` + strings.Repeat("0", 400) + `}`, nil, "JSON: line 1, column 408: number 1" + strings.Repeat("0", 31) + "… is out of range"},
		{"leading zero", `{"a": 01}`, nil, "JSON: line 1, column 8: invalid character '1' after object value (expecting ',' or '}')"},
		{"trailing comma", `{"a": 1,}`, nil, "JSON: line 1, column 8: invalid character ',' at start of value"},
		{"comment", "{} // x", nil, "JSON: line 1, column 3: unexpected text after the object"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseJSON([]byte(tt.text))
			if tt.fault != "" {
				if err == nil || err.Error() != tt.fault {
					t.Errorf("got  %v\nwant %s", err, tt.fault)
				}
				if berth.KindOf(err) != berth.Invalid {
					t.Errorf("kind %q", berth.KindOf(err))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); tt.want != nil && diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}
