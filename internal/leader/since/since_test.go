package since

import (
	"testing"
	"time"
)

func TestOf(t *testing.T) {
	at := func(hour int) time.Time { return time.Unix(0, 0).Add(time.Duration(hour) * time.Hour) }
	var m Memory[string]
	for _, x := range []struct {
		name                    string
		key                     string
		stored, now, wantedHour int
	}{
		{"what is past counts from then", "a", 5, 6, 5},
		{"what lies ahead counts from now on", "a", 5, 3, 3},
		{"and goes on counting from that time", "a", 5, 4, 3},
		{"also when the clock has come to it", "a", 5, 6, 3},
		{"a later event counts from its own time", "a", 6, 6, 6},
		{"others have nothing to do with it", "b", 5, 4, 4},
		{"a clock that is put back again counts from then on", "b", 5, 2, 2},
	} {
		if got := m.Of(x.key, at(x.stored), at(x.now)); !got.Equal(at(x.wantedHour)) {
			t.Errorf("%s: from %v, want %v", x.name, got, at(x.wantedHour))
		}
	}
}
