package msgpack

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"time"
)

// timeType has a form of its own in storage, a timestamp.
var timeType = reflect.TypeFor[time.Time]()

// A time in storage is the Timestamp extension of msgpack: -1, in 4, 8 or 12
// bytes.
const timestamp = 0xff

// appendTime appends a timestamp in its shortest form, of 4, 8 or 12 bytes. The
// time zone is lost.
func appendTime(b []byte, v reflect.Value) ([]byte, error) {
	t := v.Interface().(time.Time)
	seconds, nanos := uint64(t.Unix()), uint64(t.Nanosecond())
	if seconds>>34 != 0 { // also true before 1970
		b = binary.BigEndian.AppendUint32(append(b, 0xc7, 12, timestamp), uint32(nanos))
		return binary.BigEndian.AppendUint64(b, seconds), nil
	}
	if both := nanos<<34 | seconds; both>>32 != 0 {
		return binary.BigEndian.AppendUint64(append(b, 0xd7, timestamp), both), nil
	}
	return binary.BigEndian.AppendUint32(append(b, 0xd6, timestamp), uint32(seconds)), nil
}

// readTime reads a timestamp of any of the three forms, into local time. A zero
// time is read in UTC, so that it equals time.Time{}.
func readTime(b []byte, v reflect.Value) ([]byte, error) {
	value, rest := cut(b)
	if len(value) == 0 || kindOf(value[0]) != "an extension" {
		return nil, mismatch(b, "a time")
	}
	head := 2 // fixext: its code and type
	if value[0] <= 0xc9 {
		head, _, _, _ = token(value)
		head++
	}
	if value[head-1] != timestamp {
		return nil, fmt.Errorf("want a time, got extension %d", int8(value[head-1]))
	}
	var t time.Time
	switch content := value[head:]; len(content) {
	case 4:
		t = time.Unix(int64(binary.BigEndian.Uint32(content)), 0)
	case 8:
		both := binary.BigEndian.Uint64(content)
		t = time.Unix(int64(both&(1<<34-1)), int64(both>>34))
	case 12:
		t = time.Unix(int64(binary.BigEndian.Uint64(content[4:])), int64(binary.BigEndian.Uint32(content)))
	default:
		return nil, fmt.Errorf("want a time of 4, 8 or 12 bytes, got %d", len(content))
	}
	if t.IsZero() {
		t = t.UTC() // a zero time has no zone
	}
	*v.Addr().Interface().(*time.Time) = t
	return rest, nil
}
