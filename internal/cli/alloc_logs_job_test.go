package cli

import (
	"bytes"
	"strings"
	"testing"
)

// Lines of several outputs stay whole, and each has its label.
func TestLabels(t *testing.T) {
	var out, errs bytes.Buffer
	to := &shared{out: &out, err: &errs}
	a, b := &labelled{to: to, label: "a | "}, &labelled{to: to, label: "b | "}
	for _, w := range []struct {
		to   *labelled
		text string
	}{{a, "one\ntw"}, {b, "first\n"}, {a, "o\n\nthree"}, {b, ""}, {b, "second"}, {a, "\n"}} {
		if err := w.to.write([]byte(w.text)); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range []*labelled{a, b, b} {
		if err := l.flush(); err != nil {
			t.Fatal(err)
		}
	}
	a.note("lost %d", 1)
	if got, want := out.String(), "a | one\nb | first\na | two\na | \na | three\nb | second\n"; got != want || errs.String() != "a | lost 1\n" {
		t.Errorf("got %q and %q, want %q", got, errs.String(), want)
	}
	// A line without end is not held back for ever.
	out.Reset()
	if err := a.write([]byte(strings.Repeat("x", maxLine))); err != nil || out.Len() != len("a | ")+maxLine+1 {
		t.Errorf("%d bytes, %v", out.Len(), err)
	}
}
