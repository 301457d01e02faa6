package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"berth"
)

func file(t testing.TB, of ...string) (b []byte) {
	t.Helper()
	for _, what := range of {
		var err error
		if b, err = Append(b, what, map[string]string{"says": what + "\n<second line>"}); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func TestWhatIsAppendedIsReadInOrder(t *testing.T) {
	b := file(t, "one", "of two words", "")
	for _, want := range []string{"one", "of two words", ""} {
		what, body, rest, err := Next(b)
		if err != nil || what != want || !json.Valid(body) {
			t.Fatalf("%q, %q, %v; want %q", what, body, err, want)
		}
		b = rest
	}
	if _, _, _, err := Next(b); err != io.EOF {
		t.Error(err)
	}
	if _, err := Append(nil, "function", func() {}); err == nil {
		t.Error("a function was written")
	}
}

func TestDecode(t *testing.T) {
	var v map[string]string
	if err := Decode(file(t, "state"), "state", &v); err != nil || v["says"] != "state\n<second line>" {
		t.Errorf("%v, %v", v, err)
	}
	text, err := Append(nil, "state", "text")
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{
		"nothing": nil, "another": file(t, "status"), "two": file(t, "state", "state"), "of another type": text, "cut": file(t, "state")[:30],
	} {
		if err := Decode(b, "state", &v); berth.KindOf(err) != berth.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Every bit counts, and so does every byte that is missing.
func TestDamageIsNoticed(t *testing.T) {
	good := file(t, "state")
	for i := range len(good) * 8 {
		bad := bytes.Clone(good)
		bad[i/8] ^= 1 << (i % 8)
		if _, _, _, err := Next(bad); err == nil {
			t.Errorf("bit %d", i)
		}
	}
	for n := 1; n < len(good); n++ {
		if _, _, _, err := Next(good[:n]); err != io.ErrUnexpectedEOF {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

func FuzzNext(f *testing.F) {
	good := file(f, "one", "two")
	f.Add(good)
	f.Add(good[:len(good)-5])
	f.Add([]byte("berth 1 00000000 \n\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for {
			what, body, rest, err := Next(b)
			if err != nil {
				if err != io.EOF && err != io.ErrUnexpectedEOF && berth.KindOf(err) != berth.Invalid {
					t.Error(err)
				}
				return
			}
			var v any
			if json.Unmarshal(body, &v) == nil {
				again, err := Append(nil, what, json.RawMessage(body))
				if _, _, _, e := Next(again); errors.Join(err, e) != nil {
					t.Errorf("%q of %q: %v, %v", body, what, err, e)
				}
			}
			if len(rest) >= len(b) {
				t.Fatal("no progress")
			}
			b = rest
		}
	})
}
