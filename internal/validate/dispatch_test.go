package validate

import (
	"strings"
	"testing"

	"berth"
)

// What a child is given must be what its parent takes.
func TestWhatAChildIsGiven(t *testing.T) {
	p := &berth.ParameterizedConfig{Payload: berth.PayloadRequired, MetaRequired: []string{"user", "day"}, MetaOptional: []string{"note"}}
	err := Dispatch(p, nil, map[string]string{"day": "1", "colour": "red", "age": "5"})
	for _, want := range []string{
		"Payload: is missing; the job requires one", "Meta: the job requires user",
		"Meta: unknown keys age, colour: want user, day, note",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\ndoes not say %q", err, want)
		}
	}
	whole := map[string]string{"user": "", "day": "1", "note": "x"}
	if err := Dispatch(p, make([]byte, berth.MaxPayload), whole); err != nil {
		t.Error(err)
	}
	if err := Dispatch(p, make([]byte, berth.MaxPayload+1), whole); err == nil || !strings.Contains(err.Error(), "Payload: must be at most 16384 bytes, got 16385") {
		t.Error(err)
	}
	if err := Dispatch(&berth.ParameterizedConfig{Payload: berth.PayloadForbidden}, []byte("x"), nil); err == nil || !strings.Contains(err.Error(), "the job forbids one") {
		t.Error(err)
	}
}
