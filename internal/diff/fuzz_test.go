package diff

import (
	"reflect"
	"testing"

	"berth"
	"berth/internal/admit"
	"berth/internal/decode"
)

// FuzzJobs: any two jobs can be compared. A job does not differ from itself, and what
// one order adds the other deletes.
func FuzzJobs(f *testing.F) {
	const a = `{"ID":"j","TaskGroups":[{"Name":"g","Tasks":[{"Name":"t","Driver":"mock_driver","Env":{"a":"b"}}]}]}`
	const b = `{"ID":"j","Type":"batch","Meta":{"a":"1"},"TaskGroups":[{"Name":"g","Count":3,"Networks":[{"DynamicPorts":[{"Label":"http"}]}],"Tasks":[{"Name":"u","Driver":"mock_driver"}]},{"Name":"h","Tasks":[{"Name":"t","Driver":"exec","Config":{"command":"x"}}]}]}`
	f.Add([]byte(a), []byte(b))
	f.Add([]byte(b), []byte(b))
	f.Add([]byte(a), []byte(`null`))
	job := func(text []byte) *berth.Job {
		tree, err := decode.ParseJSON(text)
		if err != nil {
			return nil
		}
		j, err := admit.DecodeJob(tree, admit.FromJSON)
		if err != nil {
			return nil
		}
		return j
	}
	f.Fuzz(func(t *testing.T, old, new []byte) {
		a, b := job(old), job(new)
		if a == nil && b == nil {
			return
		}
		there, back := Jobs(a, b), Jobs(b, a)
		if len(there.TaskGroups) != len(back.TaskGroups) || (there.Type == None) != (back.Type == None) {
			t.Errorf("%s and %d groups one way, %s and %d groups the other", there.Type, len(there.TaskGroups), back.Type, len(back.TaskGroups))
		}
		if a != nil && b != nil && reflect.DeepEqual(a, b) && there.Type != None {
			t.Errorf("equal jobs differ: %+v", there)
		}
	})
}
