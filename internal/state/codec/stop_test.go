package codec

import (
	"bytes"
	"testing"

	"berth"
)

// What is stored of a reason never changes, whatever people read.
func TestStopReasons(t *testing.T) {
	for r, stored := range storedTexts {
		reason := berth.StopReason(r)
		want := []byte{byte(r)}
		if reason > lastNumbered {
			want = append([]byte{255, byte(len(stored))}, stored...)
		}
		if got := bytesOf(berth.AllocStop{StopReason: reason}); !bytes.Equal(got, want) {
			t.Errorf("%s is written as %x, want %x", reason, got, want)
		}
		if s := reasonIn(t, want); s != (berth.AllocStop{StopReason: reason}) {
			t.Errorf("%x is read as %+v, want %s", want, s, reason)
		}
		for _, text := range []string{stored, reason.String()} {
			if StopReason(text) != reason {
				t.Errorf("%q stands for %s, want %s", text, StopReason(text), reason)
			}
		}
	}
	if lastNumbered != 15 || berth.StopReplaced != 2 || berth.StopMigrated != 10 || len(storedTexts) != int(berth.StopReasons) {
		t.Error("the numbers of reasons have changed, or one has no stored text")
	}
	other := berth.AllocStop{StopReason: berth.StopOther, Text: "something else"}
	if s := reasonIn(t, bytesOf(other)); s != other || s.Description() != other.Text {
		t.Errorf("another reason is read as %+v", s)
	}
	r := NewReader([]byte{16})
	r.stopReason(new(berth.AllocStop))
	if r.Err() == nil {
		t.Error("a number that was never written is read")
	}
}

func bytesOf(s berth.AllocStop) []byte {
	var w Writer
	w.stopReason(&s)
	return w.Buf()
}

func reasonIn(t *testing.T, b []byte) (s berth.AllocStop) {
	r := NewReader(b)
	r.stopReason(&s)
	if r.Err() != nil || r.Left() > 0 {
		t.Errorf("%x: %v, %d bytes are left", b, r.Err(), r.Left())
	}
	return s
}
