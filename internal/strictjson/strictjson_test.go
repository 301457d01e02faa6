package strictjson

import (
	"strings"
	"testing"
	"time"
)

func TestReadOne(t *testing.T) {
	skip := func(d *Decoder) (Kind, error) { return d.PeekKind(), d.SkipValue() }
	for _, c := range []struct {
		text, fault, pointer string
		line, column         int
	}{
		{text: ` {"a": [1, 2]} `},
		{text: ``, fault: "unexpected end of text", line: 1, column: 1},
		{text: "{\n\"a\": [1,", fault: "unexpected end of text", pointer: "/a", line: 2, column: 9},
		{text: "{} x", fault: "unexpected text after the object", line: 1, column: 3},
		{text: "{\n \"a\": {\"b\": 1, \"b\": 2}}", fault: "duplicate object member name", pointer: "/a/b", line: 2, column: 16},
		{text: "{\"a\": \"x\xff\"}", fault: "invalid UTF-8", pointer: "/a", line: 1, column: 9},
	} {
		_, f := ReadOne([]byte(c.text), skip)
		switch {
		case c.fault == "" && f != nil:
			t.Errorf("%q: %v", c.text, f)
		case c.fault != "" && (f == nil || f.Error() != c.fault || f.Line != c.line || f.Column != c.column || f.Pointer != c.pointer):
			t.Errorf("%q: %+v", c.text, f)
		}
	}
}

func TestDeeper(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for text, want := range map[string]bool{
		nested(3): false, nested(4): true, `{"a": 1, "a": ` + nested(2) + `}`: false, `{"a": 1, "a": ` + nested(3) + `}`: true,
		strings.Repeat("[", 4): true, "x" + nested(4): false, "": false,
	} {
		if got := Deeper(text, 3); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func TestCanonical(t *testing.T) {
	type old struct {
		Name string
		Wait time.Duration
		Meta map[string]string
		List []string
	}
	type newer struct {
		Name  string
		Added *old
		Wait  time.Duration
		More  int
		Meta  map[string]string
		List  []string
	}
	a, err := Canonical(old{"<a>", time.Second, map[string]string{"b": "2", "a": "1"}, nil})
	if want := `{"Name":"<a>","Wait":1000000000,"Meta":{"a":"1","b":"2"}}`; err != nil || string(a) != want {
		t.Errorf("%s, %v", a, err)
	}
	b, err := Canonical(newer{Name: "<a>", Wait: time.Second, Meta: map[string]string{"a": "1", "b": "2"}})
	if err != nil || string(a) != string(b) {
		t.Errorf("%s with more fields, %v", b, err)
	}
}
