// Package eventually helps tests to wait for what another goroutine or process
// does. A test watches for the event itself; Limit only ends a test that hangs.
package eventually

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

// Limit is how long a test waits before it reports a hang. It is far more than
// a busy machine needs, so that no result depends on how fast the machine is.
const Limit = 3 * time.Minute

// True waits until cond holds and fails the test after Limit. what completes the
// sentence "still waiting until ...".
func True(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(Limit); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %v still waiting until %s", Limit, what)
		}
	}
}

// Decode decodes JSON into the variable that into points to, which it clears
// first. A variable that an earlier poll filled would keep what the new text
// leaves out: a field with omitempty, a key of a map, a part of a list's row.
func Decode(text []byte, into any) error {
	if v := reflect.ValueOf(into); v.Kind() == reflect.Pointer && !v.IsNil() {
		v.Elem().SetZero()
	}
	return json.Unmarshal(text, into)
}
