package jobspec

import (
	"bytes"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"berth"
)

// Formatting aligns and indents, and keeps comments and order.
func TestFormat(t *testing.T) {
	in := "job \"a\" {\n# why\n  type=\"batch\" // short\n      priority   =    50\n group \"g\" {\n/* long\n   comment */\ncount=1\n}\n}\n"
	want := "job \"a\" {\n  # why\n  type     = \"batch\" // short\n  priority = 50\n  group \"g\" {\n    /* long\n   comment */\n    count = 1\n  }\n}\n"
	got, err := Format(File{Name: "a.hcl", Text: []byte(in)})
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
	_, err = Format(File{Name: "a.hcl", Text: []byte("job {\n  x = \n}\n")})
	if berth.KindOf(err) != berth.Invalid {
		t.Errorf("of a broken file: %v", err)
	}
	if _, err = Format(File{Name: "a.hcl", Text: make([]byte, MaxText+1)}); berth.KindOf(err) != berth.TooLarge {
		t.Errorf("of a large file: %v", err)
	}
}

// FuzzFormat: what can be formatted has the same tokens afterwards, and
// formatting it again changes nothing.
func FuzzFormat(f *testing.F) {
	for _, s := range []string{"a=1", "job \"x\" {\n# c\n a = [1,\n2]\n}", "a = <<-EOT\n  x ${b}\n  EOT\n", "a = {b=1, \"c\" : 2}", "x = a ? b : -c", "\ufeffa = 1", "a=1//x", "a {b=1}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		once, err := Format(File{Name: "f.hcl", Text: text})
		if err != nil {
			return
		}
		if len(once) > MaxText { // indentation made it grow beyond what is read
			return
		}
		twice, err := Format(File{Name: "f.hcl", Text: once})
		if err != nil {
			t.Fatalf("the result cannot be formatted: %v\n%q", err, once)
		}
		if !bytes.Equal(words(t, text), words(t, twice)) {
			t.Errorf("%q became %q", text, twice)
		}
	})
}

// words are the tokens of a text without the spaces between them.
func words(t *testing.T, text []byte) []byte {
	tokens, _ := hclsyntax.LexConfig(bytes.TrimPrefix(text, []byte("\ufeff")), "f.hcl", hcl.InitialPos)
	var out []byte
	for _, k := range tokens {
		out = append(append(out, bytes.TrimSpace(k.Bytes)...), 0)
	}
	return out
}
