package admit

import (
	"testing"

	"berth"
	"berth/internal/decode"
)

func FuzzDecodeJob(f *testing.F) {
	f.Add([]byte(`{"ID":"j","TaskGroups":[{"Name":"g","Tasks":[{"Name":"t","Driver":"raw_exec","Config":{"command":"x"}}]}]}`))
	f.Add([]byte(`{"ID":"j","Type":"batch","Reschedule":{"Attempts":1e3},"TaskGroups":[{"Networks":[{"DynamicPorts":[{"Label":"a","Value":1}]}]},null]}`))
	f.Add([]byte(`{"Constraints":[{"Operand":"regexp","RTarget":"("},{"Operand":"version","RTarget":">= 1"}],"Meta":{"a":null}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		tree, err := decode.ParseJSON(text)
		if err != nil {
			return
		}
		j, err := DecodeJob(tree, FromJSON)
		if err != nil {
			if berth.KindOf(err) != berth.Invalid {
				t.Errorf("kind %q of %v", berth.KindOf(err), err)
			}
			return
		}
		again(t, j)
	})
}
