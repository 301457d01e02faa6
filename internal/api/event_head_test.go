package api

import (
	"encoding/json"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"berth/op"
)

// What is written of an event without its row is JSON of the same values.
func TestHeadsOfEventsAreJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := op.EventHead{FilterKeys: []string{}}
		for _, s := range []*string{&want.Topic, &want.Type, &want.Key, &want.Namespace} {
			*s = rapid.String().Draw(t, "text")
		}
		want.FilterKeys = append(want.FilterKeys, rapid.SliceOf(rapid.String()).Draw(t, "keys")...)
		want.Index = rapid.Uint64().Draw(t, "index")
		text := appendHead(nil, want)
		var got op.EventHead
		if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: %v %+v; want %+v", text, err, got, want)
		}
	})
}

func BenchmarkEventHead(b *testing.B) {
	h := op.EventHead{
		Topic: "Allocation", Type: "AllocationUpdated", Key: "6f1c0a52-9d4e-4b7c-a6f0-0d8e6f1c0a52", Namespace: "default", Index: 123456,
		FilterKeys: []string{"svc-1234", "6f1c0a52-9d4e-4b7c-a6f0-0d8e6f1c0a53", "6f1c0a52-9d4e-4b7c-a6f0-0d8e6f1c0a54", "6f1c0a52-9d4e-4b7c-a6f0-0d8e6f1c0a55"},
	}
	b.Run("appended", func(b *testing.B) {
		var text []byte
		for b.Loop() {
			text = appendHead(text[:0], h)
		}
	})
	b.Run("marshalled", func(b *testing.B) {
		for b.Loop() {
			_, _ = json.Marshal(h)
		}
	})
}
