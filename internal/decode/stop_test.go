package decode

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"berth"
)

// leaving is a context that ends when it has been looked at a number of times.
// Looks counts all of them.
type leaving struct {
	context.Context
	after, looks int
}

func (l *leaving) Err() error {
	if l.looks++; l.looks > l.after {
		return context.Canceled
	}
	return nil
}

// keys is the text of an object with n members.
func keys(n int) string {
	var b strings.Builder
	b.WriteByte('{')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"k%d":""`, i)
	}
	return b.String() + "}"
}

// A parse ends soon after its caller has left: within 512 values.
func TestAParseEndsWithItsCaller(t *testing.T) {
	ctx := &leaving{Context: t.Context(), after: 5}
	tree, err := ParseJSONContext(ctx, []byte(keys(100_000)))
	if tree != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%d keys, %v", len(tree), err)
	}
	if ctx.looks > ctx.after+2 { // the look that ends it, and the one for the cause
		t.Errorf("it looked %d times", ctx.looks)
	}
}

// So does filling a value from a tree, in all that repeats.
func TestFillingEndsWithItsCaller(t *testing.T) {
	many, list, objects := Tree{}, make([]any, 50_000), make([]any, 50_000)
	for i := range 50_000 {
		many[fmt.Sprint("k", i)], list[i], objects[i] = "v", "v", Tree{}
	}
	type block struct{ A string }
	for name, tree := range map[string]Tree{"unknown fields": many, "a map": {"Map": many}, "a list": {"List": list}, "blocks": {"Blocks": objects}} {
		ctx := &leaving{Context: t.Context(), after: 5}
		d := Decoder{Context: ctx}
		var in struct {
			Map    map[string]string
			List   []string
			Blocks []block
		}
		d.Fill(&in, tree, "body")
		if ctx.looks != ctx.after+1 || len(d.Problems) > 6*checkEvery {
			t.Errorf("%s: it looked %d times and has %d problems", name, ctx.looks, len(d.Problems))
		}
	}
}

// A text of few bytes can be a tree of many; values are counted wherever they
// are.
func TestTooManyValues(t *testing.T) {
	for name, text := range map[string]string{
		"members": keys(MaxValues),
		"lists":   `{"a":[` + strings.Repeat("[],", MaxValues) + `[]]}`,
		"objects": `{"a":[` + strings.Repeat(`{"b":0},`, MaxValues/2) + `{}]}`,
	} {
		if _, err := ParseJSON([]byte(text)); berth.KindOf(err) != berth.Invalid || !strings.Contains(err.Error(), ": more than 200000 values") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ParseJSON([]byte(keys(MaxValues - 1))); err != nil { // the object is one
		t.Error(err)
	}
}
