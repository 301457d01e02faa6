package admit

import (
	"testing"

	"berth"
	"berth/internal/decode"

	"github.com/google/go-cmp/cmp"
)

// A service without an update block is updated one instance at a time, like a
// system job, from JSON and HCL and whatever other groups have. max_parallel =
// 0 updates all at once, for the job or for one group.
func TestDefaultUpdate(t *testing.T) {
	one, three := defaultUpdate(), defaultUpdate()
	three.MaxParallel = 3
	none := defaultUpdate()
	none.MaxParallel = 0
	for _, tt := range []struct {
		name, kind string
		job, first any // what the job and its first group say; the second says nothing
		of, a, b   *berth.UpdateStrategy
	}{
		{"nothing said", berth.TypeService, nil, nil, &one, &one, &one},
		{"nothing said, no type", "", nil, nil, &one, &one, &one},
		{"an empty block", berth.TypeService, decode.Tree{}, nil, &one, &one, &one},
		{"one group says something", berth.TypeService, nil, decode.Tree{"MaxParallel": decode.Number("3")}, &one, &three, &one},
		{"one group is updated at once", berth.TypeService, nil, decode.Tree{"MaxParallel": decode.Number("0")}, &one, &none, &one},
		{"all are updated at once", berth.TypeService, decode.Tree{"MaxParallel": decode.Number("0")}, nil, &none, &none, &none},
		{"all but one are updated at once", berth.TypeService, decode.Tree{"MaxParallel": decode.Number("0")}, decode.Tree{"MaxParallel": decode.Number("3")}, &none, &three, &none},
		{"system", berth.TypeSystem, nil, nil, &one, &one, &one},
		{"batch", berth.TypeBatch, nil, nil, nil, nil, nil},
		{"sysbatch", berth.TypeSysbatch, nil, nil, nil, nil, nil},
	} {
		for _, from := range []Source{FromJSON, FromHCL} {
			task := []any{decode.Tree{"Name": "t", "Driver": "mock_driver"}}
			j, err := DecodeJob(decode.Tree{"ID": "j", "Type": tt.kind, "Update": tt.job, "TaskGroups": []any{
				decode.Tree{"Name": "a", "Update": tt.first, "Tasks": task}, decode.Tree{"Name": "b", "Tasks": task},
			}}, from)
			if err != nil {
				t.Fatalf("%s: %v", tt.name, err)
			}
			if diff := cmp.Diff([]*berth.UpdateStrategy{tt.of, tt.a, tt.b}, []*berth.UpdateStrategy{j.Update, j.TaskGroups[0].Update, j.TaskGroups[1].Update}); diff != "" {
				t.Errorf("%s, source %d: -want +got\n%s", tt.name, from, diff)
			}
		}
	}
}
