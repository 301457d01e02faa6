package expr

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var props = map[string]any{
	"kind": "raw", "priority": int64(3), "load": 0.5, "hot": true,
	"regions": []any{"eu", "us"}, "sizes": []any{int64(1), int64(2)},
}

func lookup(name string) (any, bool) { v, ok := props[name]; return v, ok }

func TestEval(t *testing.T) {
	for text, want := range map[string]string{
		`true`:  "true",
		`false`: "false",
		`hot`:   "true",
		`!hot`:  "false",
		`kind == "raw" && priority >= 3 && "eu" in regions`: "true",
		`kind == "raw" && priority > 3`:                     "false",
		`kind != "raw" || "asia" in regions`:                "false",
		`nobody`:                                            "unknown",
		`!nobody`:                                           "unknown",
		`true || nobody`:                                    "true",
		`nobody || true`:                                    "true",
		`nobody || false`:                                   "unknown",
		`nobody && false`:                                   "false",
		`false && nobody`:                                   "false",
		`nobody && true`:                                    "unknown",
		`nobody == 3`:                                       "unknown",
		`3 in nobody`:                                       "unknown",
		`nobody + 1 > 0`:                                    "unknown",
		`regions[nobody] == "eu"`:                           "unknown",
		`[1, nobody] == [1, 2]`:                             "unknown",
		`1 + 2 * 3 == 7`:                                    "true",
		`(1 + 2) * 3 == 9`:                                  "true",
		`7 % 4 == 3 && 7 / 2 == 3 && 7.0 / 2 == 3.5`:        "true",
		`-priority < 0 && - 3 == -priority`:                 "true",
		`priority == 3.0 && load < 1`:                       "true",
		`"a" + "b" == "ab" && "a" < "b"`:                    "true",
		`regions[0] == "eu" && sizes[priority - 2] == 2`:    "true",
		`[1, 2] == sizes && [] != sizes`:                    "true",
		`(int64)"12" == 12 && (rstring)12 == "12" && (float64)3 / 2 == 1.5`: "true",
		`(boolean)1 && (int64)true == 1 && (int64)2.9 == 2`:                 "true",
		`hash("a") == hash("a") && hash("a") != hash("b") && hash(1) >= 0`:  "true",
		`(kind) == ("raw")`:                    "true",
		`"a\"\\\n" != "a"`:                     "true",
		`1e3 == 1000 && .5 == load`:            "true",
		`false && 1 / 0 == 1`:                  "false", // decided before
		`true || kind == 1`:                    "true",
		`false || 1 / 0 == 1`:                  "error: division by zero",
		`1 % 0 == 1`:                           "error: division by zero",
		`1.0 / 0.0 > 1`:                        "error: division by zero",
		`kind == 1`:                            "error: rstring and int64 cannot be compared",
		`kind < 1`:                             "error: rstring and int64 cannot be ordered",
		`regions < regions`:                    "error: list and list cannot be ordered",
		`kind - "a" == "b"`:                    "error: operator - cannot be applied to rstring and rstring",
		`!kind`:                                `error: operator ! cannot be applied to "raw"`,
		`-hot`:                                 "error: operator - cannot be applied to true",
		`priority`:                             "error: 3 is not a boolean",
		`priority && hot`:                      "error: 3 is not a boolean",
		`nobody && kind`:                       `error: "raw" is not a boolean`,
		`regions[2] == "x"`:                    "error: index 2 is out of range of a list of 2",
		`regions[-1] == "x"`:                   "error: index -1 is out of range of a list of 2",
		`regions["a"] == "x"`:                  `error: index "a" is out of range of a list of 2`,
		`kind[0] == "r"`:                       `error: "raw" is not a list`,
		`"r" in kind`:                          `error: "raw" is not a list`,
		`1 in regions`:                         "error: int64 and rstring cannot be compared",
		`(int64)"x" == 1`:                      `error: "x" cannot be cast to int64`,
		`(boolean)1.5`:                         "error: 1.5 cannot be cast to boolean",
		`(int64)1e300 == 1`:                    "error: 1e+300 cannot be cast to int64",
		`hash(regions) == 1`:                   "error: a list of 2 cannot be hashed",
		`-9223372036854775807 - 1 < 0`:         "true",
		`9223372036854775807 + 1 < 0`:          "true", // as integers of 64 bits do
		`9007199254740993 == 9007199254740992`: "false",
	} {
		e, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		truth, err := e.Eval(lookup)
		got := truth.String()
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != want {
			t.Errorf("%s is %s, wanted is %s", text, got, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		``:                          "empty",
		"  \n":                      "empty",
		`a ==`:                      "column 5: expected a value, got the end",
		`a b`:                       `column 3: expected an operator, got "b"`,
		`a == "x`:                   "column 6: unterminated string",
		`"\x"`:                      `column 2: unknown escape "\\x"`,
		`"\`:                        "unterminated string",
		`(a`:                        `column 3: expected ")", got the end`,
		`a[1`:                       `expected "]"`,
		`[1 2]`:                     `expected "]", got 2`,
		`a & b`:                     `column 3: operator "&" is not supported`,
		`a << 2`:                    `operator "<<" is not supported`,
		`a | b`:                     `operator "|" is not supported`,
		`~a`:                        `operator "~" is not supported`,
		`a = b`:                     `column 3: unexpected character '='`,
		`a == 'x'`:                  `unexpected character '\''`,
		`12abc == 1`:                `column 1: "12a" is not a number`,
		`1.2.3 == 1`:                `"1.2.3" is not a 64-bit number`,
		`99999999999999999999 == 1`: "is not a 64-bit number",
		`f(1)`:                      `column 1: unknown function "f": want hash`,
		`hash()`:                    "expected a value",
		"\"\xff\" == a":             "not UTF-8",
		strings.Repeat("(", 200) + "a" + strings.Repeat(")", 200): "nested",
		strings.Repeat("!", 200) + "a":                            "nested",
		strings.Repeat("a", MaxLength+1):                          "must be at most 4096 bytes, got 4097",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, wanted is %q", text, err, want)
		}
	}
}

// Not knowing more never turns a decision round: what is true or false stays so
// whatever the missing property turns out to be.
func TestUnknownIsCautious(t *testing.T) {
	names := []string{"a", "b", "c"}
	var draw func(t *rapid.T, depth int) string
	draw = func(t *rapid.T, depth int) string {
		if depth == 0 || rapid.IntRange(0, 3).Draw(t, "leaf") == 0 {
			return rapid.SampledFrom(append(names, "true", "false")).Draw(t, "name")
		}
		if rapid.Bool().Draw(t, "not") {
			return "!(" + draw(t, depth-1) + ")"
		}
		return "(" + draw(t, depth-1) + rapid.SampledFrom([]string{" && ", " || ", " == "}).Draw(t, "op") + draw(t, depth-1) + ")"
	}
	rapid.Check(t, func(t *rapid.T) {
		e, err := Parse(draw(t, 5))
		if err != nil {
			t.Fatal(err)
		}
		known := map[string]any{}
		for _, n := range names {
			if rapid.Bool().Draw(t, "is known") {
				known[n] = rapid.Bool().Draw(t, "value")
			}
		}
		before, err := e.Eval(func(n string) (any, bool) { v, ok := known[n]; return v, ok })
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			if _, ok := known[n]; !ok {
				known[n] = rapid.Bool().Draw(t, "turns out")
			}
		}
		after, err := e.Eval(func(n string) (any, bool) { v, ok := known[n]; return v, ok })
		if err != nil || after == Unknown || before != Unknown && before != after {
			t.Fatalf("%s is %v, then %v: %v", e, before, after, err)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{`kind == "raw" && priority >= 3 && "eu" in regions`, `(int64)a[1] / -2 % 3 < 4.5e1`, `!hash("x")`, `[[1],[]] != x`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := Parse(text)
		if err != nil {
			return
		}
		first, err1 := e.Eval(lookup)
		again, err2 := e.Eval(lookup)
		if first != again || (err1 == nil) != (err2 == nil) {
			t.Fatalf("%q is %v %v, then %v %v", text, first, err1, again, err2)
		}
	})
}

// What a condition requires is what it cannot be true without.
func TestRequires(t *testing.T) {
	for text, want := range map[string]string{
		`kind == "raw" && priority >= 3 && 2 == n`: "kind raw, n 2",
		`(a == 1 && b == true) && "eu" in regions`: "a 1, b true",
		`a == 1 || b == 2`:                         "",
		`!(a == 1)`:                                "",
		`a == b && a == [1]`:                       "",
		`a == 1.5 && a == 1.5`:                     "a 1.5, a 1.5",
		`a == 1 && (b == 2 || c == 3)`:             "a 1",
		`a != 1`:                                   "",
		`(a)`:                                      "",
	} {
		e, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range e.Requires() {
			got = append(got, fmt.Sprintf("%s %v", r.Name, r.Value))
		}
		if s := strings.Join(got, ", "); s != want {
			t.Errorf("%s requires %q; want %q", text, s, want)
		}
	}
}
