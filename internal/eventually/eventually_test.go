package eventually_test

import (
	"testing"

	"berth/internal/eventually"
)

// What an earlier answer said and the new one leaves out is not there.
func TestDecode(t *testing.T) {
	type row struct {
		ID     string
		Reason string `json:",omitempty"`
	}
	var got struct {
		Rows []row
		Meta map[string]string
	}
	for _, text := range []string{`{"Rows": [{"ID": "a", "Reason": "lost"}], "Meta": {"k": "v"}}`, `{"Rows": [{"ID": "b"}], "Meta": {"l": "w"}}`} {
		if err := eventually.Decode([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
	}
	if len(got.Rows) != 1 || got.Rows[0] != (row{ID: "b"}) || len(got.Meta) != 1 || got.Meta["l"] != "w" {
		t.Errorf("the second answer is %+v", got)
	}
	if err := eventually.Decode([]byte(`{`), &got); err == nil || got.Rows != nil {
		t.Errorf("half an answer: %v, %+v", err, got)
	}
	if err := eventually.Decode([]byte(`{}`), got); err == nil {
		t.Error("a value that is no pointer was decoded into")
	}
}
